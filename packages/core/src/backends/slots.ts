import { headOf, nonceBeside } from "../identity/key.ts";
import { wordsOf } from "../stores/protocol.ts";
import type { Check, Move, Outcome } from "../stores/store.ts";

/** Some of a check's policies, as a check of their own. */
export interface CheckPart {
  /** Which of the whole check's policies these are. */
  readonly places: readonly number[];
  readonly check: Check;
}

/** The part of a check whose keys share a slot. */
export interface SlotPart extends CheckPart {
  readonly slot: number;
}

/** @param blocks those that this part heeds */
export const partOf = (check: Check, places: readonly number[], blocks: readonly string[]): CheckPart => ({
  places,
  check: {
    ...check,
    policies: places.map((i) => check.policies[i]!),
    keys: places.map((i) => check.keys[i]!),
    costs: places.map((i) => check.costs[i]!),
    blocks,
  },
});

/** The slot of a check, if all of its keys share one. */
export function slotOf(check: Check, slotFor: (key: string) => number): number | undefined {
  const { keys, blocks, nonce } = check;
  const slot = slotFor(keys[0]!);
  if (keys.length === 1 && blocks.length === 0 && !nonce) return slot;
  const head = headOf(keys[0]!);
  const isElsewhere = (key: string) => !key.startsWith(head) && slotFor(key) !== slot;
  if (keys.some(isElsewhere) || blocks.some(isElsewhere) || (nonce && isElsewhere(nonce.key)))
    return undefined;
  return slot;
}

/** A check, slot by slot. Each part is a check of its own, and heeds the blocks of its slot. */
export function splitBySlot(check: Check, slotFor: (key: string) => number): SlotPart[] {
  const places = grouped(
    check.keys.map((_, i) => i),
    (i) => slotFor(check.keys[i]!),
  );
  const blocks = grouped(check.blocks, slotFor);
  const parts = [...places].map(([slot, at]) => ({ slot, ...partOf(check, at, blocks.get(slot) ?? []) }));
  // Where all of an identity's policies are in shards, nothing else is in the slot of its block.
  for (const [slot, keys] of blocks) if (!places.has(slot)) parts.push({ slot, ...onlyBlocks(check, keys) });
  return parts.map((part) => ({ ...part, check: withOwnNonce(part.check) }));
}

/** A check of a key that nobody writes, which is refused when the identity is blocked. */
export function onlyBlocks(check: Check, blocks: readonly string[]): CheckPart {
  const keys = [`${headOf(blocks[0]!)}::0`];
  const { check: one } = partOf(check, [0], blocks);
  return { places: [], check: { ...one, keys, costs: [0], lease: undefined } };
}

/** The same nonce, beside the keys of this slot. */
function withOwnNonce(check: Check): Check {
  const { nonce, keys } = check;
  if (!nonce) return check;
  return { ...check, nonce: { ...nonce, key: nonceBeside(nonce.key, keys[0]!) } };
}

/** Items by what `by` says of them, in order. */
export function grouped<T>(items: readonly T[], by: (item: T) => number): Map<number, T[]> {
  const groups = new Map<number, T[]>();
  for (const item of items) {
    const group = by(item);
    const known = groups.get(group);
    if (known) known.push(item);
    else groups.set(group, [item]);
  }
  return groups;
}

/** What the parts' outcomes mean for the whole check, or for as much of it as they are. */
export function joined(parts: readonly CheckPart[], outcomes: readonly Outcome[]): Outcome {
  const words: number[][] = [];
  const nows: number[] = [];
  let blockedUs: number | undefined;
  parts.forEach(({ places, check }, part) => {
    const outcome = outcomes[part]!;
    if (outcome.blockedUs !== undefined) blockedUs = Math.max(blockedUs ?? 0, outcome.blockedUs);
    let at = 0;
    places.forEach((place, i) => {
      const policy = check.policies[i]!;
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
    places: parts.flatMap(({ places }) => places),
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
