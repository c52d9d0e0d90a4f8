/** What the doctor says of the keys under a prefix. */
import {
  concurrency,
  createLimiter,
  fixedWindow,
  gcra,
  perRequest,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { examine, of, onLevel, the } from "./asking.ts";

let server: RedisServer;
beforeAll(async () => void (server = await startRedis()));
afterAll(() => server.stop());
beforeEach(async () => void (await server.client.flushall()));

const policies: Record<string, Policy> = {
  tb: tokenBucket({ capacity: 5, refillPerSecond: 0.1 }),
  gc: gcra({ limit: 5, window: "1m" }),
  sw: slidingWindow({ limit: 5, window: "1m" }),
  sl: slidingLog({ limit: 5, window: "1m" }),
  fw: fixedWindow({ limit: 5, window: "1m" }),
  cc: concurrency({ limit: 5 }),
};

/** A limiter that has counted `alice`, and blocked `mallory`. */
async function counted(prefix = "rl", more: Record<string, Policy> = policies) {
  const limiter = createLimiter({
    redis: server.url,
    prefix,
    policies: more,
    blocking: true,
    timeoutMs: 10_000,
  });
  onTestFinished(() => limiter.close());
  const decision = await limiter.decide({ identity: "alice" });
  expect(decision).toMatchObject({ allowed: true, degraded: undefined });
  await limiter.block("mallory", "forever", "for good");
  return limiter;
}

const doctorOf = (more: object = {}) => examine({ redis: server.url, ...more });

describe("the keys of a limiter", () => {
  it("are as they should be: every algorithm, a block for ever, a grant that is kept", async () => {
    await counted();
    const { cc: _, ...others } = policies;
    const keeps = createLimiter({ redis: server.url, policies: others, timeoutMs: 10_000 });
    onTestFinished(() => keeps.close());
    await keeps.decide({ identity: "bob", idempotencyKey: "k" });

    const report = await doctorOf({ policies });
    expect(onLevel(report, "must", "warning")).toEqual([]);
    expect(the(report, "KEYS")).toMatchObject({
      level: "ok",
      message: "Looked at 13 keys under rl.",
      value: { keys: 13, complete: true },
    });
  });

  it("of a split limit and of identities that are digests are known", async () => {
    const limiter = createLimiter({
      redis: server.url,
      policies: { split: slidingWindow({ limit: 100, window: "1m", shards: 4 }) },
      timeoutMs: 10_000,
    });
    onTestFinished(() => limiter.close());
    for (let i = 0; i < 20; i++) await limiter.decide({ identity: "jo@example.org" });
    const report = await doctorOf();
    expect(onLevel(report, "must", "warning")).toEqual([]);
    expect((the(report, "KEYS").value as { keys: number }).keys).toBeGreaterThan(1);
  });

  it("without an expiry are warned of, but for a block", async () => {
    await counted();
    for (const key of await server.client.keys("rl:{id:alice}:*")) await server.client.persist(key);
    const report = await doctorOf();
    expect(onLevel(report, "must", "warning")).toEqual(["NO_EXPIRY"]);
    const { message, value } = the(report, "NO_EXPIRY");
    expect(message).toMatch(/^6 keys without an expiry: /);
    expect(value).toEqual({
      keys: 6,
      shapes: Object.fromEntries(Object.keys(policies).map((tag) => [`rl:{id:…}:${tag}:${tag}`, 1])),
    });
  });

  it("that hold another type get no decision: that must be changed", async () => {
    await server.client.set("rl:{user:alice}:burst:tb", "no hash", "PX", 60_000);
    await server.client.hset("rl:{user:bob}:burst:tb", "tokens", "1", "ts", "1");
    await server.client.pexpire("rl:{user:bob}:burst:tb", 60_000);
    await server.client.lpush("rl:{user:carol}:perIp:sw", "no string");
    await server.client.pexpire("rl:{user:carol}:perIp:sw", 60_000);
    const report = await doctorOf();
    expect(onLevel(report, "must", "warning")).toEqual(["WRONG_TYPE"]);
    expect(the(report, "WRONG_TYPE").value).toEqual({
      keys: 2,
      shapes: {
        "rl:{user:…}:burst:tb (a string instead of a hash)": 1,
        "rl:{user:…}:perIp:sw (a list instead of a string)": 1,
      },
    });
  });

  it("are never named: no finding holds an identity", async () => {
    await counted();
    const names = ["alice", "mallory", "carol", "bob"];
    await server.client.set("rl:{user:carol}:burst:tb", "no hash");
    await server.client.set("rl:bob:session", "foreign");
    await server.client.set("rl:{bob:1}", "foreign");
    await server.client.set("rl:bob", "foreign");
    await server.client.set("rl:\u001b[31mbob:x", "foreign");
    await server.client.set("rl:{id:alice}:burst:tb:more", "foreign");
    const text = JSON.stringify(await doctorOf());
    for (const name of names) expect([name, text.includes(name)]).toEqual([name, false]);
    expect(text).not.toContain("[31m");
  });
});

describe("two configurations under one prefix", () => {
  it("are seen by one policy's two algorithms", async () => {
    await counted("rl", { burst: tokenBucket({ capacity: 5, refillPerSecond: 1 }) });
    await counted("rl", { burst: slidingWindow({ limit: 5, window: "1m" }) });
    const report = await doctorOf();
    expect(onLevel(report, "must", "warning")).toEqual(["TWO_CONFIGURATIONS"]);
    expect(the(report, "TWO_CONFIGURATIONS").value).toEqual({
      signs: ["burst is counted by slidingWindow and tokenBucket"],
    });
  });

  it("are seen by another algorithm than the policy's that is given", async () => {
    await counted("rl", { burst: tokenBucket({ capacity: 5, refillPerSecond: 1 }) });
    const own = { burst: slidingWindow({ limit: 5, window: "1m" }) };
    expect(of(await doctorOf(), "TWO_CONFIGURATIONS")).toEqual([]);
    expect(the(await doctorOf({ policies: own }), "TWO_CONFIGURATIONS").value).toEqual({
      signs: ["burst, which is slidingWindow here, is counted by tokenBucket too"],
    });
  });

  it("are seen by keys that last longer than the policy's that is given", async () => {
    await counted("rl", { daily: fixedWindow({ limit: 5, window: "1h" }) });
    const minute = { daily: fixedWindow({ limit: 5, window: "1m" }) };
    const hour = { daily: fixedWindow({ limit: 9, window: "1h" }) };
    expect(of(await doctorOf({ policies: hour }), "TWO_CONFIGURATIONS")).toEqual([]);
    expect(the(await doctorOf({ policies: minute }), "TWO_CONFIGURATIONS").message).toMatch(
      /keys of daily last up to 3,[56][\d,.]+ ms more, and this policy's no longer than 60,000 ms/,
    );
  });

  it("are seen on a route too, when the whole configuration is given", async () => {
    const routes = { "POST /login": { limit: 5, window: "1m" } };
    const segment = "h.ArIFVK9zs23zGA2h7o8T8A.default";
    await server.client.set(`rl:{ip:203.0.113.7}:${segment}:fw`, "1", "PX", 60_000);
    const report = await doctorOf({ limit: 100, window: "1m", routes, by: () => "x" });
    expect(the(report, "TWO_CONFIGURATIONS").value).toEqual({
      signs: [`${segment}, which is slidingWindow here, is counted by fixedWindow too`],
    });
  });

  it("are no two where each request chooses its algorithm", async () => {
    const bucket = tokenBucket({ capacity: 5, refillPerSecond: 1 });
    await counted("rl", { plan: bucket });
    await counted("rl", { plan: slidingWindow({ limit: 5, window: "1m" }) });
    const chosen = { plan: perRequest(bucket, () => bucket) };
    expect(of(await doctorOf({ policies: chosen }), "TWO_CONFIGURATIONS")).toEqual([]);
  });

  it("are two where prefixes differ: neither is seen by the other", async () => {
    await counted("rl", { burst: tokenBucket({ capacity: 5, refillPerSecond: 1 }) });
    await counted("rl:eu", { burst: slidingWindow({ limit: 5, window: "1m" }) });
    const [all, eu] = [await doctorOf(), await doctorOf({ prefix: "rl:eu" })];
    for (const report of [all, eu]) {
      expect(onLevel(report, "must", "warning")).toEqual([]);
      expect(the(report, "KEYS").value).toMatchObject({ keys: 2 });
    }
  });
});

describe("keys of others", () => {
  it("under the prefix are warned of", async () => {
    await counted();
    for (let i = 0; i < 3; i++) await server.client.set(`rl:session:${i}`, "1");
    await server.client.set("rl:1234", "1");
    await server.client.set("rl:{not ours}", "1");
    await server.client.set("rl:{user:alice}:burst", "1");
    const report = await doctorOf();
    expect(onLevel(report, "must", "warning")).toEqual(["FOREIGN_KEYS"]);
    expect(the(report, "FOREIGN_KEYS")).toMatchObject({
      message: "6 keys under rl that no limiter wrote: rl:… × 5, rl:{…}… × 1.",
      value: { keys: 6 },
    });
  });

  it("elsewhere in the server are a notice", async () => {
    await counted();
    for (let i = 0; i < 13; i++) await server.client.set(`cache:${i}`, "1");
    expect(the(await doctorOf(), "SHARED")).toMatchObject({
      level: "notice",
      message:
        "13 of its 20 keys are others'. They share its memory, and each slow command of theirs keeps decisions waiting.",
      value: { all: 20, others: 13 },
    });
    await server.client.del(...Array.from({ length: 13 }, (_, i) => `cache:${i}`));
    expect(of(await doctorOf(), "SHARED")).toEqual([]);
    await server.client.flushall();
    await server.client.set("cache", "1");
    const shared = async () => the(await doctorOf(), "SHARED").message;
    expect(await shared()).toMatch(/^Its only key is another's\. It shares its memory, /);
    await server.client.set("rl:{id:1}:p:fw", "1", "PX", 60_000);
    expect(await shared()).toMatch(/^1 of its 2 keys is another's\. It shares its memory, /);
  });
});

describe("a limiter under another prefix", () => {
  it("is named where nothing stands under the one that was given", async () => {
    await counted("shop");
    await server.client.set("session:{user:alice}", "1");
    const report = await doctorOf({ prefix: "api" });
    expect(the(report, "PREFIX")).toMatchObject({
      level: "notice",
      server: undefined,
      message: "Under api there is no key; 6 look like a limiter's under the prefix shop.",
      advice: expect.stringContaining("--prefix shop, or the option prefix"),
      value: { keys: 6, prefixes: ["shop"] },
    });
    expect(the(report, "KEYS").message).toBe("Looked at 0 keys under api.");
    // A block and a session, which do not look like what a policy counts.
    expect(the(report, "SHARED").value).toEqual({ all: 8, others: 2 });
    expect(JSON.stringify(report)).not.toMatch(/alice|mallory/);
  });

  it("is one of several, those with the most keys first", async () => {
    for (const [prefix, count] of [
      ["b", 1],
      ["a:eu", 2],
    ] as const)
      for (let i = 0; i < count; i++) await server.client.set(`${prefix}:{id:${i}}:p:fw`, "1", "PX", 60_000);
    expect(the(await doctorOf(), "PREFIX").message).toBe(
      "Under rl there is no key; 3 look like a limiter's under the prefixes a:eu and b.",
    );
  });

  it("of a client's own prefix is one behind that", async () => {
    const redis = new Redis(server.port, "127.0.0.1", { keyPrefix: "app:", lazyConnect: true });
    onTestFinished(() => redis.disconnect());
    await server.client.set("app:shop:{id:1}:p:fw", "1", "PX", 60_000);
    await server.client.set("rest:{id:1}:p:fw", "1", "PX", 60_000);
    expect(the(await examine({ redis }), "PREFIX").value).toEqual({ keys: 1, prefixes: ["shop"] });
  });

  it("is none of this one's affair where this one has counted", async () => {
    await counted("shop");
    await counted("rl");
    expect(of(await doctorOf(), "PREFIX")).toEqual([]);
  });

  it("is not taken for one by other keys", async () => {
    for (const key of [
      "{id:1}:p:fw",
      ":{id:1}:p:fw",
      "a{id:1}:p:fw",
      "a:{id:1}:p:zz",
      "a:{id}:p:fw",
      "a:{id:1}::b",
    ])
      await server.client.set(key, "1");
    expect(of(await doctorOf(), "PREFIX")).toEqual([]);
  });

  it("is not looked for where no key is", async () => {
    await counted("shop");
    expect(of(await doctorOf({ keys: 0 }), "PREFIX")).toEqual([]);
  });
});

describe("the look", () => {
  it("takes a prefix as it is written", async () => {
    await counted("a*b?[c]\\d");
    await server.client.set("aXbYc\\d:foreign", "1");
    await server.client.set("aXXbYc:foreign", "1");
    const report = await doctorOf({ prefix: "a*b?[c]\\d" });
    expect(onLevel(report, "must", "warning")).toEqual([]);
    expect(the(report, "KEYS").value).toEqual({ keys: 7, complete: true });
  });

  it("finds keys behind a client's own prefix, and no others", async () => {
    const redis = new Redis(server.port, "127.0.0.1", { keyPrefix: "app:", lazyConnect: true });
    onTestFinished(() => redis.disconnect());
    const limiter = createLimiter({ redis, policies, timeoutMs: 10_000 });
    onTestFinished(() => limiter.close());
    await limiter.decide({ identity: "alice" });
    await server.client.set("rl:foreign", "1");
    for (const key of await server.client.keys("app:rl:*:sw")) await server.client.persist(key);
    const report = await examine({ redis });
    expect(onLevel(report, "must", "warning")).toEqual(["NO_EXPIRY"]);
    expect(the(report, "KEYS").value).toEqual({ keys: 6, complete: true });
  });

  it("is a sample of as many keys as wanted, or of none", async () => {
    const pipeline = server.client.pipeline();
    for (let i = 0; i < 5000; i++) pipeline.set(`rl:{id:${i}}:p:fw`, "1", "PX", 600_000);
    await pipeline.exec();
    const { keys, complete } = the(await doctorOf({ keys: 100 }), "KEYS").value as Record<string, unknown>;
    expect(complete).toBe(false);
    expect(keys).toBeGreaterThanOrEqual(100);
    expect(keys).toBeLessThan(2000);
    expect(the(await doctorOf(), "KEYS").value).toEqual({ keys: 5000, complete: true });
    const none = await doctorOf({ keys: 0 });
    expect([of(none, "KEYS"), none.servers[0]!.keys]).toEqual([[], undefined]);
  });
});
