import { wordsOf } from "../stores/protocol.ts";
import type { Check, Done, Outcome, Store } from "../stores/store.ts";
import type { Tier } from "./tier.ts";

/** So many checks keep a server for about 0.2 ms. */
const MOST_AT_ONCE = 64;

/** Equal checks that came one after the other, asked as one. */
interface Entry {
  check: Check;
  readonly dones: Done[];
}

/**
 * Sends the checks of one turn of the event loop together, in their order, and neighbours that ask
 * the same as one that asks so many times. One that comes while nothing is under way goes out at
 * once: it may be the only one.
 *
 * @param told of how many decisions go out in one call
 * @param slotOf where only checks of one slot may go together
 */
export function coalesce(
  store: Store,
  told: (decisions: number) => void,
  slotOf?: (check: Check) => number,
): Tier {
  let underWay = 0;
  /** By slot, where there are any. */
  let queues = new Map<number, Entry[]>();

  function sendAll(): void {
    const all = queues;
    queues = new Map();
    const act = () => all.forEach(sendTogether);
    if (all.size > 1 && store.cork) store.cork(act);
    else act();
  }

  function sendTogether(batch: readonly Entry[]): void {
    if (batch.length === 0) return;
    told(batch.reduce((sum, { dones }) => sum + dones.length, 0));
    store.decide(batch.map(asked), batch.map(answer));
  }

  function enqueue(slot: number, check: Check, done: Done): void {
    const queue = queues.get(slot);
    const last = queue?.at(-1);
    if (last && isSame(last.check, check)) {
      last.dones.push(done);
      if (check.deadline < last.check.deadline) last.check = check;
      return;
    }
    const entry = { check, dones: [done] };
    if (queue) queue.push(entry);
    else {
      if (queues.size === 0) setImmediate(sendAll);
      queues.set(slot, [entry]);
    }
    if (queue?.length !== MOST_AT_ONCE) return;
    queues.set(slot, []);
    sendTogether(queue);
  }

  const answer =
    (entry: Entry): Done =>
    (error, outcome) => {
      underWay -= entry.dones.length;
      tell(entry, error, outcome);
    };

  return {
    decide(check, done) {
      if (underWay++ === 0) {
        told(1);
        return store.decide(
          [check],
          [
            (error, outcome) => {
              underWay--;
              done(error, outcome);
            },
          ],
        );
      }
      enqueue(slotOf ? slotOf(check) : 0, check, done);
    },
  };
}

/** What looks charges nothing: asked once, it is answered to all. */
const asked = ({ check, dones }: Entry): Check =>
  dones.length === 1 || check.peek ? check : { ...check, times: dones.length };

/** Whether two checks ask the same, of state that two answers can be told from. */
function isSame(one: Check, other: Check): boolean {
  if (one.peek !== other.peek || one.lease || other.lease || one.nonce || other.nonce) return false;
  if (one.keys.length !== other.keys.length || one.blocks.length !== other.blocks.length) return false;
  for (let i = 0; i < one.keys.length; i++) {
    const policy = one.policies[i]!;
    if (policy !== other.policies[i] || one.keys[i] !== other.keys[i] || one.costs[i] !== other.costs[i])
      return false;
    if (!policy.algorithm.before || policy.mode === "shadow") return false;
  }
  return one.blocks.every((key, i) => key === other.blocks[i]);
}

/** Who came first is granted first. Each hears of the state as it was after its own charge. */
function tell({ check, dones }: Entry, error: Parameters<Done>[0], outcome: Outcome | undefined): void {
  const granted = outcome?.times ?? 0;
  if (dones.length === 1 || !outcome || granted === 0) {
    for (const done of dones) done(error, outcome);
    return;
  }
  const refused = { ...outcome, granted: false };
  dones.forEach((done, i) => {
    const later = granted - 1 - i;
    if (later < 0) done(undefined, refused);
    else done(undefined, later === 0 ? outcome : grantedWith(outcome, wordsBefore(check, outcome, later)));
  });
}

/** Field by field: a spread costs many times as much. */
const grantedWith = ({ now }: Outcome, words: readonly number[]): Outcome => ({
  granted: true,
  now,
  words,
  blockedUs: undefined,
  replayed: false,
});

/** The state before the last `times` of the charges. */
function wordsBefore({ policies, costs }: Check, { words }: Outcome, times: number): number[] {
  if (policies.length === 1)
    return policies[0]!.algorithm.before!(policies[0]!.numbers, words, 0, times * costs[0]!);
  const before: number[] = [];
  let at = 0;
  policies.forEach((policy, i) => {
    before.push(...policy.algorithm.before!(policy.numbers, words, at, times * costs[i]!));
    at += wordsOf(policy);
  });
  return before;
}
