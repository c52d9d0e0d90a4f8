import { ConfigError } from "../errors.ts";
import { wholeNumber } from "../options.ts";
import { type Algorithm, clamp, goesInTime, type Numbers, waitMs } from "./algorithm.ts";
import {
  MOST_IN_FIELD,
  MOST_TOKENS,
  notTooSlow,
  partOf,
  type Policy,
  policy,
  unsplit,
  windowed,
  type WindowOptions,
} from "./policy.ts";

/** What {@link gcra} takes. */
export interface GcraOptions<R = any> extends WindowOptions<R> {
  /** Units that may come at once. `limit` by default. */
  burst?: number;
}

/** Above, the rounding of an interval to quarters of a µs would be more than 1 %. */
const MOST_GCRA_PER_SECOND = 40_000;

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
  return withInterval(options, burst, interval, (instances) =>
    gcra({ ...unsplit(options), limit: partOf(limit, instances), burst: partOf(burst, instances) }),
  );
}

/** @param interval of one unit, quarters of a µs */
function withInterval(
  options: GcraOptions,
  burst: number,
  interval: number,
  equalShare: (instances: number) => Policy,
): Policy {
  const windowMs = (burst * interval) / 4000;
  // A bucket may be in debt by as much as it holds: then it takes twice as long.
  notTooSlow("gcra.burst", burst, windowMs * 2);
  // As much more or less often as its burst is larger or smaller.
  const ofLimit = (other: number) =>
    withInterval(unsplit(options), other, intervalOf(interval, burst, other), equalShare);
  return policy("gcra", options, {
    algorithm: gcraAlgorithm,
    numbers: { a: burst, b: interval, c: 0, lifetime: Math.ceil((2 * burst * interval) / 4) },
    limit: burst,
    windowMs,
    shareOf: (instances, index) =>
      index === undefined ? equalShare(instances) : ofLimit(partOf(burst, instances, index)),
    ofLimit,
  });
}

const intervalOf = (interval: number, burst: number, other: number): number =>
  burst === 0 || other === 0 ? interval : Math.ceil((interval * burst) / other);

/** The moment at which the bucket will be whole again (TAT), quarters of a µs. */
export interface GcraState {
  readonly tat: number;
}

/**
 * `a`: burst, units. `b`: interval per unit, quarters of a µs.
 * Told in lua/algorithms/gcra.lua too.
 */
export const gcraAlgorithm: Algorithm<GcraState> = {
  tag: "gc",
  name: "gcra",
  words: 1,

  room(numbers, state, now, cost, n) {
    return cost === 0 ? n : Math.floor(free(numbers, now, state?.tat ?? 0) / (cost * numbers.b));
  },

  charge: ({ b }, state, now, units) => ({ tat: Math.max(state?.tat ?? 0, now * 4) + units * b }),

  mend(numbers, { tat }, now, left) {
    const far = tat - now * 4 > numbers.lifetime * 4;
    if (!far && goesInTime(numbers, left)) return undefined;
    return { tat: far ? now * 4 + numbers.a * numbers.b : tat };
  },

  keepFor: (_, { tat }, now) => (tat - now * 4) / 4,

  report: (_, state) => [state?.tat ?? 0],

  explain(numbers, words, index, now, cost, granted) {
    const tat = words[index]!;
    const { a: burst, b: interval } = numbers;
    const available = free(numbers, now, tat);
    const remaining = clamp(Math.floor(available / interval), 0, burst);
    const until = (units: number) =>
      waitMs(
        (tat - now * 4 - (burst - units) * interval) / 4,
        (ms) => free(numbers, now + ms * 1000, tat) >= units * interval,
      );
    const fullMs = until(burst);
    if (granted || available >= cost * interval) {
      return { remaining, nextMs: until(Math.min(remaining + 1, burst)), fullMs, reason: "ok" };
    }
    if (cost > burst) return { remaining, nextMs: null, fullMs, reason: "never" };
    return { remaining, nextMs: until(cost), fullMs, reason: "limit" };
  },

  credit({ b }, { tat }, now, units, mark) {
    // What has flowed back by itself does not come back once more.
    const more = Math.min(units * b, mark - now * 4);
    return more > 0 && tat > now * 4 ? { tat: Math.max(now * 4, tat - more) } : undefined;
  },

  later: (_, words) => words,

  before: ({ b }, words, at, units) => [words[at]! - units * b],

  mark: (_, words, index) => words[index]!,
};

/** What may come now, in quarters of a µs of intervals. */
const free = ({ a, b }: Numbers, now: number, tat: number): number => a * b - Math.max(0, tat - now * 4);
