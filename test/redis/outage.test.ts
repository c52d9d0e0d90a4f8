import { fork } from "node:child_process";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createLimiter, fixedWindow, type Limiter, type TidegateEvent } from "@tidegate/core";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { freshPrefix } from "../harness/pair.ts";
import { freePort, type RedisServer, startRedis } from "../harness/redis.ts";
import { bulk, scriptedServer } from "../harness/scripted.ts";
import { worker } from "../harness/worker.ts";

/** Deadline, and what a busy test machine may add. */
const DEADLINE_MS = 50;
const SLACK_MS = 50;

const policies = { p: fixedWindow({ limit: 5, window: "1h" }) };

function limiterOf(redis: string | Redis, more = {}): { limiter: Limiter; events: TidegateEvent[] } {
  const events: TidegateEvent[] = [];
  const limiter = createLimiter({
    redis,
    prefix: freshPrefix(),
    policies,
    onEvent: (event) => events.push(event),
    ...more,
  });
  return { limiter, events };
}

/** One decision, and how long it took. */
async function timed(limiter: Limiter) {
  const start = performance.now();
  const decision = await limiter.decide({ identity: "somebody" });
  return { decision, ms: performance.now() - start };
}

const types = (events: readonly TidegateEvent[], type: TidegateEvent["type"]) =>
  events.filter((event) => event.type === type);

async function expectExact(limiter: Limiter): Promise<void> {
  const decisions = await Promise.all(
    Array.from({ length: 12 }, () => limiter.decide({ identity: "after" })),
  );
  expect(decisions.map(({ degraded }) => degraded).filter(Boolean)).toEqual([]);
  expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(5);
}

describe("P21 Redis is not there at the start", () => {
  it("P21 T1 requests are answered by the rule; exact within 2 s of its coming; one event each way", async () => {
    const port = await freePort();
    const { limiter, events } = limiterOf(`redis://127.0.0.1:${port}`);
    for (let i = 0; i < 20; i++) {
      const { decision, ms } = await timed(limiter);
      expect([decision.allowed, decision.degraded?.rule, decision.verdicts]).toEqual([true, "open", []]);
      expect(ms).toBeLessThan(DEADLINE_MS + SLACK_MS);
      await sleep(20);
    }
    expect(types(events, "storeError")).toHaveLength(1);
    expect(types(events, "degraded")).toHaveLength(20);

    const server = await startRedis({ port });
    await eventually(
      "decisions come from Redis",
      async () => !(await timed(limiter)).decision.degraded,
      2000,
    );
    await expectExact(limiter);
    expect(types(events, "storeError")).toHaveLength(1);
    expect(types(events, "recovered")).toHaveLength(1);
    await limiter.close();
    await server.stop();
  });

  it("P21 T2 a wrong password: the rule answers and says denied, and nothing of the password", async () => {
    const server = await startRedis({ args: ["--requirepass", "right"] });
    const { limiter, events } = limiterOf(`redis://:hunter2@127.0.0.1:${server.port}`);
    await eventually(
      "it is told so",
      async () => (await timed(limiter)).decision.degraded?.reason === "denied",
    );
    const { decision, ms } = await timed(limiter);
    expect(decision.degraded).toEqual({ rule: "open", reason: "denied" });
    expect(ms).toBeLessThan(DEADLINE_MS + SLACK_MS);
    expect(JSON.stringify(events)).not.toContain("hunter2");
    await limiter.close();
    await server.stop();
  });

  it("P21 T3 in ten seconds without Redis no rejection goes unhandled", { timeout: 30_000 }, async () => {
    const child = fork(worker, [], { execArgv: [], stdio: ["ignore", "pipe", "pipe", "ipc"] });
    let said = "";
    child.stderr?.on("data", (chunk) => (said += chunk));
    child.send({ run: "withoutRedis", url: `redis://127.0.0.1:${await freePort()}`, forMs: 10_000 });
    const code = await new Promise((resolve) => child.once("exit", resolve));
    expect([code, said]).toEqual([0, ""]);
  });

  it("answers in time when the port is taken by something that says nothing", async () => {
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const { port } = silent.address() as { port: number };
    const { limiter } = limiterOf(`redis://127.0.0.1:${port}`);
    for (let i = 0; i < 5; i++) {
      const { decision, ms } = await timed(limiter);
      expect(decision.degraded).toBeDefined();
      expect(ms).toBeLessThan(DEADLINE_MS + SLACK_MS);
    }
    await limiter.close();
    silent.close();
  });
});

