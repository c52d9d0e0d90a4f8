import { type Algorithm, clamp, goesInTime, type Numbers, rest, toMs, waitMs } from "./algorithm.ts";
import { partOf, type Policy, policy, unsplit, windowed, type WindowOptions } from "./policy.ts";

const MOST_IN_WINDOW = 2 ** 32 - 1;

/**
 * Units per sliding window, from two counters: the last window's count is taken to have come evenly.
 * Small state, smooth; what it may let pass above the limit, docs/samples.md shows.
 *
 * @throws ConfigError for an unusable number
 */
export function slidingWindow<R = any>(options: WindowOptions<R>): Policy {
  const { limit, window } = windowed("slidingWindow", options, MOST_IN_WINDOW, "; use tokenBucket for more");
  const numbers = { a: limit, b: window * 1000, c: 0, lifetime: window * 2000 };
  const ofLimit = (other: number) => slidingWindow({ ...unsplit(options), limit: other });
  return policy("slidingWindow", options, {
    algorithm: slidingWindowAlgorithm,
    numbers,
    limit,
    windowMs: window,
    shareOf: (instances, index) => ofLimit(partOf(limit, instances, index)),
    ofLimit,
  });
}

/** The number of a window, the count in it and in the one before. */
export interface SlidingWindowState {
  readonly number: number;
  readonly current: number;
  readonly previous: number;
}

/** As the state looks at a moment. `previous` is -1 when its window is yet to come. */
interface View {
  readonly current: number;
  readonly previous: number;
}

/**
 * `a`: limit. `b`: window, µs.
 * Told in lua/algorithms/sliding-window.lua too.
 */
export const slidingWindowAlgorithm: Algorithm<SlidingWindowState> = {
  tag: "sw",
  name: "slidingWindow",
  words: 2,

  room(numbers, state, now, cost, n) {
    if (cost === 0) return n;
    const { current, previous } = viewOf(numbers, state, now);
    return Math.floor(free(numbers, now, current, previous) / (cost * numbers.b));
  },

  charge(numbers, state, now, units) {
    const { current, previous } = viewOf(numbers, state, now);
    return { number: numberOf(numbers, now), current: current + units, previous: Math.max(0, previous) };
  },

  mend(numbers, state, now, left) {
    const view = viewOf(numbers, state, now);
    if (view.previous >= 0 && goesInTime(numbers, left)) return undefined;
    let { current } = view;
    let previous = Math.max(0, view.previous);
    if (free(numbers, now, current, previous) <= 0) {
      current = Math.ceil((numbers.a * (now % numbers.b)) / numbers.b);
      previous = numbers.a;
    }
    return { number: numberOf(numbers, now), current, previous };
  },

  keepFor: ({ b }, _, now) => 2 * b - rest(now, b),

  report(numbers, state, now) {
    const { current, previous } = viewOf(numbers, state, now);
    return [current, previous];
  },

  explain(numbers, words, index, now, cost, granted) {
    const limit = numbers.a;
    const current = words[index]!;
    const previous = Math.max(0, words[index + 1]!);
    const left = free(numbers, now, current, previous);
    const remaining = clamp(Math.floor(left / numbers.b), 0, limit);
    const fullMs = toMs(untilFull(numbers, now, current, previous));
    if (granted || cost === 0 || Math.floor(left / (cost * numbers.b)) >= 1) {
      return {
        remaining,
        nextMs: until(numbers, now, current, previous, Math.min(remaining + 1, limit)),
        fullMs,
        reason: "ok",
      };
    }
    if (cost > limit) return { remaining, nextMs: null, fullMs, reason: "never" };
    return { remaining, nextMs: until(numbers, now, current, previous, cost), fullMs, reason: "limit" };
  },

  credit(numbers, state, now, units, mark) {
    const { current, previous } = viewOf(numbers, state, now);
    const number = numberOf(numbers, now);
    if (previous < 0) return undefined;
    if (mark === number && current > 0) return { number, current: Math.max(0, current - units), previous };
    if (mark === (number - 1 + WRAP) % WRAP && previous > 0) {
      return { number, current, previous: Math.max(0, previous - units) };
    }
    return undefined;
  },

  later(numbers, words, from, to) {
    const state = { number: numberOf(numbers, from), current: words[0]!, previous: words[1]! };
    // What a clock that stepped back left behind is asked for again.
    if (state.previous < 0) return undefined;
    const { current, previous } = viewOf(numbers, state, to);
    return [current, previous];
  },

  before: (_, words, at, units) => [words[at]! - units, words[at + 1]!],

  mark: (numbers, _words, _index, now) => numberOf(numbers, now),
};

/** Redis keeps the number of a window in 32 bits. */
const WRAP = 2 ** 32;

const numberOf = ({ b }: Numbers, now: number): number => rest((now - rest(now, b)) / b, WRAP);

function viewOf(numbers: Numbers, state: SlidingWindowState | undefined, now: number): View {
  if (!state) return { current: 0, previous: 0 };
  const age = (numberOf(numbers, now) - state.number + WRAP) % WRAP;
  if (age === 0) return { current: state.current, previous: state.previous };
  if (age === 1) return { current: 0, previous: state.current };
  if (age < WRAP / 2) return { current: 0, previous: 0 };
  return { current: state.current + state.previous, previous: -1 };
}

/** limit - previous·(1 - elapsed/window) - current, times the window: whole numbers need no rounding. */
function free({ a, b }: Numbers, now: number, current: number, previous: number): number {
  return (a - current) * b - Math.max(0, previous) * (b - rest(now, b));
}

/** Milliseconds until `cost` fits, if nobody comes. The estimate is the closed form, the check the rule itself. */
function until(numbers: Numbers, now: number, current: number, previous: number, cost: number): number {
  const { a: limit, b: window } = numbers;
  const elapsed = rest(now, window);
  const left = limit - cost;
  let estimate = window - elapsed + Math.max(0, window * (1 - left / current));
  if (current <= left) estimate = previous > 0 ? window * (1 - (left - current) / previous) - elapsed : 0;
  const state = { number: numberOf(numbers, now), current, previous };
  return waitMs(estimate, (ms) => slidingWindowAlgorithm.room(numbers, state, now + ms * 1000, cost, 1) >= 1);
}

function untilFull({ b: window }: Numbers, now: number, current: number, previous: number): number {
  const left = window - rest(now, window);
  if (current > 0) return window + left;
  return previous > 0 ? left : 0;
}
