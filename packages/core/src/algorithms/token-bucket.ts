import { onlyKnown, positiveNumber, wholeNumber } from "../options.ts";
import { type Algorithm, clamp, goesInTime, type Numbers, waitMs } from "./algorithm.ts";
import {
  COMMON,
  MOST_TOKENS,
  notTooSlow,
  partOf,
  type Policy,
  policy,
  type PolicyOptions,
  unsplit,
} from "./policy.ts";

/** What {@link tokenBucket} takes. */
export interface TokenBucketOptions<R = any> extends PolicyOptions<R> {
  /** Tokens the bucket holds: the largest burst. Whole, 0 to 9,007,199,254. */
  capacity: number;
  /** Tokens that flow in per second. Above 0; from empty to full takes at most ten years. */
  refillPerSecond: number;
}

/**
 * A bucket of tokens, refilled evenly: bursts up to `capacity`, `refillPerSecond` in the long run.
 *
 * @throws ConfigError for an unusable number
 */
export function tokenBucket<R = any>(options: TokenBucketOptions<R>): Policy {
  onlyKnown("tokenBucket", options, ["capacity", "refillPerSecond", ...COMMON]);
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
  const withRate = (holds: number, refillPerSecond: number) =>
    tokenBucket({ ...unsplit(options), capacity: holds, refillPerSecond });
  return policy("tokenBucket", options, {
    algorithm: tokenBucketAlgorithm,
    numbers,
    limit: capacity,
    windowMs,
    shareOf(instances, index) {
      const share = partOf(capacity, instances, index);
      return withRate(share, rate * (index === undefined ? 1 / instances : share / capacity));
    },
    ofLimit: (other) => withRate(other, capacity * other === 0 ? rate : rate * (other / capacity)),
  });
}

/** So many millionths of a token were there at `ts`, µs. */
export interface TokenBucketState {
  readonly micro: number;
  readonly ts: number;
}

const UNIT = 1_000_000;

/**
 * `a`: capacity, tokens. `b`: refill, tokens per second, which is millionths of a token per µs.
 * Told in lua/algorithms/token-bucket.lua too.
 */
export const tokenBucketAlgorithm: Algorithm<TokenBucketState> = {
  tag: "tb",
  name: "tokenBucket",
  words: 2,

  room(numbers, state, now, cost, n) {
    if (cost === 0) return n;
    const micro = state ? at(numbers, now, state.micro, state.ts) : numbers.a * UNIT;
    return Math.floor(micro / (cost * UNIT));
  },

  charge(numbers, state, now, units) {
    const micro = state ? at(numbers, now, state.micro, state.ts) : numbers.a * UNIT;
    return { micro: micro - units * UNIT, ts: now };
  },

  mend(numbers, state, now, left) {
    if (state.ts <= now && goesInTime(numbers, left)) return undefined;
    return { micro: Math.max(0, at(numbers, now, state.micro, state.ts)), ts: now };
  },

  keepFor: ({ a, b }, { micro }) => Math.max(1, Math.ceil((a * UNIT - micro) / b)),

  report: ({ a }, state, now) => (state ? [state.micro, state.ts] : [a * UNIT, now]),

  explain(numbers, words, index, now, cost, granted) {
    const micro = words[index]!;
    const ts = words[index + 1]!;
    const capacity = numbers.a;
    const available = at(numbers, now, micro, ts);
    const remaining = clamp(Math.floor(available / UNIT), 0, capacity);
    const until = (tokens: number) => {
      const missing = tokens * UNIT - micro;
      const estimate = missing > 0 ? missing / numbers.b + ts - now : 0;
      return waitMs(estimate, (ms) => at(numbers, now + ms * 1000, micro, ts) >= tokens * UNIT);
    };
    const fullMs = until(capacity);
    if (granted || available >= cost * UNIT)
      return { remaining, nextMs: until(Math.min(remaining + 1, capacity)), fullMs, reason: "ok" };
    if (cost > capacity) return { remaining, nextMs: null, fullMs, reason: "never" };
    return { remaining, nextMs: until(cost), fullMs, reason: "limit" };
  },

  credit({ a, b }, { micro, ts }, now, units, mark) {
    // What has flowed back by itself does not come back once more. The two make up for rounding.
    const more = Math.min(units * UNIT, Math.ceil((mark - now) * b) + 2);
    return mark > now && micro < a * UNIT ? { micro: Math.min(a * UNIT, micro + more), ts } : undefined;
  },

  /** When the bucket would be full again. */
  later: (_, words) => words,

  before: (_, words, at, units) => [words[at]! + units * UNIT, words[at + 1]!],

  mark: ({ a, b }, words, index) => Math.ceil(words[index + 1]! + (a * UNIT - words[index]!) / b),
};

/** Millionths of a token at `now`. A `ts` ahead of the clock (it stepped back) refills nothing. */
function at({ a, b }: Numbers, now: number, micro: number, ts: number): number {
  const elapsed = now > ts ? now - ts : 0;
  return Math.min(a * UNIT, micro + Math.floor(elapsed * b));
}
