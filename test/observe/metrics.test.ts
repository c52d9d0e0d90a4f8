/** What the exporters count, on real limiters. */
import { channel } from "node:diagnostics_channel";
import { setTimeout as sleep } from "node:timers/promises";
import { apiKey, type Config, createLimiter, fixedWindow, type Limiter, slidingWindow } from "@tidegate/core";
import express from "express";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { type FaultProxy, faultProxy } from "../harness/fault-proxy.ts";
import { limiting, serve, visit } from "../harness/http.ts";
import { freshPrefix } from "../harness/pair.ts";
import { freePort, type RedisServer, startRedis } from "../harness/redis.ts";
import { exporters, type Running } from "./exporters.ts";

/** Nobody listens there. */
const NOWHERE = "redis://127.0.0.1:1";
const NO_ONE = "secret-customer-42";
const policies = { day: fixedWindow({ limit: 100, window: "1d" }) };

/** So many failures open a breaker. */
const FAILURES = 5;

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

function limiterOf(config: Config): Limiter & { name: string } {
  const prefix = freshPrefix();
  const limiter = createLimiter({ prefix, timeoutMs: 10_000, policies, ...config });
  onTestFinished(() => limiter.close());
  return Object.assign(limiter, { name: config.prefix ?? prefix });
}

async function decide(limiter: Limiter, times: number): Promise<void> {
  for (let i = 0; i < times; i++) await limiter.decide({ identity: "somebody" });
}

const ready = (limiter: Limiter) =>
  eventually("Redis answers", async () => !(await limiter.peek({ identity: "somebody" })).degraded, 20_000);

const becomes = (running: Running, limiter: string, key: string, value: number) =>
  eventually(`${key} is ${value}`, async () => (await running.values(limiter))[key] === value, 20_000);

async function ownRedis(port?: number): Promise<RedisServer> {
  const own = await startRedis(port === undefined ? {} : { port });
  onTestFinished(() => own.stop());
  return own;
}

async function ownProxy(): Promise<FaultProxy> {
  const proxy = await faultProxy(server);
  onTestFinished(() => proxy.close());
  return proxy;
}

