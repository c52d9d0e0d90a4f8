import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { keysUnder, live } from "../harness/live.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { names, policyOf } from "./algorithms.ts";

let server: RedisServer;
let replica: RedisServer;
beforeAll(async () => {
  server = await startRedis();
  // Without a replica nothing is counted as replicated; its heartbeats would count too.
  await server.client.config("SET", "repl-ping-replica-period", 3600, "repl-diskless-sync-delay", 0);
  replica = await startRedis({ args: ["--replicaof", "127.0.0.1", String(server.port)] });
  await eventually("the replica is in step", async () =>
    /master_link_status:up/.test(await replica.client.info("replication")),
  );
});
afterAll(async () => {
  await replica.stop();
  await server.stop();
});

const offset = async () => /master_repl_offset:(\d+)/.exec(await server.client.info("replication"))?.[1];

/** All that there is under a prefix, to the byte and the millisecond, and how much the replica was told. */
async function everything(prefix: string): Promise<unknown[]> {
  const keys = (await keysUnder(server, prefix)).sort();
  const states = keys.map(async (key) => [
    key,
    await server.client.dumpBuffer(key),
    await server.client.pexpiretime(key),
  ]);
  return [await Promise.all(states), await offset()];
}

describe("20,000 refusals change no value, no lifetime and nothing on a replica", () => {
  it.each(names)("%s", async (name) => {
    const { limiter, prefix, admitted } = await live(server, {
      policies: { full: policyOf(name, 3), wide: policyOf(name, 1000) },
    });
    const untouched = await offset();
    expect(await admitted(3)).toBe(3);
    const before = await everything(prefix);
    expect(before[1]).not.toBe(untouched);
    for (let i = 0; i < 20; i++) expect(await admitted(1000)).toBe(0);
    expect(await everything(prefix)).toEqual(before);
    await limiter.close();
  });

  it("a cost that never fits", async () => {
    const policies = Object.fromEntries(names.map((name, i) => [`p${i}`, policyOf(name, 3)]));
    const { limiter, prefix, admitted } = await live(server, { policies });
    await admitted(1);
    const before = await everything(prefix);
    expect(await admitted(500, "somebody", 4)).toBe(0);
    expect(await everything(prefix)).toEqual(before);
    await limiter.close();
  });

  it("an idempotency key that comes with a refusal", async () => {
    const { limiter, prefix, admitted } = await live(server, { policies: { p: policyOf("gc", 1) } });
    await admitted(1);
    const before = await everything(prefix);
    const request = { identity: "somebody", idempotencyKey: "k" };
    const refused = await Promise.all(Array.from({ length: 500 }, () => limiter.decide(request)));
    expect(refused.some(({ allowed }) => allowed)).toBe(false);
    expect(await everything(prefix)).toEqual(before);
    await limiter.close();
  });
});
