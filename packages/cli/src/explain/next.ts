/** What a policy's integers are after a charge that nobody makes. */
import type { Check, Outcome, Policy } from "@tidegate/core";

type Numbers = Policy["numbers"];

/**
 * A state that reads as the integers say, by algorithm; `undefined` for one never written. What they leave out, how a
 * log's units lie between its first and its last, no allowed request meets.
 * source: lua/README.md, "Algorithms"
 */
const STATES: Readonly<Record<string, (words: readonly number[], now: number, numbers: Numbers) => unknown>> =
  {
    tb: ([micro, ts]) => ({ micro, ts }),
    gc: ([tat]) => (tat === 0 ? undefined : { tat }),
    sw: ([current, previous], now, { b: window }) => ({
      number: Math.floor(now / window) % 2 ** 32,
      current,
      previous: Math.max(0, previous!),
    }),
    fw: ([count, rest], now) => (rest === 0 ? undefined : { count, ends: now + Math.abs(rest!) }),
    sl: ([count, first, , last]) =>
      count === 0
        ? undefined
        : [...(count! > 1 ? [first!] : []), ...Array<number>(Math.max(1, count! - 1)).fill(last!)],
    cc: ([held, latest]) => new Map(Array.from({ length: held! }, (_, i) => [`held ${i}`, latest!])),
  };

/** How many integers of state a policy has, one more on trial: whether it would have let the request pass. */
export const wordsOf = ({ algorithm, mode }: Policy): number => algorithm.words + (mode === "shadow" ? 1 : 0);

/** The outcome as it would be, were the check no mere look. */
export function afterCharge({ policies, costs }: Check, outcome: Outcome): Outcome {
  if (!outcome.granted) return outcome;
  let at = 0;
  const words = policies.flatMap((policy, i) => {
    const own = outcome.words.slice(at, (at += wordsOf(policy)));
    const state = own.slice(0, policy.algorithm.words);
    const rest = own.slice(policy.algorithm.words);
    if (costs[i] === 0 || rest[0] === 0) return own;
    return [...charged(policy, state, outcome.nows?.[i] ?? outcome.now, costs[i]!), ...rest];
  });
  return { ...outcome, words };
}

function charged(policy: Policy, words: readonly number[], now: number, cost: number): readonly number[] {
  const { algorithm } = policy;
  const numbers = policy.numbersAt?.(now / 1000) ?? policy.numbers;
  const state = STATES[algorithm.tag]?.(words, now, numbers);
  return algorithm.report(numbers, algorithm.charge(numbers, state, now, cost, "next"), now, cost);
}