describe.each(exporters)("%s counts", (_, start) => {
  it.each<[string, () => Config]>([
    ["memory", () => ({})],
    ["Redis", () => ({ redis: server.url })],
  ])("what each policy said of each decision, from %s", async (_store, store) => {
    const running = start();
    const limiter = limiterOf({
      ...store(),
      policies: {
        burst: fixedWindow({ limit: 2, window: "1d" }),
        trial: slidingWindow({ limit: 1, window: "1d", mode: "shadow" }),
        wide: fixedWindow({ limit: 100, window: "1d" }),
      },
    });
    await decide(limiter, 5);
    expect(await running.values(limiter.name)).toEqual({
      "decisions policy=burst outcome=allowed rule=none": 2,
      "decisions policy=burst outcome=refused rule=none": 3,
      "decisions policy=trial outcome=allowed rule=none": 1,
      "decisions policy=trial outcome=shadow-refused rule=none": 4,
      "decisions policy=wide outcome=allowed rule=none": 5,
      "decision_duration outcome=allowed rule=none": 2,
      "decision_duration outcome=refused rule=none": 3,
      breaker_open: 0,
    });
  });

  it("how many decisions one run of the script made", async () => {
    const running = start();
    const limiter = limiterOf({
      redis: server.url,
      policies: { day: fixedWindow({ limit: 100, window: "1d" }) },
    });
    await decide(limiter, 3);
    expect(await running.batches(limiter.name)).toEqual([3, 3]);
    await Promise.all(Array.from({ length: 10 }, (_, i) => limiter.decide({ identity: i })));
    expect(await running.batches(limiter.name)).toEqual([5, 13]);
  });

  it("requests that middleware decides about", async () => {
    const running = start();
    const prefix = freshPrefix();
    const app = serve(
      express,
      limiting({ prefix, policies: { one: fixedWindow({ limit: 1, window: "1d" }) } }),
    );
    for (let i = 0; i < 3; i++) await visit(app);
    expect(await running.values(prefix)).toMatchObject({
      "decisions policy=one outcome=allowed rule=none": 1,
      "decisions policy=one outcome=refused rule=none": 2,
    });
  });

  it("a Redis that hangs: timeouts, the rule that let pass, and the breaker, until it is back", async () => {
    const own = await ownRedis();
    const limiter = limiterOf({ redis: own.url, timeoutMs: 200 });
    await ready(limiter);
    const running = start();
    own.pause();
    await sleep(50); // What was under way when it stopped would be late.
    await Promise.all(Array.from({ length: FAILURES }, () => decide(limiter, 1)));
    await decide(limiter, 2);
    const hung = {
      "decisions policy=day outcome=unknown rule=open": 7,
      "decision_duration outcome=allowed rule=open": 7,
      "degraded_decisions rule=open reason=timeout": 7,
      "store_errors reason=timeout": 1,
    };
    expect(await running.values(limiter.name)).toEqual({ ...hung, breaker_open: 1 });
    // Five waited for the deadline of 0.2 s, and two for nothing.
    const seconds = await running.seconds(limiter.name);
    expect(seconds).toBeGreaterThan(0.95);
    expect(seconds).toBeLessThan(30);
    own.resume();
    await becomes(running, limiter.name, "breaker_open", 0);
    expect(await running.values(limiter.name)).toEqual({ ...hung, breaker_open: 0, recoveries: 1 });
  });

  it("a Redis that is killed and comes back, under the rule to let nobody pass", async () => {
    const own = await ownRedis();
    const limiter = limiterOf({ redis: own.url, onFailure: "closed" });
    await ready(limiter);
    const running = start();
    await own.kill();
    await decide(limiter, 7);
    const dead = {
      "decisions policy=day outcome=unknown rule=closed": 7,
      "decision_duration outcome=refused rule=closed": 7,
      "degraded_decisions rule=closed reason=connection": 7,
      "store_errors reason=connection": 1,
    };
    expect(await running.values(limiter.name)).toEqual({ ...dead, breaker_open: 1 });
    await own.stop();
    await ownRedis(own.port);
    await becomes(running, limiter.name, "breaker_open", 0);
    expect(await running.values(limiter.name)).toEqual({ ...dead, breaker_open: 0, recoveries: 1 });
  });

  it("this process's own policies by their names, under the rule local", async () => {
    const running = start();
    const limiter = limiterOf({
      redis: NOWHERE,
      onFailure: { local: { spare: fixedWindow({ limit: 1, window: "1d" }) } },
    });
    await decide(limiter, 3);
    expect(await running.values(limiter.name)).toEqual({
      "decisions policy=spare outcome=allowed rule=local": 1,
      "decisions policy=spare outcome=refused rule=local": 2,
      "decision_duration outcome=allowed rule=local": 1,
      "decision_duration outcome=refused rule=local": 2,
      "degraded_decisions rule=local reason=connection": 3,
      "store_errors reason=connection": 1,
    });
  });

  it("a fault of one key as a degraded decision, and as no outage", async () => {
    const running = start();
    const limiter = limiterOf({ redis: server.url });
    await server.client.sadd(`${limiter.name}:{id:somebody}:day:fw`, "a", "set");
    await decide(limiter, 1);
    expect(await running.values(limiter.name)).toEqual({
      "decisions policy=day outcome=unknown rule=open": 1,
      "decision_duration outcome=allowed rule=open": 1,
      "degraded_decisions rule=open reason=foreign": 1,
    });
  });

  it("a grant that came when the rule had answered", async () => {
    const proxy = await ownProxy();
    const limiter = limiterOf({ redis: proxy.url, timeoutMs: 1000 });
    await ready(limiter);
    const running = start();
    // There in time, and back too late.
    proxy.latency(700);
    await decide(limiter, 1);
    await becomes(running, limiter.name, "late_replies kind=late", 1);
    expect(await running.values(limiter.name)).toMatchObject({
      "degraded_decisions rule=open reason=timeout": 1,
    });
  });

  it("a command that a shared connection sent twice", async () => {
    const proxy = await ownProxy();
    const theirs = new Redis(proxy.port, "127.0.0.1");
    theirs.on("error", () => {});
    onTestFinished(() => theirs.disconnect());
    const limiter = limiterOf({ redis: theirs, shareConnection: true });
    await ready(limiter);
    const running = start();
    proxy.dropReplies(1);
    await decide(limiter, 1);
    expect(await running.values(limiter.name)).toEqual({
      "decisions policy=day outcome=allowed rule=none": 1,
      "decision_duration outcome=allowed rule=none": 1,
      "late_replies kind=double": 1,
      breaker_open: 0,
    });
  });

  it("the open breakers of all limiters of one prefix", async () => {
    const running = start();
    const port = await freePort();
    const prefix = freshPrefix();
    const two = [1, 2].map(() => limiterOf({ redis: `redis://127.0.0.1:${port}`, prefix }));
    await decide(two[0]!, FAILURES);
    expect(await running.values(prefix)).toMatchObject({ breaker_open: 1 });
    await decide(two[1]!, FAILURES);
    expect(await running.values(prefix)).toMatchObject({ breaker_open: 2 });
    await ownRedis(port);
    await becomes(running, prefix, "breaker_open", 0);
  });

  it("no breaker of a limiter whose store has not answered, as it may have opened before", async () => {
    const port = await freePort();
    const limiter = limiterOf({ redis: `redis://127.0.0.1:${port}` });
    await decide(limiter, FAILURES);
    expect(limiter.health().breaker).toBe("open");
    const running = start();
    await decide(limiter, 1);
    expect(await running.values(limiter.name)).not.toHaveProperty("breaker_open");
    await ownRedis(port);
    await becomes(running, limiter.name, "breaker_open", 0);
  });

  it("limiters of another copy of the package", async () => {
    const running = start();
    vi.resetModules();
    const copy = await import("@tidegate/core");
    expect(copy.createLimiter).not.toBe(createLimiter);
    const prefix = freshPrefix();
    const limiter = copy.createLimiter({ prefix, limit: 1, window: "1d" });
    onTestFinished(() => limiter.close());
    await decide(limiter, 2);
    expect(await running.values(prefix)).toMatchObject({
      "decisions policy=default outcome=allowed rule=none": 1,
      "decisions policy=default outcome=refused rule=none": 1,
    });
  });

  it("nothing any more once it is stopped, and stopping twice does nothing", async () => {
    const running = start();
    const limiter = limiterOf({});
    const other = start();
    await decide(limiter, 1);
    running.stop();
    const before = await running.values(limiter.name);
    running.stop();
    await decide(limiter, 1);
    expect(await running.values(limiter.name)).toEqual(before);
    expect(await other.values(limiter.name)).toMatchObject({
      "decisions policy=day outcome=allowed rule=none": 2,
    });
  });

  it("nobody by name", async () => {
    const own = await ownRedis();
    const running = start();
    const prefix = freshPrefix();
    const limiter = limiterOf({ redis: own.url, prefix, blocking: true, timeoutMs: 300 });
    await ready(limiter);
    const ask = () => limiter.decide({ identity: NO_ONE });
    await limiter.decide({ identity: NO_ONE, idempotencyKey: NO_ONE });
    await limiter.block(NO_ONE, "1m", NO_ONE);
    await ask();
    await limiter.unblock(NO_ONE);
    await limiter.reset(NO_ONE);
    await own.client.set(`${prefix}:{id:${NO_ONE}}:day:fw`, NO_ONE);
    await ask();
    own.pause();
    for (let i = 0; i < FAILURES + 1; i++) await ask();
    const app = serve(express, limiting({ prefix, by: apiKey({ header: "x-api-key" }), policies }));
    await visit(app, { "x-api-key": NO_ONE });
    expect(Object.keys(await running.values(prefix))).toEqual(
      expect.arrayContaining([
        "decisions policy=day outcome=refused rule=none",
        "degraded_decisions rule=open reason=broken",
        "degraded_decisions rule=open reason=timeout",
        "breaker_open",
      ]),
    );
    expect(await running.text()).not.toContain(NO_ONE);
  });
});

describe("Without an exporter", () => {
  const names = ["decision", "breaker", "late", "storeError", "recovered"].map((name) => `tidegate:${name}`);
  const watched = () => names.filter((name) => channel(name).hasSubscribers);

  it.each(exporters)("no message is made: %s leaves the channels as it found them", (_, start) => {
    expect(watched()).toEqual([]);
    const [one, two] = [start(), start()];
    expect(watched()).toEqual(names);
    one.stop();
    expect(watched()).toEqual(names);
    two.stop();
    expect(watched()).toEqual([]);
  });
});
