import { setTimeout as sleep } from "node:timers/promises";
import { createLimiter, fixedWindow, memoryStore, slidingLog, user } from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { keysUnder, live } from "../harness/live.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { names, policyOf } from "./algorithms.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const identity = user("mallory");
const policies = { p: fixedWindow({ limit: 5, window: "30m" }), q: slidingLog({ limit: 9, window: "30m" }) };
const blocking = () => live(server, { policies, blocking: true });

describe("a blocked identity", () => {
  it("is refused for the time that is left, and let in after it", async () => {
    const { limiter, prefix } = await blocking();
    await limiter.block(identity, 250);
    const refused = await limiter.decide({ identity });
    expect(refused).toMatchObject({ allowed: false, blocked: true, receipt: undefined });
    expect(refused.retryAfterMs).toBeGreaterThan(100);
    expect(refused.retryAfterMs).toBeLessThanOrEqual(250);
    expect(refused.verdicts).toMatchObject(
      ["p", "q"].map((policy) => ({
        policy,
        allowed: false,
        remaining: 0,
        reason: "blocked",
        nextMs: refused.retryAfterMs,
      })),
    );
    const ends = await server.client.pexpiretime(`${prefix}:{user:mallory}::b`);
    for (;;) {
      const { blocked, receipt } = await limiter.decide({ identity });
      if (!blocked) {
        expect(receipt!.at / 1000).toBeGreaterThanOrEqual(ends);
        expect(receipt!.at / 1000 - ends).toBeLessThan(100);
        break;
      }
      await sleep(5);
    }
    await limiter.close();
  });

  it("for ever knows no wait, until it is unblocked", async () => {
    const { limiter, prefix } = await blocking();
    await limiter.block(identity, "forever", "stolen key");
    const key = `${prefix}:{user:mallory}::b`;
    expect([await server.client.get(key), await server.client.pttl(key)]).toEqual(["stolen key", -1]);
    expect(await limiter.decide({ identity })).toMatchObject({
      allowed: false,
      blocked: true,
      retryAfterMs: null,
    });
    expect(await limiter.peek({ identity, cost: 0 })).toMatchObject({ allowed: false, blocked: true });
    expect((await limiter.decide({ identity: user("alice") })).allowed).toBe(true);
    await limiter.unblock(identity);
    expect(await limiter.decide({ identity })).toMatchObject({
      allowed: true,
      verdicts: [{ remaining: 4 }, { remaining: 8 }],
    });
    await limiter.close();
  });

  it.each(names)(
    "tries in vain 500 times, and that changes neither the block nor a count: %s",
    async (name) => {
      const { limiter, prefix, admitted } = await live(server, {
        policies: { p: policyOf(name, 5) },
        blocking: true,
      });
      await admitted(3);
      await limiter.block("somebody", 60_000);
      const keys = (await keysUnder(server, prefix)).sort();
      expect(keys).toHaveLength(2);
      const look = () =>
        Promise.all(
          keys.map(async (key) => [
            key,
            await server.client.dumpBuffer(key),
            await server.client.pexpiretime(key),
          ]),
        );
      const before = await look();
      expect(await admitted(500)).toBe(0);
      expect(await look()).toEqual(before);
      expect((await keysUnder(server, prefix)).sort()).toEqual(keys);
      await limiter.unblock("somebody");
      expect(await admitted(10)).toBe(2);
      await limiter.close();
    },
  );

  it("blocked again has the later block's time, longer or shorter", async () => {
    const { limiter } = await blocking();
    await limiter.block(identity, 60_000);
    await limiter.block(identity, 5000);
    expect((await limiter.decide({ identity })).retryAfterMs).toBeLessThanOrEqual(5000);
    await limiter.block(identity, "forever");
    expect((await limiter.decide({ identity })).retryAfterMs).toBeNull();
    await limiter.block(identity, 5000);
    expect((await limiter.decide({ identity })).retryAfterMs).toBeGreaterThan(4000);
    await limiter.close();
  });

  it("stays blocked when its counts are reset", async () => {
    const { limiter } = await blocking();
    await limiter.block(identity, 60_000);
    await limiter.reset(identity);
    expect((await limiter.decide({ identity })).blocked).toBe(true);
    await limiter.close();
  });
});

describe("of several identities", () => {
  it("the longest block counts, and nobody is charged", async () => {
    const { limiter, prefix } = await blocking();
    const both = { p: user("mallory"), q: user("trudy") };
    await limiter.block(both.p, 20_000);
    await limiter.block(both.q, 60_000);
    const refused = await limiter.decide({ identity: both });
    expect(refused.blocked).toBe(true);
    expect(refused.retryAfterMs).toBeGreaterThan(50_000);
    expect(refused.retryAfterMs).toBeLessThanOrEqual(60_000);
    await limiter.unblock(both.q);
    expect((await limiter.decide({ identity: both })).retryAfterMs).toBeLessThanOrEqual(20_000);
    await limiter.block(both.q, "forever");
    expect((await limiter.decide({ identity: both })).retryAfterMs).toBeNull();
    expect((await keysUnder(server, prefix)).filter((key) => !key.endsWith("::b"))).toEqual([]);
    await limiter.close();
  });
});

describe("what people did", () => {
  it("is told as audit events, and only when it was done", async () => {
    const { limiter, events } = await blocking();
    await limiter.block(identity, 60_000, "abuse");
    await limiter.decide({ identity });
    await limiter.unblock(identity);
    await limiter.reset(identity);
    await limiter.reset(identity, "q");
    await limiter.reset(identity, "nobody").catch(() => {});
    const audit = { type: "audit", identity: "user:mallory" };
    expect(events).toEqual([
      { ...audit, action: "block", reason: "abuse" },
      { ...audit, action: "unblock", reason: "" },
      { ...audit, action: "reset", reason: "p, q" },
      { ...audit, action: "reset", reason: "q" },
    ]);
    await limiter.close();
  });
});

describe("a limiter that heeds no blocks", () => {
  it.each([
    ["on Redis", () => ({ redis: server.url })],
    ["in memory", () => ({ store: memoryStore() })],
  ])("%s says so when it is asked to block", async (_, where) => {
    const limiter = createLimiter({ ...where(), policies });
    await expect(limiter.block(identity, 1000)).rejects.toMatchObject({ code: "TIDEGATE_BLOCKING_OFF" });
    await limiter.close();
  });

  it.each([0, -1, 1.5, NaN, Infinity, "soon"])("a block of %s is an error", async (ms) => {
    const { limiter } = await blocking();
    await expect(limiter.block(identity, ms as number)).rejects.toMatchObject({
      code: "TIDEGATE_OPTION_INVALID",
    });
    await limiter.close();
  });
});
