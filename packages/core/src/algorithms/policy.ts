import { ConfigError } from "../errors.ts";
import type { By } from "../identity/identity.ts";
import {
  type Duration,
  duration,
  LONGEST_MS,
  oneOf,
  onlyKnown,
  positiveNumber,
  wholeNumber,
} from "../options.ts";
import type { Algorithm, Numbers } from "./algorithm.ts";
import { fixedWindowAlgorithm } from "./fixed-window.ts";
import { slidingLogAlgorithm } from "./sliding-log.ts";
import { slidingWindowAlgorithm } from "./sliding-window.ts";
import { tokenBucketAlgorithm } from "./token-bucket.ts";

/** A named limit's algorithm and numbers. Made by {@link tokenBucket} and its siblings, and not changed after. */
export interface Policy {
  readonly algorithm: Algorithm<any>;
  readonly numbers: Numbers;
  /** Units: what a client may use at once. */
  readonly limit: number;
  /** Milliseconds: the span the limit belongs to; for a bucket, from empty to full. */
  readonly windowMs: number;
  /** Whether units come back one by one, and not all at the window's end. */
  readonly rolling: boolean;
  readonly by: By | undefined;
}

/** What every policy takes besides its numbers. */
export interface PolicyOptions<R = any> {
  /** Who this policy counts, where it is not who the others count. */
  by?: By<R>;
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

export interface FixedWindowOptions<R = any> extends WindowOptions<R> {
  /** When a window begins: `"first"` (the default) with its first request. */
  align?: "first";
}

/** Millionths of a token have to be counted exactly. */
const MOST_TOKENS = Math.floor(Number.MAX_SAFE_INTEGER / 1_000_000);
const MOST_IN_WINDOW = 2 ** 32 - 1;
const MOST_IN_LOG = 1000;
/** The largest integer a header field may carry. source: RFC 9651 §3.3.1 */
const MOST_IN_FIELD = 999_999_999_999_999;

/**
 * A bucket of tokens, refilled evenly: bursts up to `capacity`, `refillPerSecond` in the long run.
 *
 * @throws ConfigError for an unusable number
 */
export function tokenBucket<R = any>(options: TokenBucketOptions<R>): Policy {
  onlyKnown(
    "tokenBucket",
    options,
    ["capacity", "refillPerSecond", "by"],
    ["cost", "mode", "unit", "scope", "shards"],
  );
  const capacity = wholeNumber(
    "tokenBucket.capacity",
    options.capacity,
    0,
    MOST_TOKENS,
    "; count larger ones in larger units",
  );
  const rate = positiveNumber("tokenBucket.refillPerSecond", options.refillPerSecond);
  const fillMs = (capacity / rate) * 1000;
  if (fillMs > LONGEST_MS) {
    throw new ConfigError(
      "TIDEGATE_OPTION_INVALID",
      "tokenBucket.refillPerSecond",
      rate,
      `${capacity} tokens would take more than ten years to come; raise the rate or lower the capacity`,
    );
  }
  const numbers = { a: capacity, b: rate, c: 0, lifetime: Math.ceil(fillMs * 1000) };
  return policy(tokenBucketAlgorithm, numbers, capacity, fillMs, true, options.by);
}

/**
 * Units per sliding window, from two counters: the last window's count is taken to have come evenly.
 * Small state, smooth; what it may let pass above the limit, docs/samples.md shows.
 *
 * @throws ConfigError for an unusable number
 */
export function slidingWindow<R = any>(options: WindowOptions<R>): Policy {
  const { limit, window } = windowed("slidingWindow", options, MOST_IN_WINDOW, "; use tokenBucket for more");
  return policy(
    slidingWindowAlgorithm,
    { a: limit, b: window * 1000, c: 0, lifetime: window * 2000 },
    limit,
    window,
    true,
    options.by,
  );
}

/**
 * Units per sliding window, exactly: no window of this length holds more than the limit. Keeps one
 * entry for each unit, so the limit is at most 1,000.
 *
 * @throws ConfigError for an unusable number
 */
export function slidingLog<R = any>(options: WindowOptions<R>): Policy {
  const { limit, window } = windowed("slidingLog", options, MOST_IN_LOG, "; use slidingWindow for more");
  const numbers = { a: limit, b: window * 1000, c: 0, lifetime: window * 1000 + limit };
  return policy(slidingLogAlgorithm, numbers, limit, window, true, options.by);
}

/**
 * Units per window, counted from the window's first request. Up to twice the limit may pass around
 * a window's end.
 *
 * @throws ConfigError for an unusable number
 */
export function fixedWindow<R = any>(options: FixedWindowOptions<R>): Policy {
  const { limit, window } = windowed("fixedWindow", options, MOST_IN_FIELD, "", ["align"]);
  const { align = "first" } = options as { align?: unknown };
  if (align === "clock") {
    throw new ConfigError(
      "TIDEGATE_OPTION_NOT_YET",
      "fixedWindow.align",
      align,
      `this version aligns windows to their first request only`,
    );
  }
  oneOf("fixedWindow.align", align, ["first"]);
  return policy(
    fixedWindowAlgorithm,
    { a: limit, b: window * 1000, c: 0, lifetime: window * 1000 },
    limit,
    window,
    false,
    options.by,
  );
}

function windowed(name: string, options: WindowOptions, most: number, hint: string, more: string[] = []) {
  onlyKnown(
    name,
    options,
    ["limit", "window", "by", ...more],
    ["cost", "mode", "unit", "scope", "shards", "timeZone"],
  );
  return {
    limit: wholeNumber(`${name}.limit`, options.limit, 0, most, hint),
    window: duration(`${name}.window`, options.window),
  };
}

function policy(
  algorithm: Algorithm<any>,
  numbers: Numbers,
  limit: number,
  windowMs: number,
  rolling: boolean,
  by: By | undefined,
): Policy {
  return Object.freeze({ algorithm, numbers, limit, windowMs, rolling, by });
}

/** Whether a value was made by one of the functions above, in this copy of the package or another. */
export function isPolicy(value: unknown): value is Policy {
  const { algorithm, numbers, limit } = (value ?? {}) as Partial<Policy>;
  return typeof algorithm?.tag === "string" && typeof numbers?.a === "number" && typeof limit === "number";
}
