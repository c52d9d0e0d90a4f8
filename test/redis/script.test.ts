import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compose } from "../../lua/compose.js";
import { eventually } from "../harness/eventually.ts";
import { freshPrefix } from "../harness/pair.ts";
import { type RedisServer, startCluster, startRedis } from "../harness/redis.ts";

let server: RedisServer;

const servers = [
  ["one server", startRedis],
  ["a Cluster of one server", startCluster],
] as const;

/** On each kind of server: a single one lets a script touch any key, a Cluster's node does not. */
const onEach = (what: string, tests: () => void): void =>
  describe.each(servers)(`on %s, ${what}`, (_, start) => {
    beforeAll(async () => {
      server = await start();
    });
    afterAll(() => server.stop());
    tests();
  });

const script = compose("decide");

type Arg = string | number;
const run = (keys: string[], ...args: Arg[]) =>
  server.client.eval(script, keys.length, ...keys, ...args) as Promise<number[]>;

const bucket = (capacity: number): Arg[] => ["tb", "e", 1, capacity * 1e9, capacity, 0.001, 0];
const window = (limit: number): Arg[] => ["fw", "e", 1, 60_000_000, limit, 60_000_000, 0];
const check = (...tail: Arg[]): Arg[] => [1, 1, ...tail];
const freshKey = () => `${freshPrefix()}:{id:x}:p:tb`;

/** Status of a script's reply to one check. */
const status = async (keys: string[], ...args: Arg[]) => (await run(keys, ...args))[2];

onEach("the contract of decide.lua", () => {
  it("answers its version, the server's time, and each check's status and state", async () => {
    const [version, now, granted, micro, ts, ...rest] = await run(
      [freshKey()],
      1,
      "",
      1,
      1,
      ...bucket(5),
      ...check(1, ""),
    );
    const time = (await server.client.time()).map(Number);
    expect([version, granted, micro, rest]).toEqual([1, 1, 4_000_000, []]);
    expect(ts).toBe(now);
    expect(Math.abs(time[0]! * 1e6 + time[1]! - now!)).toBeLessThan(5e6);
  });

  it.each([
    ["TGVERSION", [2, "", 1, 1, ...bucket(5), ...check(1, "")]],
    ["TGVERSION", ["", "", 1, 1, ...bucket(5), ...check(1, "")]],
    ["TGALGORITHM", [1, "", 1, 1, "xx", "e", 1, 1, 1, 1, 1, ...check(1, "")]],
    ["TGMODE", [1, "", 1, 1, "tb", "x", 1, 1, 1, 1, 1, ...check(1, "")]],
  ] as [string, Arg[]][])("refuses what it does not know: %s", async (code, args) => {
    const key = freshKey();
    await expect(run([key], ...args)).rejects.toThrow(new RegExp(`^${code} `));
    expect(await server.client.exists(key)).toBe(0);
  });

  it("answers -7 to a flag it does not know, and decides the other checks", async () => {
    const [a, b] = [freshKey(), freshKey()];
    const reply = await run([a, b], 1, "", 1, 2, ...bucket(5), ...check(1, "z"), ...check(1, ""));
    expect([reply[2], reply[5]]).toEqual([-7, 1]);
    expect([await server.client.exists(a), await server.client.exists(b)]).toEqual([0, 1]);
  });

  it("answers -1 after the deadline and writes nothing", async () => {
    const key = freshKey();
    expect(await status([key], 1, 1_000_000, 1, 1, ...bucket(5), ...check(1, ""))).toBe(-1);
    expect(await server.client.exists(key)).toBe(0);
    expect(await status([key], 1, 9e15, 1, 1, ...bucket(5), ...check(1, ""))).toBe(1);
  });

  it("writes nothing when it only peeks", async () => {
    const key = freshKey();
    const [, , granted, micro] = await run([key], 1, "", 1, 1, ...bucket(5), ...check(1, "p"));
    expect([granted, micro]).toEqual([1, 5_000_000]);
    expect(await server.client.exists(key)).toBe(0);
  });

  it.each([
    ["all of n or none", 7, "", 0, 5],
    ["all of n when they fit", 5, "", 5, 0],
    ["as many of n as fit, when that is asked for", 7, "g", 5, 0],
  ] as [string, number, string, number, number][])("grants %s", async (_, n, flags, granted, left) => {
    const key = freshKey();
    expect(await status([key], 1, "", 1, 1, ...bucket(5), ...check(n, flags))).toBe(granted);
    const [, , , micro] = await run([key], 1, "", 1, 1, ...bucket(5), ...check(1, "p"));
    expect(Math.floor(micro! / 1e6)).toBe(left);
  });

  it("decides the same key several times in one batch as it would one by one", async () => {
    const key = `${freshPrefix()}:{id:x}:p:fw`;
    const reply = await run(
      [key, key, key],
      1,
      "",
      1,
      3,
      ...window(2),
      ...check(1, ""),
      ...check(1, ""),
      ...check(1, ""),
    );
    expect([reply[2], reply[5], reply[8]]).toEqual([1, 1, 0]);
  });
});

