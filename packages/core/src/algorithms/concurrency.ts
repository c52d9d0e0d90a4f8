import { duration, onlyKnown, wholeNumber } from "../options.ts";
import { type Algorithm, clamp, goesInTime, toMs } from "./algorithm.ts";
import { COMMON, partOf, type Policy, policy, type PolicyOptions, unsplit } from "./policy.ts";

/** What {@link concurrency} takes. */
export interface ConcurrencyOptions<R = any> extends PolicyOptions<R> {
  /** How many may be in flight. Whole, 0 to 100,000. */
  limit: number;
  /**
   * How long a slot is kept for a process that says nothing any more, milliseconds: 30,000 by
   * default. While the process lives, its slots are renewed.
   */
  leaseMs?: number;
}

const MOST_IN_FLIGHT = 100_000;

/**
 * How many requests are in flight. A slot is taken when a request is let in, and given back after
 * its response.
 *
 * @throws ConfigError for an unusable number
 */
export function concurrency<R = any>(options: ConcurrencyOptions<R>): Policy {
  onlyKnown("concurrency", options, ["limit", "leaseMs", ...COMMON]);
  const limit = wholeNumber("concurrency.limit", options.limit, 0, MOST_IN_FLIGHT);
  const lease = duration("concurrency.leaseMs", options.leaseMs ?? 30_000, 100);
  const numbers = { a: limit, b: lease * 1000, c: 0, lifetime: lease * 1000 };
  const unit = options.unit ?? "concurrent-requests";
  const ofLimit = (other: number) => concurrency({ ...unsplit(options), limit: other });
  return policy(
    "concurrency",
    { ...options, unit },
    {
      algorithm: concurrencyAlgorithm,
      numbers,
      limit,
      windowMs: undefined,
      shareOf: (instances, index) => ofLimit(partOf(limit, instances, index)),
      ofLimit,
    },
  );
}

/** When each lease ends, µs, by its id: `<id>` or, for the i-th further unit, `<id>+<i>`. */
export type ConcurrencyState = ReadonlyMap<string, number>;

/**
 * `a`: limit. `b`: length of a lease, µs.
 * Told in lua/algorithms/concurrency.lua too.
 */
export const concurrencyAlgorithm: Algorithm<ConcurrencyState> = {
  tag: "cc",
  name: "concurrency",
  words: 2,

  room(numbers, state, now, cost, n, lease) {
    if (cost === 0 || (lease !== undefined && (state?.get(lease) ?? 0) > now)) return n;
    return Math.floor((numbers.a - heldAt(state, now).length) / cost);
  },

  charge({ b }, state, now, units, lease) {
    const leases = new Map(heldAt(state, now));
    for (let i = 1; i <= units; i++) leases.set(member(lease, i), now + b);
    return leases;
  },

  mend(numbers, state, now, left) {
    if (latest(state, now) <= now + numbers.b && goesInTime(numbers, left)) return undefined;
    return new Map([...state].map(([id, ends]) => [id, Math.min(ends, now + numbers.b)]));
  },

  keepFor: (_, state, now) => latest(state, now) - now,

  report: (_, state, now) => [heldAt(state, now).length, latest(state, now)],

  explain(numbers, words, index, now, cost, granted) {
    const held = words[index]!;
    const remaining = clamp(numbers.a - held, 0, numbers.a);
    const fullMs = held > 0 ? toMs(words[index + 1]! - now) : 0;
    if (granted || cost === 0 || held + cost <= numbers.a)
      return { remaining, nextMs: null, fullMs, reason: "ok" };
    return { remaining, nextMs: null, fullMs, reason: cost > numbers.a ? "never" : "concurrency" };
  },

  mark: () => 0,

  credit(_, state, _now, units, _mark, lease) {
    const leases = new Map(state);
    for (let i = 1; i <= units; i++) leases.delete(member(lease, i));
    return leases;
  },

  renew({ b }, state, now, units, lease) {
    const leases = new Map(state);
    let held = false;
    for (let i = 1; i <= units; i++) {
      const id = member(lease, i);
      if ((leases.get(id) ?? 0) <= now) continue;
      leases.set(id, now + b);
      held = true;
    }
    return held ? leases : undefined;
  },
};

const member = (lease: string | undefined, i: number): string => (i === 1 ? `${lease}` : `${lease}+${i}`);

const heldAt = (state: ConcurrencyState | undefined, now: number): [string, number][] =>
  state ? [...state].filter(([, ends]) => ends > now) : [];

const latest = (state: ConcurrencyState | undefined, now: number): number =>
  heldAt(state, now).reduce((last, [, ends]) => Math.max(last, ends), 0);
