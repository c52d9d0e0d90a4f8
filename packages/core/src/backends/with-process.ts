import type { Check, Outcome, Store } from "../stores/store.ts";
import type { Backend } from "./backend.ts";
import { type CheckPart, joined, onlyBlocks, partOf, undoing } from "./slots.ts";

/**
 * Policies of the scope `process` are counted in `memory`, all others by the backend behind. What
 * this process refuses is not asked elsewhere; what is refused or fails there is given back here.
 */
export function withProcess(next: Backend, memory: Store): Backend {
  const isOwn = ({ scope }: { readonly scope: string }) => scope === "process";

  return {
    get isOpen() {
      return next.isOpen;
    },
    get isConnected() {
      return next.isConnected;
    },
    decide(check, done, late) {
      if (!check.policies.some(isOwn)) return next.decide(check, done, late);
      const ownPart = partOf(check, placesOf(check, "process"), []);
      const outcome = decided(memory, ownPart.check);
      const rest = sharedPart(check);
      if (!outcome.granted || !rest) return done(undefined, joined([ownPart], [outcome]));
      const parts = [ownPart, rest];
      next.decide(
        rest.check,
        (error, answer) => {
          if (answer?.granted && !answer.replayed) return done(undefined, joined(parts, [outcome, answer]));
          if (!check.peek) giveBack(ownPart, outcome);
          if (!answer) return done(error, undefined);
          // As it stands again, and not as it was in between.
          const now = decided(memory, { ...ownPart.check, peek: true });
          done(undefined, { ...joined(parts, [now, answer]), granted: answer.granted });
        },
        (answer) => late(joined([rest], [answer])),
      );
    },
    settle(moves, done) {
      const own = moves.filter(({ policy }) => isOwn(policy));
      if (own.length === 0) return next.settle(moves, done);
      memory.settle(own, (_, here) => {
        const others = moves.filter(({ policy }) => !isOwn(policy));
        if (others.length === 0) return done(undefined, here);
        next.settle(others, (error, there) => done(error, here + there));
      });
    },
    forget(keys, done) {
      memory.forget(keys, (_, here) => next.forget(keys, (error, there) => done(error, here + there)));
    },
    revoke: (nonces, done) => next.revoke(nonces, done),
    block: (key, ms, reason, done) => next.block(key, ms, reason, done),
    stop: () => next.stop(),
    async close() {
      await memory.close();
      await next.close();
    },
  };

  function giveBack({ check }: CheckPart, outcome: Outcome): void {
    memory.settle(undoing(check, outcome), () => {});
  }
}

const placesOf = ({ policies }: Check, scope: "process" | "shared"): number[] =>
  policies.flatMap((policy, i) => (policy.scope === scope ? [i] : []));

/** What is to be asked of the store; `undefined`: nothing. */
function sharedPart(check: Check): CheckPart | undefined {
  const places = placesOf(check, "shared");
  if (places.length > 0) return partOf(check, places, check.blocks);
  return check.blocks.length > 0 ? onlyBlocks(check, check.blocks) : undefined;
}

/** Memory answers at once, and always. */
function decided(memory: Store, check: Check): Outcome {
  let answer: Outcome | undefined;
  memory.decide([{ ...check, nonce: undefined }], [(_, outcome) => (answer = outcome)]);
  return answer!;
}
