/** How the doctor reaches a server, and what it says when that does not come about. */
import { doctor, ioredisClient } from "@tidegate/core";
import { Cluster, Redis } from "ioredis";
import { Redis as Redis5 } from "ioredis5";
import { Redis as Valkey } from "iovalkey";
import { createClient } from "redis";
import { createClient as createClient5 } from "redis5";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { faultProxy } from "../harness/fault-proxy.ts";
import { freePort, type RedisServer, startRedis } from "../harness/redis.ts";
import { examine, of, onLevel, the } from "./asking.ts";

let server: RedisServer;
let locked: RedisServer;
beforeAll(async () => {
  [server, locked] = await Promise.all([startRedis(), startRedis({ args: ["--requirepass", "right"] })]);
});
afterAll(async () => void (await Promise.all([server.stop(), locked.stop()])));

async function proxyTo(port: number) {
  const proxy = await faultProxy({ port });
  onTestFinished(() => proxy.close());
  return proxy;
}

describe("a server that cannot be reached", () => {
  it("is a finding that says where, and nothing of the password", async () => {
    const port = await freePort();
    const report = await doctor({ redis: `redis://somebody:hush-hush@127.0.0.1:${port}/2` });
    expect(report).toEqual({
      ok: false,
      servers: [expect.objectContaining({ address: `127.0.0.1:${port}`, version: undefined })],
      findings: [
        {
          code: "TIDEGATE_DOCTOR_CONNECTION",
          level: "must",
          server: `127.0.0.1:${port}`,
          message: `There is no answer from 127.0.0.1:${port}: ECONNREFUSED.`,
          advice: expect.stringContaining("host and port"),
          value: { why: "ECONNREFUSED" },
        },
      ],
    });
    expect(JSON.stringify(report)).not.toMatch(/hush-hush|somebody/);
  });

  it("has a name that leads nowhere", async () => {
    const report = await doctor({ redis: "redis://tidegate.invalid", answerMs: 10_000 });
    expect(the(report, "CONNECTION").message).toMatch(
      /^There is no answer from tidegate\.invalid:6379: (ENOTFOUND|EAI_AGAIN)\.$/,
    );
  });

  it("is a path where there is no socket", async () => {
    const redis = new Redis("/tmp/no-such-tidegate.sock", { lazyConnect: true });
    onTestFinished(() => redis.disconnect());
    const report = await doctor({ redis, answerMs: 10_000 });
    expect(the(report, "CONNECTION").message).toBe(
      "There is no answer from /tmp/no-such-tidegate.sock: ENOENT.",
    );
  });

  it("accepts connections and says nothing: that takes no longer than an answer may", async () => {
    const proxy = await proxyTo(server.port);
    proxy.silent();
    const begun = performance.now();
    const report = await doctor({ redis: proxy.url, answerMs: 300 });
    expect(performance.now() - begun).toBeLessThan(3000);
    expect(the(report, "CONNECTION").message).toBe(
      `There is no answer from 127.0.0.1:${proxy.port}: there was no connection within 300 ms.`,
    );
  });

  it("falls silent while it is asked: that is told once, and in time", async () => {
    const proxy = await proxyTo(server.port);
    const redis = new Redis(proxy.url);
    onTestFinished(() => redis.disconnect());
    await redis.ping();
    const given = ioredisClient(redis, { share: true });
    onTestFinished(() => given.close());
    proxy.silent();
    const begun = performance.now();
    const report = await doctor({ redis: given, answerMs: 300 });
    expect(performance.now() - begun).toBeLessThan(3000);
    expect(onLevel(report, "must")).toEqual(["CONNECTION"]);
    expect(the(report, "CONNECTION").message).toContain("there was no answer within 300 ms");
  });
});

describe("a server that lets nobody in", () => {
  it.each([
    ["a wrong password", ":wrong@", "refuses the user or the password.", "WRONGPASS"],
    ["an unknown user", "stranger:right@", "refuses the user or the password.", "WRONGPASS"],
    ["no password", "", "wants a user and a password.", "NOAUTH"],
  ])("%s", async (_, login, words, word) => {
    const report = await doctor({ redis: `redis://${login}127.0.0.1:${locked.port}`, answerMs: 10_000 });
    expect(report.findings).toEqual([
      expect.objectContaining({
        code: "TIDEGATE_DOCTOR_LOGIN",
        level: "must",
        message: `127.0.0.1:${locked.port} ${words}`,
        value: { word },
      }),
    ]);
    expect(JSON.stringify(report)).not.toMatch(/right|wrong@/);
  });

  it("lets in who has the password", async () => {
    const report = await examine({ redis: `redis://:right@127.0.0.1:${locked.port}` });
    expect([report.ok, of(report, "LOGIN")]).toEqual([true, []]);
  });
});

