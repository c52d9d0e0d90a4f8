/** How much may pass at the most, and how fast. The stores agree (twins.test.ts), so these run in memory. */
import {
  createLimiter,
  fixedWindow,
  gcra,
  memoryStore,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fakeClock } from "../harness/clock.ts";
import { EPOCH_MS } from "../harness/pair.ts";

const LIMIT = 10;
const WINDOW = 1000;
const DAY = 86_400_000;

function limiting(policy: Policy) {
  const clock = fakeClock(EPOCH_MS * 1000);
  const limiter = createLimiter({ store: memoryStore({ nowUs: clock.now }), policies: { policy } });
  return {
    clock,
    limiter,
    ask: async (cost = 1) => limiter.decide({ identity: "somebody", cost }),
  };
}

interface Admitted {
  readonly at: number;
  readonly units: number;
}

/** What of a schedule is let in. At each moment it asks until it is refused. */
async function admittedOf(policy: Policy, moments: readonly number[], cost = 1): Promise<Admitted[]> {
  const { clock, ask } = limiting(policy);
  const admitted: Admitted[] = [];
  for (const at of moments) {
    clock.set(EPOCH_MS + at);
    while ((await ask(cost)).allowed) admitted.push({ at, units: cost });
  }
  return admitted;
}

/** The most units within any span from `a` until just before `a + length`. */
function mostWithin(admitted: readonly Admitted[], length: number): number {
  let most = 0;
  let sum = 0;
  let first = 0;
  for (const { at, units } of admitted) {
    sum += units;
    for (; admitted[first]!.at <= at - length; first++) sum -= admitted[first]!.units;
    most = Math.max(most, sum);
  }
  return most;
}

const every = (step: number, from: number, until: number) =>
  Array.from({ length: Math.floor((until - from) / step) }, (_, i) => from + i * step);

/** What somebody tries who wants more than the limit, in windows of `window` ms. */
const schedulesOf = (window: number): [string, number[]][] => {
  const step = window / 100;
  return [
    ["saturate", every(step, 0, 5 * window)],
    ["anchored", [0, window - step, ...every(step, window, 3 * window)]],
    ["at the window's edge", [0, window, 2 * window, 3 * window]],
    ["just before the edge and ever after", [window - 1, ...every(step, window, 4 * window)]],
    ["just before each edge and just after", [1, 2, 3].flatMap((n) => [n * window - 1, n * window])],
  ];
};

/** One request early on, so that the window begins with it, and the rest of the limit at its end. */
async function anchored(policy: Policy, window: number): Promise<Admitted[]> {
  const { clock, ask } = limiting(policy);
  const admitted: Admitted[] = [];
  for (const [at, most] of [
    [0, 1],
    [window - 1, Infinity],
    [window, Infinity],
  ] as const) {
    clock.set(EPOCH_MS + at);
    for (let i = 0; i < most && (await ask()).allowed; i++) admitted.push({ at, units: 1 });
  }
  return admitted;
}

async function worstOf(policy: Policy, window: number, cost = 1): Promise<number> {
  let worst = mostWithin(await anchored(policy, window), window);
  for (const [, moments] of schedulesOf(window)) {
    worst = Math.max(worst, mostWithin(await admittedOf(policy, moments, cost), window));
  }
  return worst;
}

describe("the most that passes in a window's time, whatever the schedule, limit 10", () => {
  it.each([
    ["sliding log: the limit", slidingLog({ limit: LIMIT, window: WINDOW }), WINDOW, LIMIT],
    // The unit that opens the window is out of the span that holds the window's end.
    [
      "fixed window, first: one less than twice the limit",
      fixedWindow({ limit: LIMIT, window: WINDOW }),
      WINDOW,
      2 * LIMIT - 1,
    ],
    [
      "fixed window, clock: twice the limit",
      fixedWindow({ limit: LIMIT, window: WINDOW, align: "clock" }),
      WINDOW,
      2 * LIMIT,
    ],
    ["fixed window, day: twice the limit", fixedWindow({ limit: LIMIT, window: "day" }), DAY, 2 * LIMIT],
    [
      "sliding window: one less than twice the limit",
      slidingWindow({ limit: LIMIT, window: WINDOW }),
      WINDOW,
      2 * LIMIT - 1,
    ],
    [
      "token bucket: the capacity and what flows in",
      tokenBucket({ capacity: LIMIT, refillPerSecond: LIMIT }),
      WINDOW,
      2 * LIMIT - 1,
    ],
    ["GCRA: the burst and what flows in", gcra({ limit: LIMIT, window: WINDOW }), WINDOW, 2 * LIMIT - 1],
    ["GCRA, burst 1: the limit", gcra({ limit: LIMIT, window: WINDOW, burst: 1 }), WINDOW, LIMIT],
  ] as [string, Policy, number, number][])("%s, and no more", async (_, policy, window, most) => {
    expect(await worstOf(policy, window)).toBe(most);
  });

  it("sliding window of docs/samples.md: 9 where the limit is 5", async () => {
    const policy = slidingWindow({ limit: 5, window: 1000 });
    expect(await worstOf(policy, 1000)).toBe(9);
  });

  it("costs of 3 let no more units pass than costs of 1", async () => {
    expect(await worstOf(slidingLog({ limit: LIMIT, window: WINDOW }), WINDOW, 3)).toBeLessThanOrEqual(LIMIT);
  });
});