onEach("a key that somebody else wrote", () => {
  it("in the middle of a batch of 64 hurts one check only", async () => {
    const keys = Array.from({ length: 64 }, freshKey);
    await server.client.sadd(keys[31]!, "not", "ours");
    const reply = await run(keys, 1, "", 1, 64, ...bucket(5), ...keys.flatMap(() => check(1, "")));
    const statuses = keys.map((_, i) => reply[2 + 3 * i]);
    expect(statuses).toEqual(keys.map((_, i) => (i === 31 ? -4 : 1)));
    expect(await server.client.exists(...keys)).toBe(64);
    expect(await server.client.smembers(keys[31]!)).toHaveLength(2);
  });

  it("charges no other policy of its check", async () => {
    const [ours, theirs] = [freshKey(), freshKey()];
    await server.client.set(theirs, "text");
    const reply = await run([ours, theirs], 1, "", 1, 1, ...bucket(5), 2, 1, 1, 1, "");
    expect(reply.slice(2)).toEqual([-4, 0, 0, 0, 0]);
    expect(await server.client.exists(ours)).toBe(0);
  });

  it.each([
    ["tb", "hset", ["tokens", "many", "ts", "1"]],
    ["tb", "hset", ["tokens", "nan", "ts", "1"]],
    ["tb", "hset", ["tokens", "inf", "ts", "1"]],
    ["tb", "hset", ["tokens", "1", "ts", "nan"]],
    ["tb", "hset", ["tokens", "1"]],
    ["sw", "set", ["12 bytes not"]],
    ["sw", "set", ["short"]],
    ["sl", "zadd", ["+inf", "x"]],
    ["fw", "set", ["5.5"]],
    ["fw", "set", ["-3"]],
    ["fw", "set", ["nan"]],
    ["fw", "set", ["99999999999999999999"]],
  ] as [string, "hset" | "set" | "zadd", string[]][])(
    "%s: %s %j is never taken for room",
    async (tag, command, args) => {
      const key = `${freshPrefix()}:{id:x}:p:${tag}`;
      await server.client.call(command, key, ...args);
      const before = await server.client.dump(key);
      const numbers: Record<string, Arg[]> = {
        tb: bucket(5),
        sw: ["sw", "e", 1, 120_000_000, 5, 60_000_000, 0],
        sl: ["sl", "e", 1, 60_000_000, 5, 60_000_000, 0],
        fw: window(5),
      };
      const answered = await status([key], 1, "", 1, 1, ...numbers[tag]!, ...check(1, ""));
      // Twelve bytes are a state, whoever wrote them: then it is one of a window long past.
      if (args[0] === "12 bytes not") return expect(answered).toBeGreaterThanOrEqual(0);
      expect(answered).toBe(-5);
      expect(await server.client.dump(key)).toEqual(before);
    },
  );
});

describe("a refusal", () => {
  let replica: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
    // Without a replica nothing is counted as replicated; its heartbeats would count too.
    await server.client.config("SET", "repl-ping-replica-period", 3600);
    await server.client.config("SET", "repl-diskless-sync-delay", 0);
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

  it.each([
    ["tb", bucket(1)],
    ["sw", ["sw", "e", 1, 120_000_000, 1, 60_000_000, 0]],
    ["sl", ["sl", "e", 1, 60_000_001, 1, 60_000_000, 0]],
    ["fw", window(1)],
  ] as [string, Arg[]][])("writes nothing in %s: no state, no expiry, no replication", async (tag, table) => {
    const key = `${freshPrefix()}:{id:x}:p:${tag}`;
    const ask = () => status([key], 1, "", 1, 1, ...table, ...check(1, ""));
    const look = async () => [
      await server.client.dump(key),
      await server.client.pexpiretime(key),
      await offset(),
    ];
    const untouched = await offset();
    expect(await ask()).toBe(1);
    const before = await look();
    expect(before[2]).not.toBe(untouched);
    for (let times = 0; times < 200; times++) expect(await ask()).toBe(0);
    expect(await look()).toEqual(before);
  });
});

onEach("stored numbers", () => {
  it("P44 T1 read back as they were written, in plain digits", async () => {
    const key = freshKey();
    await server.client.hset(key, { tokens: "1.333", ts: String(Date.now() * 1000 + 3_600_000_000) });
    const [, now, granted] = await run([key], 1, "", 1, 1, ...bucket(5), ...check(1, ""));
    const { tokens, ts } = await server.client.hgetall(key);
    expect(granted).toBe(1);
    expect(Math.abs(Number(tokens) - 0.333)).toBeLessThan(1e-6);
    expect(ts).toBe(String(now));
    expect(`${tokens} ${ts}`).not.toMatch(/e/i);
  });

  it("P44 T2 a key left alone for ten years is full, not negative", async () => {
    const key = freshKey();
    const tenYearsAgo = (Date.now() - 10 * 365.25 * 86_400_000) * 1000;
    await server.client.hset(key, { tokens: "0.000000", ts: String(tenYearsAgo) });
    // What is taken is a quarter of an hour away from being back, so the key is still there to look at.
    const table: Arg[] = ["tb", "e", 1e6, 2e12, 1e9, 1000, 0];
    const [, , granted, micro] = await run([key], 1, "", 1, 1, ...table, ...check(1, ""));
    expect([granted, micro]).toEqual([1, (1e9 - 1e6) * 1e6]);
    expect(await server.client.hget(key, "tokens")).toBe("999000000");
  });
});
