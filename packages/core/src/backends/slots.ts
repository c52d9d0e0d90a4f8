import { wordsOf } from "../stores/protocol.ts";
import type { Check, Move, Outcome } from "../stores/store.ts";

/** The part of a check whose keys share a slot. */
export interface SlotPart {
  readonly slot: number;
  /** Which of the whole check's policies these are. */
  readonly places: readonly number[];
  readonly check: Check;
}

/** A key up to the end of its hash tag: what chooses its slot. */
const headOf = (key: string): string => key.slice(0, key.indexOf("}") + 1);

/** The slot of a check, if all of its keys share one. */
export function slotOf({ keys }: Check, slotFor: (key: string) => number): number | undefined {
  const [first] = keys;
  const slot = slotFor(first!);
  const head = headOf(first!);
  for (let i = 1; i < keys.length; i++) {
    if (!keys[i]!.startsWith(head) && slotFor(keys[i]!) !== slot) return undefined;
  }
  return slot;
}

/** A check, slot by slot. Each part is a check of its own, and heeds the blocks of its slot. */
export function splitBySlot(check: Check, slotFor: (key: string) => number): SlotPart[] {
  const places = new Map<number, number[]>();
  check.keys.forEach((key, i) => {
    const slot = slotFor(key);
    const known = places.get(slot);
    if (known) known.push(i);
    else places.set(slot, [i]);
  });
  return [...places].map(([slot, at]) => {
    const keys = at.map((i) => check.keys[i]!);
    const { nonce } = check;
    return {
      slot,
      places: at,
      check: {
        ...check,
        policies: at.map((i) => check.policies[i]!),
        keys,
        costs: at.map((i) => check.costs[i]!),
        blocks: check.blocks.filter((key) => slotFor(key) === slot),
        // The same nonce, beside the keys of this slot.
        nonce: nonce && { ...nonce, key: headOf(keys[0]!) + nonce.key.slice(headOf(nonce.key).length) },
      },
    };
  });
}

/** What the parts' outcomes mean for the whole check. */
export function joined(parts: readonly SlotPart[], outcomes: readonly Outcome[]): Outcome {
  const words: number[][] = [];
  const nows: number[] = [];
  let blockedUs: number | undefined;
  parts.forEach(({ places, check }, part) => {
    const outcome = outcomes[part]!;
    if (outcome.blockedUs !== undefined) blockedUs = Math.max(blockedUs ?? 0, outcome.blockedUs);
    let at = 0;
    check.policies.forEach((policy, i) => {
      const place = places[i]!;
      words[place] = outcome.words.slice(at, (at += wordsOf(policy)));
      nows[place] = outcome.now;
    });
  });
  return {
    granted: outcomes.every(({ granted }) => granted),
    now: outcomes[0]!.now,
    nows,
    words: words.flat(),
    blockedUs,
    // A part that was charged beside one that was replayed is not given back: which of them, nobody knows later.
    replayed: outcomes.some(({ replayed }) => replayed),
  };
}

/** What takes a charge back. */
export function undoing({ policies, keys, costs, lease }: Check, { words, now }: Outcome): Move[] {
  const moves: Move[] = [];
  let at = 0;
  policies.forEach((policy, i) => {
    const { algorithm, numbers, mode } = policy;
    const units = costs[i]!;
    const charged = units > 0 && (mode !== "shadow" || words[at + algorithm.words] === 1);
    if (charged) {
      const mark = algorithm.mark(numbers, words, at, now, units);
      moves.push({ kind: "credit", policy, key: keys[i]!, units, mark, lease });
    }
    at += wordsOf(policy);
  });
  return moves;
}