describe("whoever asks whenever, at whatever cost", () => {
  const schedule = fc.array(
    fc.tuple(
      fc.oneof(
        fc.constantFrom(0, 1, 99, 999, 1000),
        fc.integer({ min: 0, max: 1500 }),
        fc.double({ min: 0, max: 20, noNaN: true }),
      ),
      fc.integer({ min: 1, max: 6 }),
    ),
    { minLength: 1, maxLength: 120 },
  );

  it.each([
    ["sl", slidingLog({ limit: LIMIT, window: WINDOW }), (ms: number) => (ms <= WINDOW ? LIMIT : Infinity)],
    [
      "sw",
      slidingWindow({ limit: LIMIT, window: WINDOW }),
      (ms: number) => (ms <= WINDOW ? 2 * LIMIT - 1 : Infinity),
    ],
    [
      "fw",
      fixedWindow({ limit: LIMIT, window: WINDOW }),
      (ms: number) => (ms <= WINDOW ? 2 * LIMIT : Infinity),
    ],
    [
      "fw clock",
      fixedWindow({ limit: LIMIT, window: WINDOW, align: "clock" }),
      (ms: number) => (ms <= WINDOW ? 2 * LIMIT : Infinity),
    ],
    ["tb", tokenBucket({ capacity: LIMIT, refillPerSecond: 7 }), (ms: number) => LIMIT + (7 * ms) / 1000],
    ["gc", gcra({ limit: 7, window: WINDOW, burst: LIMIT }), (ms: number) => LIMIT + (7 * ms) / 1000],
  ] as [string, Policy, (ms: number) => number][])(
    "%s: no span of any length holds more than it states",
    async (_, policy, most) => {
      await fc.assert(
        fc.asyncProperty(schedule, async (steps) => {
          const { clock, ask } = limiting(policy);
          const admitted: Admitted[] = [];
          for (const [after, cost] of steps) {
            clock.advance(after);
            if ((await ask(cost)).allowed) admitted.push({ at: clock.now() / 1000, units: cost });
          }
          for (const length of [0.001, 1, 50, 500, 1000, 3000]) {
            expect(mostWithin(admitted, length)).toBeLessThanOrEqual(most(length));
          }
        }),
        { numRuns: 150 },
      );
    },
  );
});

describe("GCRA's rate", () => {
  it.each([
    ["1 per 30 days", { limit: 1, window: "30d", burst: 40 }, 40 * 30 * DAY, 40],
    ["7 per second", { limit: 7, window: "1s", burst: 700 }, 100_000, 700],
    ["333 per second", { limit: 333, window: "1s", burst: 3330 }, 10_000, 3330],
    ["33,333 per second", { limit: 33_333, window: "1s", burst: 33_333 }, 100, 3333.3],
    ["39,999 per second, where rounding is worst", { limit: 39_999, window: "1s" }, 100, 3999.9],
    ["40,000 per second", { limit: 40_000, window: "1s" }, 100, 4000],
  ])("%s is right to 1 %%, and never above", async (_, options, ms, units) => {
    const policy = gcra(options);
    const { clock, ask } = limiting(policy);
    expect((await ask(policy.limit)).allowed).toBe(true);
    clock.advance(ms);
    let admitted = 0;
    while ((await ask()).allowed) admitted++;
    expect(admitted).toBeLessThanOrEqual(units);
    expect(admitted).toBeGreaterThanOrEqual(Math.floor(units * 0.99));
  });

  it("1 per 30 days lets the next in after 30 days, and a millisecond earlier not", async () => {
    const { clock, ask } = limiting(gcra({ limit: 1, window: "30d" }));
    await ask();
    expect((await ask()).retryAfterMs).toBe(30 * DAY);
    clock.advance(30 * DAY - 1);
    expect((await ask()).allowed).toBe(false);
    clock.advance(1);
    expect((await ask()).allowed).toBe(true);
  });

  it("above 40,000 a second is a coded error that names tokenBucket", () => {
    for (const options of [
      { limit: 40_001, window: "1s" },
      { limit: 2_400_001, window: "1m" },
      { limit: 41, window: 1 },
    ]) {
      expect(() => gcra(options)).toThrow(
        expect.objectContaining({
          code: "TIDEGATE_OPTION_INVALID",
          option: "gcra.limit",
          message: expect.stringContaining("tokenBucket"),
        }),
      );
    }
    expect(() => gcra({ limit: 2_400_000, window: "1m" })).not.toThrow();
  });

  it("seven a second with a burst of seven admits exactly seven of nine", async () => {
    const { ask } = limiting(gcra({ limit: 7, window: "1s", burst: 7 }));
    const nine = await Promise.all(Array.from({ length: 9 }, () => ask()));
    expect(nine.filter(({ allowed }) => allowed)).toHaveLength(7);
  });
});
