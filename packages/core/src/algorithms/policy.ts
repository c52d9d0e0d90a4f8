import { ConfigError } from "../errors.ts";
import type { By, MaybePromise } from "../identity/identity.ts";
import {
  type Duration,
  duration,
  isCost,
  LONGEST_MS,
  oneOf,
  onlyKnown,
  positiveNumber,
  wholeNumber,
} from "../options.ts";
import type { Algorithm, Numbers } from "./algorithm.ts";
import { type Bounds, calendar, type CalendarUnit } from "./calendar.ts";
import { concurrencyAlgorithm } from "./concurrency.ts";
import { fixedWindowAlgorithm } from "./fixed-window.ts";
import { gcraAlgorithm } from "./gcra.ts";
import { slidingLogAlgorithm } from "./sliding-log.ts";
import { slidingWindowAlgorithm } from "./sliding-window.ts";
import { tokenBucketAlgorithm } from "./token-bucket.ts";

/**
 * - `enforce`: the policy refuses what it has no room for
 * - `shadow`: it never refuses and is charged only for what passes: a limit on trial
 */
export type Mode = "enforce" | "shadow";

/** What a policy counts. `requests` is not shown in headers. source: draft-ietf-httpapi-ratelimit-headers-11 §3.1.2 */
export type Unit = "requests" | "content-bytes" | "concurrent-requests";

/** A named limit's algorithm and numbers. Made by {@link tokenBucket} and its siblings, and not changed after. */
export interface Policy {
  readonly algorithm: Algorithm<any>;
  readonly numbers: Numbers;
  /** The numbers at a moment, where they depend on it (ms since 1970): calendar windows. */
  readonly numbersAt: ((ms: number) => Numbers) | undefined;
  /** The part of the calendar and the time zone, where the window is one. */
  readonly calendar: string | undefined;
  /** Units: what a client may use at once. */
  readonly limit: number;
  /** Milliseconds: the span the limit belongs to; for a bucket, from empty to full; `undefined` for concurrency. */
  readonly windowMs: number | undefined;
  /** Whether units come back one by one, and not all at the window's end. */
  readonly rolling: boolean;
  readonly by: By | undefined;
  readonly mode: Mode;
  readonly unit: Unit;
  /** Units a request takes of this policy, where it is not what it takes of the others. */
  readonly cost: Cost | undefined;
}

export type Cost<R = any> = number | ((request: R) => MaybePromise<number>);

/** What every policy takes besides its numbers. */
export interface PolicyOptions<R = any> {
  /** Who this policy counts, where it is not who the others count. */
  by?: By<R>;
  /** Units a request takes of this policy, where it is not what it takes of the others. */
  cost?: Cost<R>;
  /** `"enforce"` by default. */
  mode?: Mode;
  /** What is counted, for clients to read. `"requests"` by default. */
  unit?: Unit;
}

export interface TokenBucketOptions<R = any> extends PolicyOptions<R> {
  /** Tokens the bucket holds: the largest burst. Whole, 0 to 9,007,199,254. */
  capacity: number;
  /** Tokens that flow in per second. Above 0; from empty to full takes at most ten years. */
  refillPerSecond: number;
}

export interface WindowOptions<R = any> extends PolicyOptions<R> {
  /** Units per window. Whole, 0 or more. */
  limit: number;
  /** The window: whole milliseconds, or text such as `"1m"`. 1 ms to ten years. */
  window: Duration;
}

export interface GcraOptions<R = any> extends WindowOptions<R> {
  /** Units that may come at once. `limit` by default. */
  burst?: number;
}

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

export interface ConcurrencyOptions<R = any> extends PolicyOptions<R> {
  /** How many may be in flight. Whole, 0 to 100,000. */
  limit: number;
  /**
   * How long a slot is kept for a process that says nothing any more, milliseconds: 30,000 by
   * default. While the process lives, its slots are renewed.
   */
  leaseMs?: number;
}

/** Millionths of a token have to be counted exactly. */
const MOST_TOKENS = Math.floor(Number.MAX_SAFE_INTEGER / 1_000_000);
const MOST_IN_WINDOW = 2 ** 32 - 1;
const MOST_IN_LOG = 1000;
const MOST_IN_FLIGHT = 100_000;
/** The largest integer a header field may carry. source: RFC 9651 §3.3.1 */
const MOST_IN_FIELD = 999_999_999_999_999;
/** Above, the rounding of an interval to quarters of a µs would be more than 1 %. */
const MOST_GCRA_PER_SECOND = 40_000;
/** A month, and an hour for a change of the clock, µs. */
const LONGEST_CALENDAR_US = (31 * 24 + 1) * 3_600_000_000;

