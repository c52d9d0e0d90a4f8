import { type Algorithm, clamp, type Numbers, toMs } from "./algorithm.ts";

/** The count, and when its window ends, µs. */
export interface FixedWindowState {
  readonly count: number;
  readonly ends: number;
}

/** What Redis may add to a lifetime by keeping whole milliseconds, µs. */
const ROUNDING = 1000;

/**
 * `a`: limit. `c` says when a window begins: 0, with its first unit, and `b` is its length, µs;
 * -1, at whole multiples of `b` since 1970; else this is a calendar window, from `b` until just
 * before `c`, µs.
 * Told in lua/algorithms/fixed-window.lua too.
 */
export const fixedWindowAlgorithm: Algorithm<FixedWindowState> = {
  tag: "fw",
  words: 2,

  room(numbers, state, now, cost, n) {
    return cost === 0 ? n : Math.floor((numbers.a - viewOf(numbers, state, now).count) / cost);
  },

  charge(numbers, state, now, units) {
    const { count, rest } = viewOf(numbers, state, now);
    if (rest === 0) return { count: units, ends: endAfter(now, lengthAt(numbers, now)) };
    return { count: count + units, ends: rest < 0 ? endAfter(now, -rest) : state!.ends };
  },

  mend(numbers, state, now) {
    const { count, rest } = viewOf(numbers, state, now);
    return rest < 0 ? { count, ends: endAfter(now, -rest) } : undefined;
  },

  keepFor: (_, state, now) => state.ends - now,

  report(numbers, state, now) {
    const { count, rest } = viewOf(numbers, state, now);
    return [count, rest];
  },

  explain({ a: limit }, words, index, _now, cost, granted) {
    const count = words[index]!;
    const rest = toMs(Math.abs(words[index + 1]!));
    const remaining = clamp(limit - count, 0, limit);
    if (granted || cost === 0 || count + cost <= limit) {
      return { remaining, nextMs: rest, fullMs: rest, reason: "ok" };
    }
    if (cost > limit) return { remaining, nextMs: null, fullMs: rest, reason: "never" };
    return { remaining, nextMs: rest, fullMs: rest, reason: "limit" };
  },

  credit(numbers, state, now, units, mark) {
    const { count, rest } = viewOf(numbers, state, now);
    if (rest <= 0 || count === 0 || Math.abs(now + rest - mark) > 2 * ROUNDING) return undefined;
    return { count: Math.max(0, count - units), ends: state.ends };
  },

  mark: (_, words, index, now) => now + words[index + 1]!,
};

/**
 * How long a window that begins now lasts, µs. One that begins with its first unit ends with the last
 * whole millisecond of its length.
 */
function lengthAt({ b, c }: Numbers, now: number): number {
  if (c === 0) return b - (now % 1000);
  return c < 0 ? b - (now % b) : c - now;
}

const endAfter = (now: number, us: number): number => Math.ceil((now + us) / 1000) * 1000;

/**
 * The count, and µs until its window ends: 0 when none has begun, the length of one, negative, when
 * this one would outlast it.
 */
function viewOf(numbers: Numbers, state: FixedWindowState | undefined, now: number) {
  const left = state ? state.ends - now : 0;
  if (!state || left <= 0) return { count: 0, rest: 0 };
  const whole = lengthAt(numbers, now);
  if (numbers.c === 0) return { count: state.count, rest: left > numbers.b ? -whole : left };
  if (left < whole - ROUNDING) return { count: 0, rest: 0 };
  return { count: state.count, rest: left > whole + ROUNDING ? -whole : whole };
}
