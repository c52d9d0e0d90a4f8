/** What docs/operations.md promises of a Redis in production. */
import { setTimeout as sleep } from "node:timers/promises";
import {
  concurrency,
  type Config,
  createLimiter,
  fixedWindow,
  gcra,
  type Limiter,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";
import { Redis } from "ioredis";
import { describe, expect, it, onTestFinished } from "vitest";
import { compose } from "../../lua/compose.js";
import { read } from "../docs/markdown.ts";
import { freshPrefix } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";

const day = { window: "1d" };

async function redis(...args: string[]): Promise<RedisServer> {
  const server = await startRedis({ args });
  onTestFinished(() => server.stop());
  return server;
}

function limiterOf(config: Config): Limiter {
  const limiter = createLimiter({ prefix: freshPrefix(), timeoutMs: 10_000, ...config });
  onTestFinished(() => limiter.close());
  return limiter;
}

/** Decides so often, and tells who was let in. Throws when Redis could not be asked. */
async function decided(limiter: Limiter, times: number, identity = "somebody"): Promise<boolean[]> {
  const allowed = [];
  for (let i = 0; i < times; i++) {
    const decision = await limiter.decide({ identity });
    if (decision.degraded) throw new Error(`degraded: ${decision.degraded.reason}`);
    allowed.push(decision.allowed);
  }
  return allowed;
}

describe("The documented Redis user", () => {
  const [, line] = /^ACL SETUSER (.*)$/m.exec(read("docs/operations.md"))!;
  const words = line!.split(" ");
  const permitted = words.filter((word) => word.startsWith("+")).map((word) => word.slice(1));

  /** A server that has this user, for `prefix`. */
  async function guarded(prefix = "rl", more: readonly string[] = []): Promise<RedisServer> {
    const server = await redis();
    const own = words.map((word) => (word === "~rl:*" ? `~${prefix}:*` : word));
    await server.client.call("ACL", "SETUSER", ...own, ...more);
    return server;
  }

  const urlOf = ({ port }: RedisServer, database = "") =>
    `redis://tidegate:password@127.0.0.1:${port}${database}`;

  /** What the server has refused to anybody. */
  const refusals = async ({ client }: RedisServer): Promise<string[]> =>
    ((await client.call("ACL", "LOG")) as string[][]).map((entry) => `${entry[3]} ${entry[5]}`);

  const everything = {
    tokenBucket: tokenBucket({ capacity: 3, refillPerSecond: 0.001 }),
    gcra: gcra({ limit: 3, ...day }),
    slidingWindow: slidingWindow({ limit: 3, ...day }),
    slidingLog: slidingLog({ limit: 3, ...day }),
    fixedWindow: fixedWindow({ limit: 3, ...day }),
    calendar: fixedWindow({ limit: 3, window: "day", timeZone: "Europe/Berlin" }),
    concurrency: concurrency({ limit: 3, leaseMs: 300 }),
  };

  it("may use the commands of the scripts and of our connection, and no others", () => {
    const texts = ["decide", "settle", "manage"].map((entry) => compose(entry));
    const called = texts.flatMap((text) =>
      [...text.matchAll(/redis\.p?call\('([A-Z]+)'/g)].map(([, command]) => command!.toLowerCase()),
    );
    const sent = ["evalsha", "eval", "script|load", "info"];
    expect(permitted.toSorted()).toEqual([...new Set([...sent, ...called])].toSorted());
    // A command whose name is put together would not be seen above.
    for (const text of texts)
      expect(text.match(/redis\.p?call\b/g)?.length).toBe(text.match(/redis\.p?call\('[A-Z]+'/g)?.length);
  });

  it("is enough for every algorithm: deciding, settling, renewing, mending, blocking, forgetting", async () => {
    const server = await guarded();
    const limiter = limiterOf({ redis: urlOf(server), prefix: "rl", policies: everything, blocking: true });
    const first = await limiter.decide({ identity: "somebody" });
    expect([first.degraded, first.allowed]).toEqual([undefined, true]);
    await sleep(400); // Its slot is renewed meanwhile.
    expect(await decided(limiter, 3)).toEqual([true, true, false]);
    await limiter.settle(first, "giveBack");
    expect(await decided(limiter, 2)).toEqual([true, false]);
    const reservation = await limiter.reserve({ identity: "reserves", cost: 1 });
    await reservation.commit(3);
    expect(await decided(limiter, 1, "reserves")).toEqual([false]);
    for (const key of await server.client.keys("rl:*")) await server.client.persist(key);
    expect(await decided(limiter, 1)).toEqual([false]);
    await limiter.block("somebody", "1m");
    await limiter.unblock("somebody");
    await limiter.reset("somebody");
    expect(await decided(limiter, 1)).toEqual([true]);
    expect(await refusals(server)).toEqual([]);
  });

  it("is enough for idempotency keys and for a shared connection", async () => {
    const server = await guarded();
    const theirs = new Redis(urlOf(server));
    onTestFinished(() => theirs.disconnect());
    const limiter = limiterOf({
      redis: theirs,
      shareConnection: true,
      prefix: "rl",
      policies: { day: fixedWindow({ limit: 1, ...day }) },
    });
    const ask = () => limiter.decide({ identity: "somebody", idempotencyKey: "once" });
    expect((await ask()).replayed).toBe(false);
    expect((await ask()).replayed).toBe(true);
    expect(await refusals(server)).toEqual([]);
  });

  it("has no say beyond its prefix", async () => {
    const server = await guarded("shop");
    const other = limiterOf({ redis: urlOf(server), prefix: "rl", policies: everything });
    expect((await other.decide({ identity: "somebody" })).degraded).toEqual({
      rule: "open",
      reason: "denied",
    });
    expect(
      await decided(limiterOf({ redis: urlOf(server), prefix: "shop", policies: everything }), 1),
    ).toEqual([true]);
  });

  it("needs the key prefix of a client before it", async () => {
    const server = await guarded("app:rl");
    const theirs = new Redis(urlOf(server), { keyPrefix: "app:", lazyConnect: true });
    const limiter = limiterOf({ redis: theirs, prefix: "rl", policies: everything });
    expect(await decided(limiter, 1)).toEqual([true]);
    expect((await server.client.keys("*")).every((key) => key.startsWith("app:rl:{"))).toBe(true);
  });

  it.each([
    ["needs SELECT for database 3", ["+select"], 3],
    ["lets keys go to database 0 without it", [], 0],
  ])("%s", async (_, more, database) => {
    const server = await guarded("rl", more);
    const limiter = limiterOf({ redis: urlOf(server, "/3"), prefix: "rl", policies: everything });
    expect(await decided(limiter, 1)).toEqual([true]);
    await server.client.select(database);
    expect(await server.client.keys("rl:*")).toHaveLength(Object.keys(everything).length);
  });
});

describe("A Redis without room", () => {
  const policies = { day: fixedWindow({ limit: 3, ...day }) };

  it("refuses the writes of others and limits on, where nothing is evicted", async () => {
    const server = await redis("--maxmemory-policy", "noeviction");
    const limiter = limiterOf({ redis: server.url, policies, denyCache: false });
    expect(await decided(limiter, 1)).toEqual([true]);
    await server.client.config("SET", "maxmemory", "1");
    await expect(server.client.set("theirs", "value")).rejects.toThrow(/^OOM/);
    expect(await decided(limiter, 3)).toEqual([true, true, false]);
    expect(await decided(limiter, 4, "somebody new")).toEqual([true, true, true, false]);
  });

  it.each(["volatile-lru", "allkeys-lru"])("forgets limits under %s: they begin anew", async (policy) => {
    const server = await redis("--maxmemory-policy", policy);
    const limiter = limiterOf({ redis: server.url, policies, denyCache: false });
    expect(await decided(limiter, 4)).toEqual([true, true, true, false]);
    await server.client.config("SET", "maxmemory", "1");
    await server.client.ping();
    await server.client.config("SET", "maxmemory", "0");
    expect(await server.client.dbsize()).toBe(0);
    expect(await decided(limiter, 4)).toEqual([true, true, true, false]);
  });
});

describe("A primary that has lost its replica", () => {
  it("takes no writes under min-replicas-to-write, and the rule answers: unavailable", async () => {
    const server = await redis("--min-replicas-to-write", "1");
    const limiter = limiterOf({
      redis: server.url,
      policies: { day: fixedWindow({ limit: 3, ...day }) },
      onFailure: "closed",
    });
    expect(await limiter.decide({ identity: "somebody" })).toMatchObject({
      allowed: false,
      degraded: { rule: "closed", reason: "unavailable" },
    });
  });
});
