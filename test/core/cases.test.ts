/** Cases that users of other limiters reported, on a given clock. The stores agree (twins.test.ts), so these run on Redis. */
import { fixedWindow, type Policy, slidingLog, slidingWindow, tokenBucket } from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EPOCH_MS, type Pair, pairOf, SOMEBODY } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const limits = (limit: number, windowMs: number): [string, Policy][] => [
  ["tb", tokenBucket({ capacity: limit, refillPerSecond: (limit * 1000) / windowMs })],
  ["sw", slidingWindow({ limit, window: windowMs })],
  ["sl", slidingLog({ limit, window: windowMs })],
  ["fw", fixedWindow({ limit, window: windowMs })],
];

const keyOf = async (name: string) => {
  const keys = await server.client.keys(`*:{user:somebody}:${name}:*`);
  return keys.filter((key) => !key.endsWith(":kept"));
};

async function ask({ clock, redis, expire }: Pair, atMs: number, cost = 1) {
  clock.set(EPOCH_MS + atMs);
  await expire();
  const decision = await redis.decide({ identity: SOMEBODY, cost });
  expect(decision.degraded).toBeUndefined();
  return decision;
}

/** When, of calls at the given moments, one was let in. */
async function admittedAt(pair: Pair, moments: readonly number[]): Promise<number[]> {
  const admitted = [];
  for (const at of moments) if ((await ask(pair, at)).allowed) admitted.push(at);
  return admitted;
}

const every = (stepMs: number, count: number, fromMs = 0) =>
  Array.from({ length: count }, (_, i) => fromMs + i * stepMs);

describe("P13 refused attempts are not counted", () => {
  it.each(limits(10, 10_000))(
    "P13 T1 %s: a client that asks twice a second keeps its ten per ten seconds",
    async (_, policy) => {
      const admitted = await admittedAt(pairOf(server, { policy }), every(500, 120));
      expect(Math.abs(admitted.length - 60)).toBeLessThanOrEqual(10);
      const gaps = admitted.map((at, i) => at - (admitted[i - 1] ?? 0));
      expect(Math.max(...gaps)).toBeLessThanOrEqual(10_000);
    },
  );

  it.each(limits(10, 10_000))(
    "P13 T2 %s: 20,000 refusals leave the state and its lifetime as they were",
    async (name, policy) => {
      const policyName = `P13-${name}`;
      const pair = pairOf(server, { [policyName]: policy });
      await admittedAt(pair, every(0, 10));
      const [key] = await keyOf(policyName);
      const look = async () => [await server.client.dump(key!), await server.client.get(`${key}:kept`)];
      const before = await look();
      pair.clock.set(EPOCH_MS + 5);
      for (let i = 0; i < 40; i++) {
        const refused = await Promise.all(
          Array.from({ length: 500 }, () => pair.redis.decide({ identity: SOMEBODY })),
        );
        expect(refused.every(({ allowed, degraded }) => !allowed && !degraded)).toBe(true);
      }
      expect(await look()).toEqual(before);
    },
  );
});

describe("P16 the server's clock steps back", () => {
  it.each(limits(10, 1_000))("P16 T2 %s: five seconds back admit nobody extra", async (_, policy) => {
    const pair = pairOf(server, { policy });
    expect(await admittedAt(pair, every(0, 12, 10_000))).toHaveLength(10);
    expect(await admittedAt(pair, every(0, 12, 5_000))).toHaveLength(0);
  });

  it.each(
    [5_000, 3_600_000].flatMap((back) =>
      limits(10, 1_000).map(([name, policy]) => [name, back, policy] as const),
    ),
  )("P16 T3 %s: %i ms back block nobody for longer than one window", async (_, back, policy) => {
    const pair = pairOf(server, { policy });
    await admittedAt(pair, every(0, 10, back + 10_000));
    expect((await ask(pair, 10_000)).allowed).toBe(false);
    expect((await ask(pair, 11_000)).allowed).toBe(true);
  });
});

describe("P35 a heavy request that does not fit", () => {
  it.each(limits(10, 10_000))("P35 T1 %s: takes nothing of what was left", async (_, policy) => {
    const pair = pairOf(server, { policy });
    await ask(pair, 0, 8);
    const heavy = await ask(pair, 0, 5);
    expect([heavy.allowed, heavy.verdicts[0]!.remaining]).toEqual([false, 2]);
    const light = await ask(pair, 0, 1);
    expect([light.allowed, light.verdicts[0]!.remaining]).toEqual([true, 1]);
  });

  it.each(limits(10, 10_000))("P35 T2 %s: a giant cost locks nothing", async (name, policy) => {
    const policyName = `P35-${name}`;
    const pair = pairOf(server, { [policyName]: policy });
    await ask(pair, 0, 8);
    const [key] = await keyOf(policyName);
    const look = async () => [await server.client.dump(key!), await server.client.get(`${key}:kept`)];
    const before = await look();
    const giant = await ask(pair, 1, 1_000_000);
    expect(giant).toMatchObject({
      allowed: false,
      retryAfterMs: null,
      verdicts: [{ reason: "never", remaining: 2 }],
    });
    expect(await look()).toEqual(before);
  });
});

