import { type Algorithm, clamp, toMs } from "./algorithm.ts";

/** The count, and when its window ends, µs. */
export interface FixedWindowState {
  readonly count: number;
  readonly ends: number;
}

/**
 * `a`: limit. `b`: window, µs. The window begins with its first unit.
 * Told in lua/algorithms/fixed-window.lua too.
 */
export const fixedWindowAlgorithm: Algorithm<FixedWindowState> = {
  tag: "fw",
  words: 2,

  room(numbers, state, now, cost, n) {
    const count = state && state.ends > now ? state.count : 0;
    return cost === 0 ? n : Math.floor((numbers.a - count) / cost);
  },

  charge({ b }, state, now, units) {
    if (!state || state.ends <= now) return { count: units, ends: now + b };
    return { count: state.count + units, ends: Math.min(state.ends, now + b) };
  },

  mend: ({ b }, state, now) => (state.ends - now > b ? { count: state.count, ends: now + b } : undefined),

  keepFor: (_, state, now) => state.ends - now,

  report({ b }, state, now) {
    if (!state || state.ends <= now) return [0, 0];
    const rest = state.ends - now;
    return [state.count, rest > b ? -1 : rest];
  },

  explain({ a: limit, b: window }, words, index, _now, cost, granted) {
    const count = words[index]!;
    const rest = toMs(words[index + 1]! < 0 ? window : words[index + 1]!);
    const remaining = clamp(limit - count, 0, limit);
    if (granted || cost === 0 || count + cost <= limit)
      return { remaining, nextMs: rest, fullMs: rest, reason: "ok" };
    if (cost > limit) return { remaining, nextMs: null, fullMs: rest, reason: "never" };
    return { remaining, nextMs: rest, fullMs: rest, reason: "limit" };
  },

  mark: (_, words, index, now) => now + words[index + 1]!,
};
