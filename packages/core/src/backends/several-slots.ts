import type { StoreError } from "../errors.ts";
import { wordsOf } from "../stores/protocol.ts";
import type { Check, Done, Outcome } from "../stores/store.ts";
import type { Backend } from "./backend.ts";
import { joined, type SlotPart, undoing } from "./slots.ts";

/** Where the parts go. A slot may move while a decision is under way. */
export interface Servers extends Pick<Backend, "settle" | "revoke"> {
  decideAt(slot: number, ...question: Parameters<Backend["decide"]>): void;
  /** Told of keys that get units back. */
  gaveBack(keys: readonly string[]): void;
}

/**
 * Decides a check whose keys are in several slots, which no script can touch together: every part is
 * judged first, and only when all have room are they charged. What is refused or fails then gives
 * back what the others were charged. So it is never more than the limits allow, and perhaps less
 * while others are at it.
 */
export function decideBySlot(parts: readonly SlotPart[], servers: Servers, done: Done): void {
  judge(parts, servers, (error, judgements) => {
    if (error) return done(error, undefined);
    const outcome = joined(parts, judgements);
    if (parts[0]!.check.peek || !outcome.granted) return done(undefined, outcome);
    charge(parts, servers, judgements, done);
  });
}

function judge(
  parts: readonly SlotPart[],
  servers: Servers,
  done: (error: StoreError | undefined, outcomes: Outcome[]) => void,
) {
  const outcomes: Outcome[] = [];
  let failure: StoreError | undefined;
  let left = parts.length;
  parts.forEach(({ slot, check }, i) => {
    const judged: Done = (error, outcome) => {
      const answer = outcome ?? onTrial(check);
      if (answer) outcomes[i] = answer;
      else failure ??= error;
      if (--left === 0) done(failure, outcomes);
    };
    servers.decideAt(slot, { ...check, peek: true, deadline: deadlineOf(check) }, judged, () => {});
  });
}

/** @param judgements stand for the parts that take nothing, and for what a part was before it gave back */
function charge(
  parts: readonly SlotPart[],
  servers: Servers,
  judgements: readonly Outcome[],
  done: Done,
): void {
  const outcomes = [...judgements];
  const charged: number[] = [];
  const taking = parts.flatMap(({ check }, i) => (check.costs.some((cost) => cost > 0) ? [i] : []));
  let failure: StoreError | undefined;
  let left = taking.length;
  if (left === 0) return done(undefined, joined(parts, outcomes));

  const one =
    (i: number): Done =>
    (error, outcome) => {
      const { check } = parts[i]!;
      if (outcome?.granted && !outcome.replayed) charged.push(i);
      const answer = outcome ?? onTrial(check);
      if (answer) outcomes[i] = answer;
      else failure ??= error;
      if (--left === 0) finish();
    };

  function finish(): void {
    if (!failure && outcomes.every(({ granted }) => granted)) return done(undefined, joined(parts, outcomes));
    for (const i of charged) {
      undo(parts[i]!, servers, outcomes[i]!);
      outcomes[i] = judgements[i]!;
    }
    if (failure) done(failure, undefined);
    else done(undefined, joined(parts, outcomes));
  }

  for (const i of taking) {
    const { slot, check } = parts[i]!;
    // The whole has failed by then, for this part failed: it was too late.
    const late = (outcome: Outcome) => outcome.granted && undo(parts[i]!, servers, outcome);
    servers.decideAt(slot, { ...check, deadline: deadlineOf(check) }, one(i), late);
  }
}

/** Gives back what a part was charged. Where that fails, the units stay charged. */
function undo({ check }: SlotPart, servers: Servers, outcome: Outcome): void {
  // What was given back may not be had again for nothing.
  if (check.nonce) servers.revoke([check.nonce.key], () => {});
  servers.gaveBack(check.keys);
  servers.settle(undoing(check, outcome), () => servers.gaveBack(check.keys));
}

/** What is on trial alone is waited for half as long: then there is time left for the others. */
function deadlineOf({ policies, deadline }: Check): number {
  if (policies.some(isEnforced)) return deadline;
  const now = performance.now();
  return now + (deadline - now) / 2;
}

const isEnforced = ({ mode }: { readonly mode: string }): boolean => mode !== "shadow";

/** Policies on trial refuse nobody, also when their server cannot be asked. */
function onTrial({ policies }: Check): Outcome | undefined {
  if (policies.some(isEnforced)) return undefined;
  const words = policies.flatMap((policy) => Array.from({ length: wordsOf(policy) }, () => 0));
  return { granted: true, now: Date.now() * 1000, words, blockedUs: undefined, replayed: false };
}