describe("P36 several rules on one request", () => {
  it("P36 T1 fifty calls in a second: both rules are charged for the two that passed", async () => {
    const pair = pairOf(server, {
      second: slidingLog({ limit: 2, window: 1_000 }),
      hour: fixedWindow({ limit: 100, window: "1h" }),
    });
    await admittedAt(pair, every(19, 50));
    const { verdicts } = await ask(pair, 999, 0);
    expect(verdicts.map(({ limit, remaining }) => limit - remaining)).toEqual([2, 2]);
  });

  it("P36 T2 refused by the second rule: the first is unchanged", async () => {
    const pair = pairOf(server, {
      wide: tokenBucket({ capacity: 100, refillPerSecond: 1 }),
      tight: fixedWindow({ limit: 1, window: "1h" }),
    });
    await ask(pair, 0);
    const refused = await ask(pair, 0);
    expect(refused.verdicts.map(({ allowed, remaining }) => [allowed, remaining])).toEqual([
      [true, 99],
      [false, 0],
    ]);
  });

  it("P36 T3 a thousand at once: still one atomic step", async () => {
    const pair = pairOf(server, {
      second: slidingLog({ limit: 20, window: 1_000 }),
      minute: slidingWindow({ limit: 30, window: "1m" }),
      hour: fixedWindow({ limit: 100, window: "1h" }),
    });
    const all = await Promise.all(
      Array.from({ length: 1000 }, () => pair.redis.decide({ identity: SOMEBODY })),
    );
    expect(all.filter(({ allowed }) => allowed)).toHaveLength(20);
    const { verdicts } = await ask(pair, 0, 0);
    expect(verdicts.map(({ limit, remaining }) => limit - remaining)).toEqual([20, 20, 20]);
  });
});

describe("P39 around the window's edge", () => {
  const burst = (atMs: number) => every(0, 10, atMs);

  it.each([
    ["tb", tokenBucket({ capacity: 10, refillPerSecond: 10 }), 11],
    ["sw", slidingWindow({ limit: 10, window: 1_000 }), 11],
    ["sl", slidingLog({ limit: 10, window: 1_000 }), 10],
  ] as [string, Policy, number][])(
    "P39 T1 %s: of ten at 0.95 s and ten at 1.05 s, no more than it states pass",
    async (_, policy, most) => {
      const admitted = await admittedAt(pairOf(server, { policy }), [...burst(950), ...burst(1_050)]);
      expect(admitted.length).toBeLessThanOrEqual(most);
      expect(admitted.length).toBeGreaterThanOrEqual(10);
    },
  );

  it.each([
    ["tb", tokenBucket({ capacity: 3, refillPerSecond: 3 })],
    ["sw", slidingWindow({ limit: 3, window: 1_000 })],
    ["sl", slidingLog({ limit: 3, window: 1_000 })],
  ] as [string, Policy][])(
    "P39 T2 %s: three a second, asked ten times a second for ten seconds: at most 33",
    async (_, policy) => {
      const admitted = await admittedAt(pairOf(server, { policy }), every(100, 100));
      expect(admitted.length).toBeLessThanOrEqual(33);
      expect(admitted.length).toBeGreaterThanOrEqual(15);
    },
  );

  it("P39 T3 fw: twice the limit, as documented", async () => {
    const pair = pairOf(server, { policy: fixedWindow({ limit: 10, window: 1_000 }) });
    const first = await admittedAt(pair, [0, ...every(0, 9, 999)]);
    const second = await admittedAt(pair, every(0, 11, 1_000));
    expect([first.length, second.length]).toEqual([10, 10]);
  });
});

describe("P42 how long to wait", () => {
  it.each([
    ["fw", fixedWindow({ limit: 1, window: "60s" })],
    ["sl", slidingLog({ limit: 1, window: "60s" })],
  ] as [string, Policy][])("P42 T1 %s: refused 55 s after the window began, told 5 s", async (_, policy) => {
    const pair = pairOf(server, { policy });
    await ask(pair, 0);
    expect((await ask(pair, 55_000)).retryAfterMs).toBe(5_000);
  });
});

describe("rates far from everyday ones", () => {
  it("a seven-a-second burst of seven admits exactly seven", async () => {
    const pair = pairOf(server, { policy: tokenBucket({ capacity: 7, refillPerSecond: 7 }) });
    expect(await admittedAt(pair, every(0, 9))).toHaveLength(7);
  });

  it.each([
    ["once in thirty days", 1, 1 / (30 * 86_400), 30 * 86_400_000],
    ["a million a second", 1_000_000, 1_000_000, 1],
  ])("%s is right to 1 %%", async (_, capacity, refillPerSecond, perUnitMs) => {
    const pair = pairOf(server, { policy: tokenBucket({ capacity, refillPerSecond }) });
    await ask(pair, 0, capacity);
    const units = Math.max(1, Math.round((refillPerSecond * perUnitMs) / 1000));
    const { retryAfterMs } = await ask(pair, 0, units);
    expect(Math.abs(retryAfterMs! - perUnitMs)).toBeLessThanOrEqual(perUnitMs / 100);
  });
});