describe("a server that is far away", () => {
  it("is warned of when the longest round trip is more than half of what a decision may take", async () => {
    const proxy = await proxyTo(server.port);
    proxy.latency(60);
    const report = await examine({ redis: proxy.url, timeoutMs: 235 });
    expect(onLevel(report, "must", "warning")).toEqual(["LATENCY"]);
    const { level, value } = the(report, "LATENCY");
    expect(level).toBe("warning");
    expect((value as { p50Ms: number }).p50Ms).toBeGreaterThan(110);
    // However far away, its clock is told.
    expect(Math.abs(report.servers[0]!.clockOffsetMs!)).toBeLessThan(1000);
  });

  it("must be nearer when half of the round trips take longer than a decision may", async () => {
    const proxy = await proxyTo(server.port);
    proxy.latency(30);
    const report = await doctor({ redis: proxy.url, answerMs: 10_000 });
    expect(onLevel(report, "must")).toEqual(["LATENCY"]);
    expect(the(report, "LATENCY").message).toMatch(
      /a decision may take 50 ms\. So most decisions are the failure rule's\.$/,
    );
  });
});

describe("the connection", () => {
  const connections = async () =>
    ((await server.client.call("CLIENT", "LIST")) as string).trim().split("\n").length;

  it("is the doctor's own, and closed afterwards", async () => {
    const before = await connections();
    await examine({ redis: server.url });
    await eventually("it is gone", async () => (await connections()) === before);
  });

  it.each([
    ["ioredis 6", () => new Redis(server.url, { lazyConnect: true, db: 1 })],
    ["ioredis 5", () => new Redis5(server.url, { lazyConnect: true })],
    ["iovalkey", () => new Valkey(server.url, { lazyConnect: true })],
  ])("takes a client of %s, and leaves it as it is", async (_, made) => {
    const redis = made();
    onTestFinished(() => redis.disconnect());
    const before = [redis.status, ...redis.eventNames()];
    const report = await examine({ redis });
    expect(onLevel(report, "must", "warning")).toEqual([]);
    expect(report.servers).toMatchObject([{ address: `127.0.0.1:${server.port}`, name: "Redis", keys: 0 }]);
    expect([redis.status, ...redis.eventNames()]).toEqual(before);
  });

  it.each([
    ["node-redis 6", () => createClient({ url: server.url })],
    ["node-redis 6 with RESP2", () => createClient({ url: server.url, RESP: 2 })],
    ["node-redis 5", () => createClient5({ url: server.url })],
  ])("takes a client of %s, and leaves it as it is", async (_, made) => {
    const redis = made();
    const report = await examine({ redis });
    expect(onLevel(report, "must", "warning")).toEqual([]);
    expect(of(report, "IDLE_TIMEOUT")).toMatchObject([{ value: { seconds: 0 } }]);
    expect(report.servers).toMatchObject([{ name: "Redis", keys: 0, clockOffsetMs: expect.anything() }]);
    expect(redis.isOpen).toBe(false);
  });

  it("of a limiter may be looked through, and stays open", async () => {
    const client = ioredisClient(server.url);
    onTestFinished(() => client.close());
    let told = 0;
    client.onState(() => told++);
    const report = await examine({ redis: client });
    expect(report.ok).toBe(true);
    expect([client.state, told]).toEqual(["ready", 1]);
  });

  it("that is one of a Cluster finds a server that is none", async () => {
    const redis = new Cluster([{ host: "127.0.0.1", port: server.port }], { lazyConnect: true });
    onTestFinished(() => redis.disconnect());
    const report = await doctor({ redis, answerMs: 10_000 });
    expect(report.findings).toEqual([
      expect.objectContaining({
        code: "TIDEGATE_DOCTOR_TOPOLOGY",
        level: "must",
        server: undefined,
        message: `There is a server, and no Cluster: the Cluster of 127.0.0.1:${server.port}.`,
      }),
    ]);
  });
});

describe("an option", () => {
  it.each([
    [{ redis: "127.0.0.1" }, "redis"],
    [{ redis: undefined as unknown as string }, "redis"],
    [{ redis: "redis://x", prefix: "a{b}" }, "prefix"],
    [{ redis: "redis://x", answerMs: 0 }, "answerMs"],
    [{ redis: "redis://x", keys: -1 }, "keys"],
    [{ redis: "redis://x", timeoutMs: 1.5 }, "timeoutMs"],
    [{ redis: "redis://x", policies: {} }, "policies"],
    [{ redis: "redis://x", patience: 1 } as { redis: string }, "patience"],
  ])("that cannot work is an error: %j", async (options, option) => {
    await expect(doctor(options)).rejects.toMatchObject({ name: "ConfigError", option });
  });
});
