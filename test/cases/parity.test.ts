/** P45: one table of calls, two stores. P46: which of several rules is told of. */
import { fixedWindow, type Header, type Policy, slidingWindow, tokenBucket } from "@tidegate/core";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { storeKinds, useRedis } from "../harness/http.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { play, several, type Step, steps } from "../harness/twins.ts";
import { guardOf, limiterOf, ruling } from "./asking.ts";

describe("P45 memory and Redis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  const plans = fc.sample(several, { seed: 45, numRuns: 200 });
  const histories = fc.sample(steps, { seed: 54, numRuns: 200 });

  it("P45 T1 two hundred sequences of charges, refunds, resets, blocks and time: the same decisions, remaining and waits", async () => {
    for (const [i, plan] of plans.entries())
      expect(await play(server, plan, histories[i]!), `sequence ${i}: ${String(plan)}`).toBeUndefined();
  });

  it("P45 T2 and these sequences hold everything that can be asked", () => {
    const all = histories.flat();
    const acts = (kind: Step["act"]["kind"]) => all.filter(({ act }) => act.kind === kind).length;
    for (const kind of ["decide", "peek", "settle", "reset", "block", "unblock"] as const)
      expect(acts(kind), kind).toBeGreaterThan(20);
    expect(all.filter(({ after }) => after < 0).length).toBeGreaterThan(20);
    const tags = plans.flatMap(({ policies }) =>
      Object.values(policies).map(({ algorithm }) => algorithm.tag),
    );
    expect([...new Set(tags)].sort()).toEqual(["cc", "fw", "gc", "sl", "sw", "tb"]);
  });
});

const redis = useRedis();

describe.each(storeKinds)("P46 on %s", (kind) => {
  const second: Policy = slidingWindow({ limit: 10, window: 1000 });
  const hour: Policy = fixedWindow({ limit: 1000, window: "1h" });
  const orders: [string, Record<string, Policy>][] = [
    ["the tight one first", { second, hour }],
    ["the tight one last", { hour, second }],
  ];

  it.each(orders)(
    "P46 T1 ten a second with three left, a thousand an hour with 990 left: the one that binds first stands first (%s)",
    async (_, policies) => {
      const guard = guardOf({ store: redis.storeOf(kind), policies });
      await guard.limiter.decide({
        identity: { kind: "ip", value: "203.0.113.7" },
        cost: { second: 6, hour: 9 },
      });
      const { headers } = (await ruling(guard)) as { headers: readonly Header[] };
      expect(new Map(headers).get("RateLimit")).toBe('"second";r=3;t=1, "hour";r=990;t=3600');
      const [first, last] = Object.keys(policies);
      const field = { second: '"second";q=10;w=1', hour: '"hour";q=1000;w=3600' } as Record<string, string>;
      expect(new Map(headers).get("RateLimit-Policy")).toBe(`${field[first!]}, ${field[last!]}`);
    },
  );

  it.each([
    ["both refuse", { hour: 1000, burst: 5 }, 3_600_000],
    ["the hour refuses", { hour: 1000, burst: 0 }, 3_600_000],
    ["the burst refuses", { hour: 0, burst: 5 }, 500],
  ] as const)("P46 T2 %s: told to wait for the longest of those that refused", async (_, spent, wait) => {
    const burst = tokenBucket({ capacity: 5, refillPerSecond: 2 });
    for (const policies of [
      { hour, burst },
      { burst, hour },
    ]) {
      const limiter = limiterOf({ store: redis.storeOf(kind), policies });
      const identity = `x${Object.keys(policies)[0]}`;
      expect((await limiter.decide({ identity, cost: spent })).allowed).toBe(true);
      const { allowed, retryAfterMs } = await limiter.decide({ identity });
      expect([allowed, retryAfterMs]).toEqual([false, wait]);
    }
  });

  it("P46 T2 on refusal the headers tell of the violated rules, the longest wait in Retry-After", async () => {
    const guard = guardOf({ store: redis.storeOf(kind), policies: { second, hour } });
    const identity = { kind: "ip", value: "203.0.113.7" };
    await guard.limiter.decide({ identity, cost: { second: 10, hour: 1000 } });
    const { headers } = (await ruling(guard)) as { headers: readonly Header[] };
    expect(new Map(headers).get("RateLimit")).toBe('"hour";r=0;t=3600, "second";r=0;t=1');
    expect(new Map(headers).get("Retry-After")).toBe("3600");
  });

  it.each(['a"b', "größe", "a\\b", "a b", "", "🐟", "a,b"])("P46 T3 the name %j is refused", (name) => {
    const code = "TIDEGATE_POLICY_NAME";
    expect(() => limiterOf({ policies: { [name]: hour } })).toThrow(expect.objectContaining({ code }));
  });
});
