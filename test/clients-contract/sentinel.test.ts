/** A primary behind Sentinels that dies: limiters through every library that speaks with Sentinels, all at the same time. */
import { setTimeout as sleep } from "node:timers/promises";
import { createLimiter, fixedWindow, type Limiter } from "@tidegate/core";
import { Redis } from "ioredis";
import { Redis as Redis5 } from "ioredis5";
import { Redis as Valkey } from "iovalkey";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { freshPrefix } from "../harness/pair.ts";
import { startSentinel, type TestSentinel } from "../harness/sentinel.ts";

const TIMEOUT_MS = 100;

/** How much later than its deadline a decision may be on a busy machine, milliseconds. */
const SLACK_MS = 400;

/** How soon after the promotion a limiter decides by the new primary, milliseconds. */
const FOUND_MS = 5000;

const rows = [
  ["ioredis 5", Redis5, false],
  ["ioredis 5, shared", Redis5, true],
  ["iovalkey", Valkey, false],
  ["iovalkey, shared", Valkey, true],
] as const;

describe("a primary that dies", () => {
  let sentinel: TestSentinel;
  let limiters: Limiter[];
  const clients: { disconnect(): void }[] = [];
  const waited: number[] = [];

  beforeAll(async () => {
    sentinel = await startSentinel();
    limiters = rows.map(([, Client, shareConnection]) => {
      const sentinels = [...sentinel.sentinels];
      const redis = new (Client as unknown as typeof Redis)({
        sentinels,
        name: sentinel.name,
        lazyConnect: true,
      });
      redis.on("error", () => {});
      clients.push(redis);
      const policies = { p: fixedWindow({ limit: 10_000, window: "1h" }) };
      const options = { prefix: freshPrefix(), timeoutMs: TIMEOUT_MS, policies };
      return createLimiter({ redis, shareConnection, ...options });
    });
    const isWell = async (limiter: Limiter) => !(await limiter.decide({ identity: "somebody" })).degraded;
    for (const limiter of limiters) await eventually("Redis decides", () => isWell(limiter), 10_000);
    const primary = await sentinel.primary();
    let isOver = false;
    const asking = limiters.map(async (limiter, i) => {
      for (waited[i] = 0; !isOver; await sleep(50)) {
        const start = performance.now();
        await limiter.decide({ identity: "somebody" });
        waited[i] = Math.max(waited[i]!, performance.now() - start);
      }
    });
    await primary.kill();
    await sentinel.failedOver(primary);
    const found = limiters.map((limiter) => eventually("Redis decides", () => isWell(limiter), FOUND_MS));
    await Promise.all(found).finally(() => (isOver = true));
    await Promise.all(asking);
  });
  afterAll(async () => {
    for (const limiter of limiters) await limiter.close();
    for (const client of clients) client.disconnect();
    await sentinel.stop();
  });

  it.each(rows.map(([name], i) => [name, i] as const))(
    "keeps no decision waiting, and its heir decides: %s",
    async (_, i) => {
      expect(waited[i]).toBeLessThan(TIMEOUT_MS + SLACK_MS);
      const decision = await limiters[i]!.decide({ identity: "somebody" });
      expect(decision).toMatchObject({ allowed: true, degraded: undefined });
    },
  );
});