const COMMON = ["by", "cost", "mode", "unit"];
const LATER = ["scope", "shards"];

/**
 * A bucket of tokens, refilled evenly: bursts up to `capacity`, `refillPerSecond` in the long run.
 *
 * @throws ConfigError for an unusable number
 */
export function tokenBucket<R = any>(options: TokenBucketOptions<R>): Policy {
  onlyKnown("tokenBucket", options, ["capacity", "refillPerSecond", ...COMMON], LATER);
  const capacity = wholeNumber(
    "tokenBucket.capacity",
    options.capacity,
    0,
    MOST_TOKENS,
    "; count larger ones in larger units",
  );
  const rate = positiveNumber("tokenBucket.refillPerSecond", options.refillPerSecond);
  const windowMs = (capacity / rate) * 1000;
  notTooSlow("tokenBucket.refillPerSecond", rate, windowMs);
  // A bucket may be in debt by as much as it holds: then it takes twice as long.
  const numbers = { a: capacity, b: rate, c: 0, lifetime: Math.ceil(windowMs * 2000) };
  return policy("tokenBucket", options, {
    algorithm: tokenBucketAlgorithm,
    numbers,
    limit: capacity,
    windowMs,
  });
}

/**
 * `limit` units per window, evenly, and up to `burst` at once: a token bucket that keeps one
 * integer.
 *
 * @throws ConfigError for an unusable number
 */
export function gcra<R = any>(options: GcraOptions<R>): Policy {
  const { limit, window } = windowed("gcra", options, MOST_IN_FIELD, "", ["burst"]);
  if ((limit / window) * 1000 > MOST_GCRA_PER_SECOND) {
    const advice = `give at most ${MOST_GCRA_PER_SECOND} a second; use tokenBucket for more`;
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "gcra.limit", limit, advice);
  }
  const burst = limit === 0 ? 0 : wholeNumber("gcra.burst", options.burst ?? limit, 0, MOST_TOKENS);
  const interval = Math.ceil((window * 4000) / Math.max(1, limit));
  const windowMs = (burst * interval) / 4000;
  notTooSlow("gcra.burst", burst, windowMs);
  // A bucket may be in debt by as much as it holds: then it takes twice as long.
  const numbers = { a: burst, b: interval, c: 0, lifetime: Math.ceil((2 * burst * interval) / 4) };
  return policy("gcra", options, { algorithm: gcraAlgorithm, numbers, limit: burst, windowMs });
}

/**
 * Units per sliding window, from two counters: the last window's count is taken to have come evenly.
 * Small state, smooth; what it may let pass above the limit, docs/samples.md shows.
 *
 * @throws ConfigError for an unusable number
 */
export function slidingWindow<R = any>(options: WindowOptions<R>): Policy {
  const { limit, window } = windowed("slidingWindow", options, MOST_IN_WINDOW, "; use tokenBucket for more");
  const numbers = { a: limit, b: window * 1000, c: 0, lifetime: window * 2000 };
  return policy("slidingWindow", options, {
    algorithm: slidingWindowAlgorithm,
    numbers,
    limit,
    windowMs: window,
  });
}

/**
 * Units per sliding window, exactly: no window of this length holds more than the limit. Keeps one
 * entry for each unit, so the limit is at most 1,000.
 *
 * @throws ConfigError for an unusable number
 */
export function slidingLog<R = any>(options: WindowOptions<R>): Policy {
  const { limit, window } = windowed("slidingLog", options, MOST_IN_LOG, "; use slidingWindow for more");
  const numbers = { a: limit, b: window * 1000, c: 0, lifetime: window * 1000 + 2 * limit };
  return policy("slidingLog", options, { algorithm: slidingLogAlgorithm, numbers, limit, windowMs: window });
}

/**
 * Units per window, counted from the window's first request, by the clock, or by the calendar. Up
 * to twice the limit may pass around a window's end.
 *
 * @throws ConfigError for an unusable number, an unknown time zone, or an alignment of a calendar window
 */
