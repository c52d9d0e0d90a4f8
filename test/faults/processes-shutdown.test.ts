/** P25 and shutdown: what a limiter leaves behind in a process, and how one ends in the middle of its work. */
import { type ChildProcess, fork } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createLimiter, fixedWindow } from "@tidegate/core";
import { Redis } from "ioredis";
import { Pool } from "undici";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { freshPrefix } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";

const once = fileURLToPath(new URL("./processes-once.mjs", import.meta.url));
const server = fileURLToPath(new URL("./processes-server.mjs", import.meta.url));

let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());
beforeEach(() => redis.client.flushall());

const connections = async () =>
  String(await redis.client.client("LIST"))
    .trim()
    .split("\n").length;

/** A process of its own, until the test is over, and what it said when it ended. */
function started(program: string, ...args: string[]) {
  const child = fork(program, args, { execArgv: [], stdio: ["ignore", "pipe", "pipe", "ipc"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const said = { out: "", error: "" };
  child.stdout!.on("data", (chunk) => (said.out += chunk));
  child.stderr!.on("data", (chunk) => (said.error += chunk));
  const end = new Promise<{ code: number | null; signal: string | null; out: string; error: string }>(
    (resolve) => child.once("close", (code, signal) => resolve({ code, signal, ...said })),
  );
  return { child, end };
}

const message = (child: ChildProcess) =>
  new Promise<any>((resolve, reject) => {
    child.once("message", resolve);
    child.once("exit", (code, signal) => reject(new Error(`it ended early: ${code ?? signal}`)));
  });

/** What a program of processes-once.mjs found, and for how long it lived on after it had nothing more to do. */
async function run(name: string, options: object = {}): Promise<{ result: any; lingeredMs: number }> {
  const { end } = started(once, name, JSON.stringify(options));
  const { code, signal, out, error } = await end;
  expect([code, signal, error]).toEqual([0, null, ""]);
  return JSON.parse(out);
}

describe("P25 what a limiter leaves behind", () => {
  it.each<[string, object, object]>([
    ["in memory, and is not closed", {}, { allowed: true }],
    ["over Redis, and closes it", { redis: true, close: true }, { allowed: true }],
    ["over Redis, and does not close it", { redis: true }, { allowed: true }],
    [
      "over a Redis that is not there, and does not close it",
      { redis: "redis://127.0.0.1:1" },
      { allowed: true, degraded: { rule: "open", reason: "connection" } },
    ],
    [
      "over a Redis that is not there, and closes it",
      { redis: "redis://127.0.0.1:1", close: true },
      { allowed: true, degraded: { rule: "open", reason: "connection" } },
    ],
  ])("P25 a script that makes a limiter %s, ends by itself within a second", async (_, options, expected) => {
    const given = "redis" in options && options.redis === true ? { ...options, redis: redis.url } : options;
    const { result, lingeredMs } = await run("makeOne", given);
    expect(result).toEqual(expected);
    expect(lingeredMs).toBeLessThan(1000);
  });

  it.each(["@tidegate/core", "@tidegate/express", "@tidegate/fastify", "@tidegate/koa"])(
    "P25 to import %s starts no timer, opens no socket and listens to nothing of the process",
    async (name) => {
      const { result } = await run("importOnly", { name });
      expect(result.after).toEqual(result.before);
      expect(result.exports).toBeGreaterThan(10);
    },
  );

  it("P25 100 limiters that are made and closed, thrice each, leave nothing open", async () => {
    const { result, lingeredMs } = await run("makeMany", { redis: redis.url, times: 100 });
    expect([result.alive, result.listeners]).toEqual([[], result.before]);
    expect(result.made).toBeGreaterThan(100);
    expect(lingeredMs).toBeLessThan(1000);
    await eventually("only the test's own connection is left", async () => (await connections()) === 1);
  });

  it.each([false, true])(
    "P25 a client of the application's stays open, with shareConnection: %s",
    async (shareConnection) => {
      const theirs = new Redis(redis.port, "127.0.0.1");
      onTestFinished(() => theirs.disconnect());
      await eventually("theirs is ready", () => theirs.status === "ready");
      const listeners = () => theirs.eventNames().map((name) => [name, theirs.listenerCount(name)]);
      const before = listeners();
      const limiter = createLimiter({
        redis: theirs,
        shareConnection,
        policies: { api: fixedWindow({ limit: 5, window: "1h" }) },
        timeoutMs: 10_000,
      });
      expect((await limiter.decide({ identity: "somebody" })).degraded).toBeUndefined();
      await Promise.all([limiter.close(), limiter.close()]);
      expect(theirs.status).toBe("ready");
      expect(await theirs.ping()).toBe("PONG");
      expect(listeners()).toEqual(before);
      await eventually("only ours is closed", async () => (await connections()) === 2);
    },
  );
});

describe("close()", () => {
  it("leaves nothing that a late request could wake: the rule answers it, and no timer begins", async () => {
    const { result, lingeredMs } = await run("askClosed", { redis: redis.url });
    expect(result).toEqual({ reasons: ["connection"], alive: [] });
    expect(lingeredMs).toBeLessThan(1000);
  });

  it("gives back the slots and reservations that the process holds, and keeps what was charged", async () => {
    const prefix = freshPrefix();
    const { result } = await run("holdAndClose", { redis: redis.url, prefix, timeoutMs: 10_000 });
    expect(result).toEqual({
      reserved: true,
      ms: expect.any(Number),
      afterwards: { rule: "open", reason: "connection" },
    });
    expect(await redis.client.keys(`${prefix}:*`)).toEqual([`${prefix}:{id:somebody}:api:fw`]);
    expect(await redis.client.get(`${prefix}:{id:somebody}:api:fw`)).toBe("3");
  });

  it("takes no longer than a decision when Redis hangs, and the process ends", async () => {
    const { child, end } = started(
      once,
      "holdAndClose",
      JSON.stringify({ redis: redis.url, prefix: freshPrefix(), pauses: true }),
    );
    await message(child);
    redis.pause();
    onTestFinished(() => redis.resume());
    child.send("close");
    const { code, signal, out } = await end;
    redis.resume();
    expect([code, signal]).toEqual([0, null]);
    const { result, lingeredMs } = JSON.parse(out);
    expect(result.ms).toBeLessThan(1000);
    expect(lingeredMs).toBeLessThan(1000);
  });
});

/** Requests with numbers, without end; those that were answered, and those that never got through. */
function traffic(port: number, perSecond: number) {
  const pool = new Pool(`http://127.0.0.1:${port}`);
  onTestFinished(() => pool.destroy());
  const answered: string[] = [];
  const statuses = new Set<number>();
  const underWay: Promise<void>[] = [];
  const start = performance.now();
  const get = async (number: string) => {
    const { statusCode, body } = await pool.request({
      path: "/",
      method: "GET",
      headers: { "x-number": number },
    });
    if ((await body.text()) === "") return;
    statuses.add(statusCode);
    answered.push(number);
  };
  const timer = setInterval(() => {
    while (underWay.length < ((performance.now() - start) / 1000) * perSecond)
      underWay.push(get(String(underWay.length)).catch(() => {}));
  }, 5);
  return {
    answered,
    statuses,
    async end() {
      clearInterval(timer);
      await Promise.all(underWay);
      await pool.close();
      return underWay.length;
    },
  };
}

describe.each(["express", "fastify", "koa"])("SIGTERM in the middle of load: %s", (framework) => {
  it("answers every request that has arrived, gives back what is in flight, and ends by itself", async () => {
    const prefix = freshPrefix();
    const { child, end } = started(
      server,
      JSON.stringify({ framework, redis: redis.url, prefix, handlerMs: 100 }),
    );
    const { port } = await message(child);
    const clients = traffic(port, 300);
    await sleep(700);
    const before = clients.answered.length;
    child.kill("SIGTERM");
    await sleep(300); // Until a balancer has noticed, requests come as ever.
    const asked = await clients.end();
    const { code, signal, out, error } = await end;
    const arrived: string[] = JSON.parse(out);

    expect([code, signal, error]).toEqual([0, null, ""]);
    expect(before).toBeGreaterThan(10);
    expect(arrived.length).toBeGreaterThan(before);
    expect(asked).toBeGreaterThanOrEqual(arrived.length); // Who is not let in any more goes elsewhere.
    const order = (numbers: string[]) => [...numbers].sort((a, b) => Number(a) - Number(b));
    expect(order(clients.answered)).toEqual(order(arrived));
    // Fastify turns down what comes on a connection that is still open.
    for (const status of clients.statuses)
      expect(framework === "fastify" ? [200, 503] : [200]).toContain(status);
    expect(await redis.client.keys(`${prefix}:*:inFlight:*`)).toEqual([]);
  });
});
