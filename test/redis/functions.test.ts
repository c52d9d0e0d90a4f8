/** The same Lua as Redis Functions. */
import { createLimiter, ioredisClient, redisStore, slidingLog } from "@tidegate/core";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { compose } from "../../lua/compose.js";
import { storeContract } from "../contract/store.ts";
import { startClusterOf } from "../harness/cluster.ts";
import { eventually } from "../harness/eventually.ts";
import { callsOf, live, type Live, resetStats } from "../harness/live.ts";
import { freshPrefix } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { Cluster } from "ioredis";

let server: RedisServer;
beforeAll(async () => void (server = await startRedis()));
afterAll(() => server.stop());

storeContract("as functions", async () => {
  const own = await startRedis();
  return {
    limiter: (wanted) => createLimiter({ ...wanted, redis: own.url, scripting: "functions" }),
    async lifetimes(prefix) {
      const keys = await own.client.keys(`${prefix}:*`);
      return new Map(
        await Promise.all(keys.map(async (key) => [key, await own.client.pttl(key)] as [string, number])),
      );
    },
    forgetScripts: () => own.client.call("FUNCTION", "FLUSH"),
    stop: () => own.stop(),
  };
});

const policies = { many: slidingLog({ limit: 1000, window: "1h" }) };

async function libraries(from: RedisServer): Promise<string[]> {
  const list = (await from.client.call("FUNCTION", "LIST")) as unknown[][];
  return list.map((library) => String(library[1])).sort();
}

describe("a limiter that decides by functions", () => {
  let subject: Live;
  beforeEach(async () => {
    await server.client.call("FUNCTION", "FLUSH");
    subject = await live(server, { policies, scripting: "functions" });
    return () => subject.limiter.close();
  });

  const used = async () =>
    1000 - (await subject.limiter.peek({ identity: "somebody" })).verdicts[0]!.remaining;

  it("loads its library when the connection is ready, and runs no script", async () => {
    expect(await libraries(server)).toEqual([expect.stringMatching(/^tidegate_[0-9a-f]{8}$/)]);
    await resetStats(server);
    expect(await subject.admitted(100)).toBe(100);
    expect(await callsOf(server, "fcall")).toBeGreaterThan(0);
    for (const command of ["eval", "evalsha", "script|load", "function|load"])
      expect([command, await callsOf(server, command)]).toEqual([command, 0]);
  });

  it("loads it again when the server has lost it: nobody notices", async () => {
    await subject.admitted(3);
    await server.client.call("FUNCTION", "FLUSH");
    expect(await subject.admitted(50)).toBe(50);
    expect(await used()).toBe(53);
    expect(subject.events).toEqual([]);
  });

  it("shares its counts with limiters that decide by scripts", async () => {
    await subject.admitted(3);
    const scripted = await live(server, { policies, prefix: subject.prefix });
    expect(await scripted.admitted(4)).toBe(4);
    expect(await used()).toBe(7);
    await scripted.limiter.close();
  });

  it("stands beside another version of itself, each with its own text", async () => {
    const text = `${compose("decide")}-- the next version\n`;
    const store = redisStore(ioredisClient(server.url), {
      scripting: "functions",
      scripts: { decide: { sha: "", text } },
    });
    const next = createLimiter({ store, policies, prefix: subject.prefix, timeoutMs: 5000 });
    const both = await Promise.all(
      Array.from({ length: 50 }, async () => [
        await subject.admitted(1),
        (await next.decide({ identity: "somebody" })).allowed,
      ]),
    );
    expect(both).toEqual(Array(50).fill([1, true]));
    expect(await used()).toBe(100);
    expect(await libraries(server)).toHaveLength(2);
    await next.close();
    await store.close();
  });
});

it("is well again after a restart without persistence", async () => {
  const own = await startRedis();
  const subject = await live(own, { policies, scripting: "functions" });
  await subject.admitted(3);
  await own.kill();
  const again = await startRedis({ port: own.port });
  await eventually("it decides again", async () => {
    const { degraded } = await subject.limiter.decide({ identity: "warm-up", cost: 0 });
    return !degraded;
  });
  expect(await subject.admitted(20)).toBe(20);
  await subject.limiter.close();
  await again.stop();
  await own.stop();
});

it("a user who may not load decides by what somebody else has loaded", async () => {
  await (await live(server, { policies, scripting: "functions" })).limiter.close();
  const rights = ["~fn:*", "+fcall", "+time", "+zcount", "+zrange", "+zadd", "+pexpireat", "+pexpiretime"];
  await server.client.call(
    "ACL",
    "SETUSER",
    "runs",
    "on",
    ">secret",
    "-@all",
    ...rights,
    "+zremrangebyscore",
  );
  const redis = `redis://runs:secret@127.0.0.1:${server.port}`;
  const subject = await live(server, { policies, scripting: "functions", redis, prefix: "fn" });
  expect(await subject.admitted(20)).toBe(20);
  await subject.limiter.close();
});

it("loads its library on every primary of a Cluster, and on one that comes later", async () => {
  const cluster = await startClusterOf({ primaries: 3, replicas: 0 });
  const client = new Cluster([...cluster.startupNodes]);
  const limiter = createLimiter({
    redis: client,
    prefix: freshPrefix(),
    policies,
    scripting: "functions",
    timeoutMs: 5000,
  });
  const ask = () => Promise.all(Array.from({ length: 60 }, (_, i) => limiter.decide({ identity: `u${i}` })));
  expect((await ask()).filter(({ degraded }) => degraded)).toEqual([]);
  for (const node of await cluster.primaries()) expect(await libraries(node)).toHaveLength(1);
  const [first] = await cluster.primaries();
  const newcomer = await cluster.addPrimary();
  await cluster.moveSlots(first!, newcomer, 2000);
  await eventually("the newcomer has the library", async () => {
    expect((await ask()).filter(({ degraded }) => degraded)).toEqual([]);
    return (await libraries(newcomer)).length === 1;
  });
  await limiter.close();
  client.disconnect();
  await cluster.stop();
});
