import { type Algorithm, clamp, goesInTime, type Numbers, waitMs } from "./algorithm.ts";

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

  mark: (_, words, index) => words[index]!,
};

/** What may come now, in quarters of a µs of intervals. */
const free = ({ a, b }: Numbers, now: number, tat: number): number => a * b - Math.max(0, tat - now * 4);
