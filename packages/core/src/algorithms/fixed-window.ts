import { ConfigError } from "../errors.ts";
import { type Duration, duration, oneOf, onlyKnown, wholeNumber } from "../options.ts";
import { type Algorithm, clamp, type Numbers, toMs } from "./algorithm.ts";
import { type Bounds, calendar, type CalendarUnit } from "./calendar.ts";
import { COMMON, MOST_IN_FIELD, partOf, type Policy, policy, type PolicyOptions, unsplit } from "./policy.ts";

/** What {@link fixedWindow} takes. */
export interface FixedWindowOptions<R = any> extends PolicyOptions<R> {
  /** Units per window. Whole, 0 or more. */
  limit: number;
  /** The window: a span, or `"day"`, `"week"` (from Monday) or `"month"` of the calendar. */
  window: Duration;
  /**
   * When a window of a span begins: `"first"` (the default) with its first request, `"clock"` at
   * whole multiples of it since 1970, in UTC.
   */
  align?: "first" | "clock";
  /** The IANA time zone of a calendar window. `"UTC"` by default. */
  timeZone?: string;
}

/** A month, and an hour for a change of the clock, µs. */
const LONGEST_CALENDAR_US = (31 * 24 + 1) * 3_600_000_000;

/**
 * Units per window, counted from the window's first request, by the clock, or by the calendar. Up
 * to twice the limit may pass around a window's end.
 *
 * @throws ConfigError for an unusable number, an unknown time zone, or an alignment of a calendar window
 */
export function fixedWindow<R = any>(options: FixedWindowOptions<R>): Policy {
  onlyKnown("fixedWindow", options, ["limit", "window", "align", "timeZone", ...COMMON]);
  const limit = wholeNumber("fixedWindow.limit", options.limit, 0, MOST_IN_FIELD);
  const { window, align = "first", timeZone } = options;
  oneOf("fixedWindow.align", align, ["first", "clock"]);
  if (window === "day" || window === "week" || window === "month") {
    if (options.align !== undefined) {
      const advice = "leave it out: a calendar window has its own beginning";
      throw new ConfigError("TIDEGATE_OPTION_INVALID", "fixedWindow.align", align, advice);
    }
    return calendarWindow(options, limit, window, timeZone ?? "UTC");
  }
  if (timeZone !== undefined) {
    const advice = `leave it out, or give the window "day", "week" or "month"`;
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "fixedWindow.timeZone", timeZone, advice);
  }
  const windowMs = duration("fixedWindow.window", window);
  const numbers = { a: limit, b: windowMs * 1000, c: align === "clock" ? -1 : 0, lifetime: windowMs * 1000 };
  const ofLimit = (other: number) => fixedWindow({ ...unsplit(options), limit: other });
  return policy("fixedWindow", options, {
    algorithm: fixedWindowAlgorithm,
    numbers,
    limit,
    windowMs,
    rolling: false,
    shareOf: (instances, index) => ofLimit(partOf(limit, instances, index)),
    ofLimit,
  });
}

function calendarWindow(
  options: FixedWindowOptions,
  limit: number,
  unit: CalendarUnit,
  timeZone: string,
): Policy {
  const numbersOf = ({ start, end }: Bounds): Numbers => ({
    a: limit,
    b: start * 1000,
    c: end * 1000,
    lifetime: LONGEST_CALENDAR_US,
  });
  const boundsAt = calendar(unit, knownZone(timeZone));
  const ofLimit = (other: number) => fixedWindow({ ...unsplit(options), limit: other });
  return policy("fixedWindow", options, {
    algorithm: fixedWindowAlgorithm,
    numbers: numbersOf({ start: 0, end: 1 }),
    numbersAt: (ms) => numbersOf(boundsAt(ms)),
    calendar: `${unit} ${timeZone}`,
    limit,
    windowMs: { day: 1, week: 7, month: 31 }[unit] * 86_400_000,
    rolling: false,
    shareOf: (instances, index) => ofLimit(partOf(limit, instances, index)),
    ofLimit,
  });
}

function knownZone(timeZone: string): string {
  try {
    return new Intl.DateTimeFormat("en-US", { timeZone }).resolvedOptions().timeZone;
  } catch {
    const advice = `give an IANA time zone such as "Europe/Berlin"`;
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "fixedWindow.timeZone", timeZone, advice);
  }
}

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
  name: "fixedWindow",
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

  later(_, words, from, to) {
    const [count, left] = words as [number, number];
    if (count === 0) return words;
    return left > to - from ? [count, left - (to - from)] : undefined;
  },

  before: (_, words, at, units) => [words[at]! - units, words[at + 1]!],

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
