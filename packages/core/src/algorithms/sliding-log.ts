import { type Algorithm, clamp, goesInTime, type Numbers, toMs } from "./algorithm.ts";
import { partOf, type Policy, policy, unsplit, windowed, type WindowOptions } from "./policy.ts";

const MOST_IN_LOG = 1000;

/**
 * Units per sliding window, exactly: no window of this length holds more than the limit. Keeps one
 * entry for each unit, so the limit is at most 1,000.
 *
 * @throws ConfigError for an unusable number
 */
export function slidingLog<R = any>(options: WindowOptions<R>): Policy {
  const { limit, window } = windowed("slidingLog", options, MOST_IN_LOG, "; use slidingWindow for more");
  const numbers = { a: limit, b: window * 1000, c: 0, lifetime: window * 1000 + 2 * limit };
  const ofLimit = (other: number) => slidingLog({ ...unsplit(options), limit: other });
  return policy("slidingLog", options, {
    algorithm: slidingLogAlgorithm,
    numbers,
    limit,
    windowMs: window,
    shareOf: (instances, index) => ofLimit(partOf(limit, instances, index)),
    ofLimit,
  });
}

/** A stamp for each unit, µs, ascending. */
export type SlidingLogState = readonly number[];

/**
 * `a`: limit, at most 1000. `b`: window, µs.
 * Told in lua/algorithms/sliding-log.lua too.
 */
export const slidingLogAlgorithm: Algorithm<SlidingLogState> = {
  tag: "sl",
  name: "slidingLog",
  words: 4,

  room(numbers, state, now, cost, n) {
    return cost === 0 ? n : Math.floor((numbers.a - countOf(numbers, state, now)) / cost);
  },

  charge(numbers, state, now, units) {
    const kept = state ? state.slice(state.length - countOf(numbers, state, now)) : [];
    const first = Math.max(now, (state?.at(-1) ?? 0) + 1);
    for (let i = 0; i < units; i++) kept.push(first + i);
    return kept;
  },

  mend(numbers, state, now, left) {
    if ((state.at(-1) ?? 0) > now + 2 * numbers.a)
      return Array.from({ length: numbers.a }, (_, i) => now + i);
    return goesInTime(numbers, left) ? undefined : state;
  },

  keepFor: ({ b }, state, now) => (state.at(-1) ?? now) + b - now,

  report(numbers, state, now, cost) {
    const { a: limit } = numbers;
    const count = countOf(numbers, state, now);
    if (!state || count === 0) return [0, 0, 0, 0];
    const nth = (place: number) => state[state.length - count + place - 1]!;
    const full = count + cost > limit && cost <= limit;
    return [count, nth(clamp(count - limit + 1, 1, count)), full ? nth(count + cost - limit) : 0, nth(count)];
  },

  explain({ a: limit, b: window }, words, index, now, cost, granted) {
    const count = words[index]!;
    const remaining = clamp(limit - count, 0, limit);
    const fullMs = count > 0 ? toMs(words[index + 3]! + window - now) : 0;
    if (granted || cost === 0 || count + cost <= limit) {
      return {
        remaining,
        nextMs: count > 0 ? toMs(words[index + 1]! + window - now) : 0,
        fullMs,
        reason: "ok",
      };
    }
    if (cost > limit) return { remaining, nextMs: null, fullMs, reason: "never" };
    return { remaining, nextMs: toMs(words[index + 2]! + window - now), fullMs, reason: "limit" };
  },

  credit(_, state, _now, units, mark) {
    const kept = state.filter((stamp) => stamp < mark || stamp >= mark + units);
    return kept.length < state.length ? kept : undefined;
  },

  costInWords: true,

  // The stamps of those that leave next but one are not told.
  later: (numbers, words, _, to) => (words[0] === 0 || words[1]! + numbers.b > to ? words : undefined),

  // What a cost waits for is asked of a refusal only, and there is none before a charge.
  before: (_, words, at, units) => [words[at]! - units, words[at + 1]!, 0, words[at + 3]! - units],

  mark: (_, words, index, __, units) => words[index + 3]! - units + 1,
};

/** How many stamps the last window holds. They are the last ones: the list ascends. */
function countOf({ b }: Numbers, state: SlidingLogState | undefined, now: number): number {
  if (!state) return 0;
  let low = 0;
  let high = state.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (state[middle]! > now - b) high = middle;
    else low = middle + 1;
  }
  return state.length - low;
}
