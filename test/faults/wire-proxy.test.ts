/** The wire that fails, without any limiter: each fault is what it says, as a client sees it. */
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { type FaultProxy, faultProxy } from "../harness/fault-proxy.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import type { TheirOptions } from "./wire.ts";

let server: RedisServer;
let proxy: FaultProxy;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());
beforeEach(async () => {
  await server.client.flushall();
  proxy = await faultProxy(server);
  return () => proxy.close();
});

/** A client on the failing wire, ready. */
async function client(options: TheirOptions = {}) {
  const redis = new Redis(proxy.port, "127.0.0.1", { disconnectTimeout: 100, ...options });
  const errors: (string | undefined)[] = [];
  redis.on("error", ({ code }: NodeJS.ErrnoException) => errors.push(code));
  onTestFinished(() => redis.disconnect());
  await eventually("ready", () => redis.status === "ready");
  return { redis, errors };
}

/** A client that sends nothing twice. */
const single = { maxRetriesPerRequest: 0 };

async function timed(act: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await act();
  return performance.now() - start;
}

describe("a wire between a client and Redis", () => {
  it("lets everything through while there is no fault", async () => {
    const { redis } = await client();
    expect(await Promise.all([redis.ping(), redis.incr("n"), redis.incr("n")])).toEqual(["PONG", 1, 2]);
    const big = "x".repeat(1_000_000);
    expect(await redis.echo(big)).toBe(big);
    expect(proxy.accepted).toBe(1);
  });

  it("drops the reply to a command that was carried out", async () => {
    const { redis } = await client(single);
    proxy.dropReplies(1, /incr/);
    expect(await redis.ping()).toBe("PONG");
    await expect(redis.incr("n")).rejects.toThrow("max retries");
    expect(await server.client.get("n")).toBe("1");
    expect(await redis.incr("n")).toBe(2);
  });

  it("drops as many replies as it is told: a client as it comes counts once more each time", async () => {
    const { redis } = await client();
    proxy.dropReplies(2, /incr/);
    expect(await redis.incr("n")).toBe(3);
    expect(proxy.accepted).toBe(3);
  });

  it("drops the replies to everything under way on that connection", async () => {
    const { redis } = await client(single);
    proxy.dropReplies(1, /incr/);
    const settled = await Promise.allSettled(Array.from({ length: 100 }, () => redis.incr("n")));
    expect(settled.filter(({ status }) => status === "rejected")).toHaveLength(100);
    expect(await server.client.get("n")).toBe("100");
  });

  it("is silent both ways, and no bytes come after it", async () => {
    const { redis } = await client();
    proxy.silent();
    const answer = redis.incr("n");
    expect(await Promise.race([answer, sleep(200, "nothing")])).toBe("nothing");
    proxy.pass();
    expect(await Promise.race([answer, sleep(200, "nothing")])).toBe("nothing");
    expect(await server.client.get("n")).toBeNull();
    proxy.cut();
    expect(await answer).toBe(1);
  });

  it("accepts a connection while it is silent, which then never comes about", async () => {
    proxy.silent();
    const redis = new Redis(proxy.port, "127.0.0.1", { disconnectTimeout: 100 });
    onTestFinished(() => redis.disconnect());
    await eventually("connected", () => redis.status === "connect");
    await sleep(200);
    expect(redis.status).toBe("connect");
  });

  it("is late each way, and keeps the order", async () => {
    const { redis } = await client();
    proxy.latency(100);
    const answers: number[] = [];
    const all = Array.from({ length: 10 }, async () => answers.push(await redis.incr("n")));
    const ms = await timed(() => Promise.all(all));
    expect(answers).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(ms).toBeGreaterThanOrEqual(190);
    // One after the other they would take two seconds.
    expect(ms).toBeLessThan(1500);
    proxy.pass();
    expect(await redis.incr("n")).toBe(11);
  });

  it("is slow each way", async () => {
    const { redis } = await client();
    proxy.bandwidth(1000);
    const text = "x".repeat(200);
    const ms = await timed(async () => expect(await redis.echo(text)).toBe(text));
    expect(ms).toBeGreaterThanOrEqual(350);
    expect(ms).toBeLessThan(2000);
  });

  it("is reset in the middle of a reply", async () => {
    const { redis, errors } = await client(single);
    proxy.resetMidReply(/incr/);
    await expect(redis.incr("n")).rejects.toThrow("max retries");
    expect(errors).toEqual(["ECONNRESET"]);
    expect(await server.client.get("n")).toBe("1");
    expect(await redis.incr("n")).toBe(2);
  });

  it("refuses, connections that stand as well, until it lets through again", async () => {
    const { redis, errors } = await client();
    proxy.refuse();
    const answer = redis.ping();
    await eventually("several tries", () => errors.length > 2);
    expect(errors.every((code) => code === "ECONNRESET")).toBe(true);
    proxy.pass();
    expect(await answer).toBe("PONG");
  });

  it("lets go of everything when it is closed", async () => {
    const { redis } = await client({ retryStrategy: () => null });
    proxy.close();
    await expect(redis.ping()).rejects.toThrow("Connection is closed");
    const left = async () => (await server.client.info("clients")).match(/connected_clients:(\d+)/)?.[1];
    await eventually("only the test's own client is left", async () => (await left()) === "1");
  });
});