describe("a server that is too old", () => {
  it.each([
    ["6.2.14", "server"],
    ["7.0.0", "unknown"],
    ["7.2.4", "unknown"],
    ["8.0.2", "unknown"],
  ])("%s: every decision is degraded by %s", async (version, reason) => {
    const server = await scriptedServer((command) => {
      if (command === "HELLO") return "-NOPROTO unsupported protocol version\r\n";
      if (command === "INFO") return bulk(`redis_version:${version}\r\nloading:0\r\n`);
      return undefined;
    });
    const { limiter, events } = limiterOf(server.url);
    await eventually("it is known", async () => (await timed(limiter)).decision.degraded?.reason === reason);
    if (reason === "server") {
      await timed(limiter);
      const told = types(events, "storeError").filter(
        (event) => "reason" in event && event.reason === reason,
      );
      const message = `the server is Redis ${version}; Redis 7.0 or Valkey 7.2 or newer is needed`;
      expect(told).toEqual([{ type: "storeError", reason, message }]);
    }
    await limiter.close();
    server.stop();
  });
});

describe("Redis fails while at work", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  it("hangs: each request is answered within the deadline, and none is charged afterwards", async () => {
    const { limiter, events } = limiterOf(server.url, {
      policies: { p: fixedWindow({ limit: 1000, window: "1h" }) },
    });
    await eventually("ready", async () => !(await timed(limiter)).decision.degraded);
    for (let i = 0; i < 10; i++) await timed(limiter);
    const before = 1000 - (await limiter.decide({ identity: "somebody", cost: 0 })).verdicts[0]!.remaining;

    server.pause();
    const hung = await Promise.all(Array.from({ length: 50 }, () => timed(limiter)));
    for (const { decision, ms } of hung) {
      expect(decision.degraded).toEqual({ rule: "open", reason: "timeout" });
      expect(ms).toBeLessThan(DEADLINE_MS + SLACK_MS);
    }
    server.resume();

    await eventually(
      "well again",
      async () => !(await limiter.decide({ identity: "x", cost: 0 })).degraded,
      2000,
    );
    const after = 1000 - (await limiter.decide({ identity: "somebody", cost: 0 })).verdicts[0]!.remaining;
    expect(after).toBe(before);
    expect(types(events, "storeError")).toHaveLength(1);
    await limiter.close();
  });

  it("is killed and comes back: the rule answers at once, then decisions are exact", async () => {
    const port = await freePort();
    const first = await startRedis({ port });
    const { limiter, events } = limiterOf(first.url, { onFailure: "closed" });
    await eventually("ready", async () => !(await timed(limiter)).decision.degraded);
    await first.kill();
    await sleep(50);
    const { decision, ms } = await timed(limiter);
    expect(decision).toMatchObject({
      allowed: false,
      degraded: { rule: "closed", reason: "connection" },
      retryAfterMs: null,
    });
    expect(ms).toBeLessThan(DEADLINE_MS + SLACK_MS);
    await first.stop();

    const second = await startRedis({ port });
    await eventually("well again", async () => !(await timed(limiter)).decision.degraded, 2000);
    await expectExact(limiter);
    expect(types(events, "storeError")).toHaveLength(1);
    expect(types(events, "recovered")).toHaveLength(1);
    await limiter.close();
    await second.stop();
  });

  it("refuses a key that is not ours: that decision is degraded, the others are not, nothing is repaired", async () => {
    const { limiter, events } = limiterOf(server.url, { prefix: "shared" });
    await eventually("ready", async () => !(await timed(limiter)).decision.degraded);
    await server.client.sadd("shared:{id:odd}:p:fw", "a", "set");
    const odd = await limiter.decide({ identity: "odd" });
    expect(odd.degraded).toEqual({ rule: "open", reason: "foreign" });
    await expectExact(limiter);
    expect(await server.client.scard("shared:{id:odd}:p:fw")).toBe(2);
    expect(types(events, "storeError")).toEqual([]);
    await limiter.close();
  });
});

describe("a client of the user's", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  it("is left untouched and open; its settings do not become ours", async () => {
    const theirs = new Redis(server.port, "127.0.0.1", { commandTimeout: 60_000, maxRetriesPerRequest: 7 });
    const names = () => theirs.eventNames().map((name) => [name, theirs.listenerCount(name)]);
    await eventually("theirs is ready", () => theirs.status === "ready");
    const before = { names: names(), options: { ...theirs.options } };
    const { limiter } = limiterOf(theirs);
    await eventually("ready", async () => !(await timed(limiter)).decision.degraded);
    await expectExact(limiter);
    await limiter.close();
    await limiter.close();
    expect({ names: names(), options: { ...theirs.options } }).toEqual(before);
    expect(Object.keys(theirs)).not.toContain("decide");
    expect(await theirs.ping()).toBe("PONG");
    theirs.disconnect();
  });

  it("with a key prefix: ours stands behind it", async () => {
    const theirs = new Redis(server.port, "127.0.0.1", { keyPrefix: "app:" });
    const { limiter } = limiterOf(theirs, { prefix: "ours" });
    await eventually("ready", async () => !(await timed(limiter)).decision.degraded);
    await expectExact(limiter);
    expect(await server.client.keys("*ours*")).toContain("app:ours:{id:after}:p:fw");
    await limiter.close();
    theirs.disconnect();
  });
});