export function fixedWindow<R = any>(options: FixedWindowOptions<R>): Policy {
  onlyKnown("fixedWindow", options, ["limit", "window", "align", "timeZone", ...COMMON], LATER);
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
  return policy("fixedWindow", options, {
    algorithm: fixedWindowAlgorithm,
    numbers,
    limit,
    windowMs,
    rolling: false,
  });
}

function calendarWindow(options: PolicyOptions, limit: number, unit: CalendarUnit, timeZone: string): Policy {
  const numbersOf = ({ start, end }: Bounds): Numbers => ({
    a: limit,
    b: start * 1000,
    c: end * 1000,
    lifetime: LONGEST_CALENDAR_US,
  });
  const boundsAt = calendar(unit, knownZone(timeZone));
  return policy("fixedWindow", options, {
    algorithm: fixedWindowAlgorithm,
    numbers: numbersOf({ start: 0, end: 1 }),
    numbersAt: (ms) => numbersOf(boundsAt(ms)),
    calendar: `${unit} ${timeZone}`,
    limit,
    windowMs: { day: 1, week: 7, month: 31 }[unit] * 86_400_000,
    rolling: false,
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

/**
 * How many requests are in flight. A slot is taken when a request is let in, and given back after
 * its response.
 *
 * @throws ConfigError for an unusable number
 */
export function concurrency<R = any>(options: ConcurrencyOptions<R>): Policy {
  onlyKnown("concurrency", options, ["limit", "leaseMs", ...COMMON], LATER);
  const limit = wholeNumber("concurrency.limit", options.limit, 0, MOST_IN_FLIGHT);
  const lease = duration("concurrency.leaseMs", options.leaseMs ?? 30_000, 100);
  const numbers = { a: limit, b: lease * 1000, c: 0, lifetime: lease * 1000 };
  const unit = options.unit ?? "concurrent-requests";
  return policy(
    "concurrency",
    { ...options, unit },
    { algorithm: concurrencyAlgorithm, numbers, limit, windowMs: undefined },
  );
}

function windowed(name: string, options: WindowOptions, most: number, hint: string, more: string[] = []) {
  onlyKnown(name, options, ["limit", "window", ...more, ...COMMON], LATER);
  return {
    limit: wholeNumber(`${name}.limit`, options.limit, 0, most, hint),
    window: duration(`${name}.window`, options.window),
  };
}

function notTooSlow(option: string, value: number, windowMs: number): void {
  if (windowMs <= LONGEST_MS) return;
  const advice = "from empty to full would take more than ten years; raise the rate or lower the capacity";
  throw new ConfigError("TIDEGATE_OPTION_INVALID", option, value, advice);
}

type Made = Pick<Policy, "algorithm" | "numbers" | "limit" | "windowMs"> &
  Partial<Pick<Policy, "rolling" | "numbersAt" | "calendar">>;

function policy(name: string, options: PolicyOptions, made: Made): Policy {
  const { by, cost, mode = "enforce", unit = "requests" } = options;
  if (cost !== undefined && typeof cost !== "function" && !isCost(cost)) {
    const advice = "give a whole number from 0, or a function of the request";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", `${name}.cost`, cost, advice);
  }
  oneOf(`${name}.mode`, mode, ["enforce", "shadow"]);
  oneOf(`${name}.unit`, unit, ["requests", "content-bytes", "concurrent-requests"]);
  return Object.freeze({
    rolling: true,
    numbersAt: undefined,
    calendar: undefined,
    ...made,
    by,
    cost,
    mode,
    unit,
  });
}

/** Every algorithm's tag: under which of them a policy chosen per request was counted, nobody remembers. */
export const TAGS: readonly string[] = [
  tokenBucketAlgorithm,
  gcraAlgorithm,
  slidingWindowAlgorithm,
  slidingLogAlgorithm,
  fixedWindowAlgorithm,
  concurrencyAlgorithm,
].map(({ tag }) => tag);

/** Whether a value was made by one of the functions above, in this copy of the package or another. */
export function isPolicy(value: unknown): value is Policy {
  const { algorithm, numbers, limit } = (value ?? {}) as Partial<Policy>;
  return typeof algorithm?.tag === "string" && typeof numbers?.a === "number" && typeof limit === "number";
}
