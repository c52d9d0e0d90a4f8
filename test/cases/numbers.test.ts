/** P17: fractions. P32: none at all, and no limit. */
import {
  type ConfigError,
  fixedWindow,
  gcra,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";
import { describe, expect, it } from "vitest";
import { callsOf, resetStats } from "../harness/live.ts";
import { type StoreKind, storeKinds, useRedis } from "../harness/http.ts";
import { startRedis } from "../harness/redis.ts";
import { everything, guardOf, limiterOf, ruling, used, windows } from "./asking.ts";

const redis = useRedis();
const { clock } = redis;

/** What was wrong, by option and value. */
function complaint(make: () => unknown) {
  try {
    make();
  } catch (error) {
    const { name, code, option, value, message } = error as ConfigError;
    return { name, code, option, value, message };
  }
  return undefined;
}

const refusing = (option: string, value: unknown) => ({
  name: "ConfigError",
  code: "TIDEGATE_OPTION_INVALID",
  option,
  value,
  message: expect.stringContaining(`got ${String(value)}`),
});

const byWindow: [string, (window: number) => Policy][] = [
  ["gcra", (window) => gcra({ limit: 5, window })],
  ["slidingWindow", (window) => slidingWindow({ limit: 5, window })],
  ["slidingLog", (window) => slidingLog({ limit: 5, window })],
  ["fixedWindow", (window) => fixedWindow({ limit: 5, window })],
  ["fixedWindow", (window) => fixedWindow({ limit: 5, window, align: "clock" })],
];

describe("P17 fractions", () => {
  it.each(byWindow)("P17 T1 %s: a window of 1000/300 ms is an error that names it", (name, make) => {
    expect(complaint(() => make(1000 / 300))).toEqual(refusing(`${name}.window`, 1000 / 300));
  });

  it("P17 T2 a cost of 0.5: asked for, the promise rejects by name; nothing reaches Redis", async () => {
    const policies = Object.fromEntries(
      everything(5).map(([name, policy]) => [name.replaceAll(" ", "-"), policy]),
    );
    const limiter = limiterOf({ store: redis.store, policies });
    const refusal = { code: "TIDEGATE_COST", message: expect.stringContaining("0.5") };
    await expect(limiter.decide({ identity: "x", cost: 0.5 })).rejects.toMatchObject(refusal);
    await expect(limiter.decide({ identity: "x", cost: { gcra: 0.5 } })).rejects.toMatchObject(refusal);
    await expect(limiter.peek({ identity: "x", cost: 0.5 })).rejects.toMatchObject(refusal);
    await expect(limiter.reserve({ identity: "x", cost: 0.5 })).rejects.toMatchObject(refusal);
    expect(await redis.keys()).toEqual([]);
  });

  it("P17 T2 a cost of 0.5: configured, an error that names it", () => {
    const config = { limit: 5, window: "1m", cost: 0.5 };
    expect(complaint(() => limiterOf(config))).toEqual(refusing("cost", 0.5));
    for (const make of [
      () => tokenBucket({ capacity: 5, refillPerSecond: 1, cost: 0.5 }),
      () => gcra({ limit: 5, window: "1m", cost: 0.5 }),
    ])
      expect(complaint(make)).toMatchObject({ code: "TIDEGATE_OPTION_INVALID", value: 0.5 });
  });

  it("P17 T2 a cost of 0.5: from a function, it costs 1, with an event", async () => {
    const policies = { own: fixedWindow({ limit: 5, window: "1h", cost: () => 0.5 }) };
    const guard = guardOf({ store: redis.store, policies });
    const { headers } = (await ruling(guard)) as { headers: unknown };
    expect(headers).toContainEqual(["RateLimit", '"own";r=4;t=3600']);
    expect(guard.events).toEqual([expect.objectContaining({ code: "TIDEGATE_COST_FAULT" })]);
  });

  it("P17 T2 half a unit is not given back either", async () => {
    const limiter = limiterOf({ store: redis.store, limit: 5, window: "1m" });
    const decision = await limiter.decide({ identity: "x" });
    await expect(limiter.settle(decision, 0.5)).rejects.toMatchObject({ code: "TIDEGATE_SETTLEMENT" });
    await expect(limiter.settle(decision, { default: 0.5 })).rejects.toMatchObject({
      code: "TIDEGATE_SETTLEMENT",
    });
    expect(await used(limiter)).toEqual([1]);
  });

  const third = (kind: StoreKind, policy: Policy) =>
    limiterOf({ store: redis.storeOf(kind), policies: { third: policy } });

  it.each(
    storeKinds.flatMap((kind) => [
      [kind, "tokenBucket", tokenBucket({ capacity: 1, refillPerSecond: 1 / 3 })] as const,
      [kind, "gcra", gcra({ limit: 1, window: 3000 })] as const,
      [kind, "slidingLog", slidingLog({ limit: 1, window: 3000 })] as const,
    ]),
  )("P17 T3 %s, %s: a third of a unit per second is one each 3000 ms, without drift", async (kind, _, p) => {
    const limiter = third(kind, p);
    for (let i = 0; i < 50; i++) {
      expect(await limiter.decide({ identity: "x" })).toMatchObject({ allowed: true, degraded: undefined });
      clock.advance(2999);
      expect(await limiter.decide({ identity: "x" })).toMatchObject({ allowed: false, retryAfterMs: 1 });
      clock.advance(1);
    }
  });

  it.each([1 / 3, 0.1, 1e-3, 7.7, Math.PI, 1e-7, 12_345.678_9])(
    "P17 T3 a bucket refilled by %d a second never makes Redis complain",
    async (refillPerSecond) => {
      const limiter = limiterOf({
        store: redis.store,
        policies: { b: tokenBucket({ capacity: 3, refillPerSecond }) },
      });
      for (const ms of [0, 0.001, 0.333, 1, 17.5, 1e6]) {
        clock.advance(ms);
        expect((await limiter.decide({ identity: "x", cost: 2 })).degraded).toBeUndefined();
      }
    },
  );

  it.each([3, 7, 11, 999])("P17 T3 gcra: %d per second, an interval that is no whole µs", async (limit) => {
    const limiter = limiterOf({
      store: redis.store,
      policies: { g: gcra({ limit, window: 1000, burst: 1 }) },
    });
    let admitted = 0;
    for (const end = clock.now() + 3_000_000; clock.now() < end;) {
      const { allowed, retryAfterMs, degraded } = await limiter.decide({ identity: "x" });
      expect(degraded).toBeUndefined();
      if (allowed) admitted++;
      clock.advance(allowed ? 0 : Math.min(retryAfterMs!, 1000 / limit / 8));
    }
    // A little below, as intervals are rounded up, and never above.
    expect(admitted).toBeLessThanOrEqual(3 * limit + 1);
    expect(admitted).toBeGreaterThanOrEqual(Math.floor(3 * limit * 0.85));
  });

  it("P17 T4 a rate of 0 is an error that names it", () => {
    const make = () => tokenBucket({ capacity: 5, refillPerSecond: 0 });
    expect(complaint(make)).toEqual(refusing("tokenBucket.refillPerSecond", 0));
  });
});

describe("P32 a limit of 0", () => {
  it.each(storeKinds.flatMap((kind) => everything(0).map(([name, policy]) => [kind, name, policy] as const)))(
    "P32 T1 %s, %s: all are refused, nothing remains, and no wait would help",
    async (kind, _, none) => {
      const limiter = limiterOf({ store: redis.storeOf(kind), policies: { none } });
      for (let i = 0; i < 3; i++) {
        expect(await limiter.decide({ identity: "x" })).toMatchObject({
          allowed: false,
          retryAfterMs: null,
          degraded: undefined,
          verdicts: [{ limit: 0, remaining: 0, reason: "never", nextMs: null }],
        });
      }
      expect(await limiter.peek({ identity: "x", cost: 0 })).toMatchObject({ allowed: true });
      expect(await redis.keys()).toEqual([]);
    },
  );

  it.each(windows(0, 60_000))(
    "P32 T2 %s: headers say q=0 and r=0, and no Retry-After",
    async (name, none) => {
      const guard = guardOf({ store: redis.store, policies: { none } });
      const refused = await ruling(guard);
      const w = name === "tokenBucket" || name === "gcra" ? 1 : 60; // A bucket that holds nothing is full at once.
      expect(refused).toMatchObject({
        kind: "refuse",
        refusal: { status: 429, retryAfterSeconds: undefined },
        headers: [
          ["RateLimit-Policy", `"none";q=0;w=${w}`],
          ["RateLimit", '"none";r=0'],
          ["Cache-Control", "no-store"],
        ],
      });
    },
  );
});

describe("P32 no limit", () => {
  it.each([
    ["tokenBucket.capacity", () => tokenBucket({ capacity: Infinity, refillPerSecond: 1 })],
    ["tokenBucket.refillPerSecond", () => tokenBucket({ capacity: 1, refillPerSecond: Infinity })],
    ["gcra.limit", () => gcra({ limit: Infinity, window: "1m" })],
    ["gcra.burst", () => gcra({ limit: 1, window: "1m", burst: Infinity })],
    ["slidingWindow.limit", () => slidingWindow({ limit: Infinity, window: "1m" })],
    ["slidingLog.limit", () => slidingLog({ limit: Infinity, window: "1m" })],
    ["fixedWindow.limit", () => fixedWindow({ limit: Infinity, window: "1m" })],
    ["fixedWindow.window", () => fixedWindow({ limit: 1, window: Infinity })],
  ] as const)("P32 T3 %s: Infinity is an error that names it", (option, make) => {
    expect(complaint(make)).toEqual(refusing(option, Infinity));
  });

  it("P32 T4 skip is the switch: whoever is skipped costs Redis nothing", async () => {
    const server = await startRedis();
    try {
      const skip = ({ method }: { method?: string }) => method === "GET";
      const guard = guardOf({ redis: server.url, limit: 0, window: "1m", skip });
      expect((await ruling(guard, { method: "POST" })).kind).toBe("refuse");
      await resetStats(server);
      for (let i = 0; i < 20; i++) expect(await ruling(guard, { method: "GET" })).toEqual({ kind: "skip" });
      expect([await callsOf(server, "evalsha"), await callsOf(server, "eval")]).toEqual([0, 0]);
      await ruling(guard, { method: "POST" });
      expect(await callsOf(server, "evalsha")).toBe(1);
    } finally {
      await server.stop();
    }
  });
});
