import { fork } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { fixedWindow, type Policy, slidingLog, slidingWindow, tokenBucket } from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { keysUnder, live } from "../harness/live.ts";
import { freshPrefix } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { worker } from "../harness/worker.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const WINDOW_MS = 400;
const policies: Record<string, Policy> = {
  tb: tokenBucket({ capacity: 5, refillPerSecond: 5000 / WINDOW_MS }),
  sw: slidingWindow({ limit: 5, window: WINDOW_MS }),
  sl: slidingLog({ limit: 5, window: WINDOW_MS }),
  fw: fixedWindow({ limit: 5, window: WINDOW_MS }),
};
const each = Object.entries(policies);

/** Every key under a prefix with its PTTL. */
async function lifetimes(prefix: string): Promise<[string, number][]> {
  const keys = await keysUnder(server, prefix);
  return Promise.all(
    keys.map(async (key): Promise<[string, number]> => [key, await server.client.pttl(key)]),
  );
}

const endless = async (prefix: string) => (await lifetimes(prefix)).filter(([, ms]) => ms === -1);

/** As a stranger or an older version may have left it: far over the limit, and for ever. */
const seeds: Record<string, (key: string) => Promise<unknown>> = {
  tb: (key) => server.client.hset(key, { tokens: "-1000", ts: 9_000_000_000_000_000 }),
  sw: (key) => {
    const state = Buffer.alloc(12);
    state.writeUInt32LE(Math.floor(Date.now() / WINDOW_MS) % 2 ** 32, 0);
    state.writeUInt32LE(1000, 4);
    return server.client.set(key, state);
  },
  sl: (key) => {
    const future = (Date.now() + 3_600_000) * 1000;
    return server.client.zadd(
      key,
      ...Array.from({ length: 20 }, (_, i) => [future + i, `${future + i}`]).flat(),
    );
  },
  fw: (key) => server.client.set(key, 1000),
};

describe("no key stays for ever", () => {
  it.each(each)("P02 T1 %s: every key has an expiry after every decision", async (name, policy) => {
    const { limiter, prefix } = await live(server, { policies: { [name]: policy } });
    for (let i = 0; i < 12; i++) {
      await limiter.decide({ identity: `somebody-${i % 3}` });
      for (const [key, ms] of await lifetimes(prefix))
        expect([key, ms > 0 && ms <= 2 * WINDOW_MS]).toEqual([key, true]);
    }
    await limiter.close();
  });

  it.each(each)(
    "P02 T2 %s: a full key without an expiry is repaired, its owner served within a window",
    async (name, policy) => {
      const { limiter, prefix } = await live(server, { policies: { [name]: policy } });
      const key = `${prefix}:{id:somebody}:${name}:${name}`;
      await seeds[name]!(key);
      expect((await limiter.decide({ identity: "somebody" })).allowed).toBe(false);
      expect(await server.client.pttl(key)).toBeGreaterThan(0);
      await sleep(WINDOW_MS);
      expect((await limiter.decide({ identity: "somebody" })).allowed).toBe(true);
      await limiter.close();
    },
  );

  it("P02 T3 10,000 calls around the expiry's edge leave none", { timeout: 60_000 }, async () => {
    const edge = 5;
    const { limiter, prefix } = await live(server, {
      policies: {
        fw: fixedWindow({ limit: 3, window: edge }),
        tb: tokenBucket({ capacity: 3, refillPerSecond: 3000 / edge }),
        sl: slidingLog({ limit: 3, window: edge }),
        sw: slidingWindow({ limit: 3, window: edge }),
      },
    });
    for (let i = 0; i < 10_000; i += 10) {
      await Promise.all(
        Array.from({ length: 10 }, (_, j) => limiter.decide({ identity: `somebody-${j % 2}` })),
      );
      if (i % 500 === 0) expect(await endless(prefix)).toEqual([]);
    }
    await limiter.close();
    await sleep(4 * edge);
    expect(await keysUnder(server, prefix)).toEqual([]);
  });

  it("P02 T4 a process killed at any point leaves none", async () => {
    const prefix = freshPrefix();
    for (const afterMs of [1, 3, 8, 15, 30, 60]) {
      const child = fork(worker, [], { execArgv: [] });
      child.send({ run: "decideForEver", url: server.url, prefix });
      await new Promise((resolve) => child.once("message", resolve));
      await sleep(afterMs);
      child.kill("SIGKILL");
      await new Promise((resolve) => child.once("exit", resolve));
      expect((await lifetimes(prefix)).length).toBeGreaterThan(0);
      expect(await endless(prefix)).toEqual([]);
    }
  });
});
