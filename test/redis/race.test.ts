import { Redis } from "ioredis";
import { fixedWindow, slidingLog, slidingWindow, tokenBucket } from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { live } from "../harness/live.ts";
import { freshPrefix } from "../harness/pair.ts";
import { race } from "../harness/processes.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

describe("200 at once, limit 10", () => {
  /** The limiter everybody writes first. */
  async function naive(client: Redis, key: string): Promise<boolean> {
    const count = Number(await client.get(key));
    if (count >= 10) return false;
    await client.set(key, count + 1);
    return true;
  }

  /** Optimistic: right, at the price of asking again. Each asker needs a connection of its own. */
  async function watching(client: Redis, key: string): Promise<{ admitted: boolean; retries: number }> {
    for (let retries = 0; ; retries++) {
      await client.watch(key);
      const count = Number(await client.get(key));
      if (count >= 10) {
        await client.unwatch();
        return { admitted: false, retries };
      }
      if (await client.multi().incr(key).exec()) return { admitted: true, retries };
    }
  }

  it("GET then SET admits all of them, the script exactly 10, three times", async () => {
    for (let round = 0; round < 3; round++) {
      const loose = await Promise.all(
        Array.from({ length: 200 }, () => naive(server.client, `naive-${round}`)),
      );
      const { limiter, admitted } = await live(server, {
        policies: { burst: tokenBucket({ capacity: 10, refillPerSecond: 0.001 }) },
      });
      const exact = await admitted(200);
      await limiter.close();
      const naively = loose.filter(Boolean).length;
      console.log(`naive GET+SET admitted ${naively} of 200; Lua script admitted ${exact} of 200`);
      expect([naively, exact]).toEqual([200, 10]);
    }
  });

  it("WATCH admits 10 too, after many retries", async () => {
    const clients = Array.from({ length: 50 }, () => new Redis(server.port, "127.0.0.1"));
    const asked = Array.from({ length: 200 }, (_, i) => i);
    const results = await Promise.all(
      clients.map(async (client, i) => {
        const own = [];
        for (const one of asked) if (one % clients.length === i) own.push(await watching(client, "watched"));
        return own;
      }),
    );
    for (const client of clients) client.disconnect();
    const all = results.flat();
    const retries = all.reduce((sum, each) => sum + each.retries, 0);
    console.log(
      `WATCH/MULTI admitted ${all.filter(({ admitted }) => admitted).length} of 200 after ${retries} retries`,
    );
    expect(all.filter(({ admitted }) => admitted)).toHaveLength(10);
    expect(retries).toBeGreaterThan(0);
  });
});

describe("P20 four processes, 250 at once each, one key", () => {
  const exact = 5;
  const window = "10m";
  const policies: Record<string, [string, object]> = {
    tb: ["tokenBucket", { capacity: exact, refillPerSecond: 0.001 }],
    sw: ["slidingWindow", { limit: exact, window }],
    sl: ["slidingLog", { limit: exact, window }],
    fw: ["fixedWindow", { limit: exact, window }],
  };

  it.each(Object.entries(policies))("P20 T1 limit 5, %s: exactly 5 admitted", async (name, policy) => {
    const options = { url: server.url, prefix: freshPrefix(), policies: { [name]: policy }, times: 250 };
    expect(await race(options, [0, 0, 0, 0])).toBe(exact);
  });

  it.each(Object.entries(policies))(
    "P20 T2 limit 10, cost 3, %s: exactly 3 admitted",
    async (name, [maker, numbers]) => {
      const ten = { ...numbers, ...("capacity" in numbers ? { capacity: 10 } : { limit: 10 }) };
      const options = {
        url: server.url,
        prefix: freshPrefix(),
        policies: { [name]: [maker, ten] as [string, object] },
        times: 250,
      };
      expect(await race({ ...options, cost: 3 }, [0, 0, 0, 0])).toBe(3);
    },
  );

  it("P20 T3 several policies: the tightest decides, and the others are charged for those alone", async () => {
    const several = { ...policies, wide: ["fixedWindow", { limit: 100, window }] as [string, object] };
    const prefix = freshPrefix();
    expect(await race({ url: server.url, prefix, policies: several, times: 250 }, [0, 0, 0, 0])).toBe(exact);
    expect(await server.client.get(`${prefix}:{id:somebody}:wide:fw`)).toBe(String(exact));
  });
});

describe("P16 clocks of the processes", () => {
  it(
    "are of no account: ten seconds off either way, the bucket gives what it would to one",
    { timeout: 60_000 },
    async () => {
      const forMs = 10_000;
      const bucket: Record<string, [string, object]> = {
        tb: ["tokenBucket", { capacity: 4, refillPerSecond: 2 }],
      };
      const admitted = await race(
        { url: server.url, prefix: freshPrefix(), policies: bucket, forMs },
        [10_000, -10_000],
      );
      expect(Math.abs(admitted - (4 + (2 * forMs) / 1000))).toBeLessThanOrEqual(1);
    },
  );

  it.each([
    ["tokenBucket", { capacity: 10, refillPerSecond: 0.001 }],
    ["slidingWindow", { limit: 10, window: "10m" }],
    ["slidingLog", { limit: 10, window: "10m" }],
    ["fixedWindow", { limit: 10, window: "10m" }],
  ] as [string, object][])("61 seconds off either way change nothing in %s", async (maker, numbers) => {
    const options = {
      url: server.url,
      prefix: freshPrefix(),
      policies: { p: [maker, numbers] as [string, object] },
      times: 50,
    };
    expect(await race(options, [61_000, -61_000, 0])).toBe(10);
  });
});

describe("several identities in one decision", () => {
  it("are charged together or not at all", async () => {
    const { limiter, prefix } = await live(server, {
      policies: {
        perUser: fixedWindow({ limit: 5, window: "10m" }),
        perTenant: slidingLog({ limit: 3, window: "10m" }),
        perIp: slidingWindow({ limit: 100, window: "10m" }),
      },
    });
    const identity = { perUser: "u", perTenant: "t", perIp: "i" };
    const decisions = await Promise.all(Array.from({ length: 40 }, () => limiter.decide({ identity })));
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(3);
    expect(await server.client.get(`${prefix}:{id:u}:perUser:fw`)).toBe("3");
    expect(await server.client.zcard(`${prefix}:{id:t}:perTenant:sl`)).toBe(3);
    await limiter.close();
  });
});
