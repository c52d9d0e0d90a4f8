/** What answers when the store cannot: the rules, whose hold, and what `local` counts. */
import { setTimeout as sleep } from "node:timers/promises";
import {
  concurrency,
  type Config,
  createLimiter,
  type FailureRule,
  fixedWindow,
  type FixedWindowOptions,
  gcra,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
  user,
} from "@tidegate/core";
import express from "express";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { limiting, passed, refused, serve, UNAVAILABLE, visit, visits } from "../harness/http.ts";
import { freePort, startRedis } from "../harness/redis.ts";

/** Nobody listens there. */
const NOWHERE = "redis://127.0.0.1:1";
const perMinute = (limit: number, more: Partial<FixedWindowOptions> = {}) =>
  fixedWindow({ limit, window: "1m", ...more });
const local = (limit: number): FailureRule => ({ local: { spare: perMinute(limit) } });

/** An application whose Redis is not there. */
const app = (config: Config) => serve(express, limiting({ redis: NOWHERE, timeoutMs: 1000, ...config }));
const limiterOf = (config: Config) => {
  const limiter = createLimiter({ redis: NOWHERE, timeoutMs: 1000, ...config });
  onTestFinished(() => limiter.close());
  return limiter;
};
const statuses = (answers: { status: number }[]) => answers.map(({ status }) => status);

describe("The rule", () => {
  const shared = { "RateLimit-Policy": '"shared";q=10;w=60' };

  it.each<[FailureRule | undefined, object]>([
    [undefined, passed(shared)],
    ["open", passed(shared)],
    ["closed", UNAVAILABLE],
    [local(3), passed({ "RateLimit-Policy": '"spare";q=3;w=60', RateLimit: '"spare";r=2;t=60' })],
  ])("%o of a limiter holds", async (onFailure, answer) => {
    expect(
      await visit(app({ policies: { shared: perMinute(10) }, ...(onFailure && { onFailure }) })),
    ).toEqual(answer);
  });

  it.each<[string, Config, number[]]>([
    [
      "open on a route of a limiter that is closed",
      { onFailure: "closed", routes: { "/": { onFailure: "open" } } },
      [200, 200],
    ],
    ["closed on a route of a limiter that is open", { routes: { "/": { onFailure: "closed" } } }, [503, 503]],
    ["local on a route of a limiter that is open", { routes: { "/": { onFailure: local(1) } } }, [200, 429]],
  ])("%s holds there", async (_, config, seen) => {
    expect(statuses(await visits(2, app({ policies: { shared: perMinute(10) }, ...config })))).toEqual(seen);
  });

  it.each<[string, (FailureRule | undefined)[], FailureRule, number[]]>([
    ["open and closed", ["open", "closed"], "open", [503, 503, 503]],
    ["open and local", ["open", local(1)], "open", [200, 429, 429]],
    ["local and closed", [local(1), "closed"], "open", [503, 503, 503]],
    ["a policy's own, and the limiter's", [undefined, "open"], "closed", [503, 503, 503]],
    ["the policies' own alone", ["open", "open"], "closed", [200, 200, 200]],
    [
      "local and local: all of their policies",
      [local(2), { local: { other: perMinute(1) } }],
      "open",
      [200, 429, 429],
    ],
  ])("of %s the strictest holds", async (_, [a, b], onFailure, seen) => {
    const policies = {
      a: perMinute(10, a && { onFailure: a }),
      b: perMinute(10, b && { onFailure: b }),
    };
    expect(statuses(await visits(3, app({ policies, onFailure })))).toEqual(seen);
  });

  it("of a policy on trial has no say", async () => {
    const trial = perMinute(1, { mode: "shadow", onFailure: "closed" });
    expect((await visit(app({ policies: { shared: perMinute(10), trial } }))).status).toBe(200);
  });

  it("two local policies of one name are refused when the limiter is made", () => {
    const policies = { a: perMinute(10, { onFailure: local(1) }), b: perMinute(10, { onFailure: local(2) }) };
    expect(() => limiterOf({ policies })).toThrow(
      expect.objectContaining({ code: "TIDEGATE_POLICY_DUPLICATE", option: "policies.b.onFailure" }),
    );
  });
});

describe("The rule local", () => {
  it("refuses with the names, numbers and waits of its own policies", async () => {
    const served = app({ policies: { shared: perMinute(10) }, onFailure: local(1) });
    await visit(served);
    expect(await visit(served)).toEqual(
      refused(
        { "RateLimit-Policy": '"spare";q=1;w=60', RateLimit: '"spare";r=0;t=60', "Retry-After": "60" },
        "spare",
      ),
    );
  });

  it.each<[string, Policy, object]>([
    ["fixedWindow", fixedWindow({ limit: 10, window: "1m" }), { "RateLimit-Policy": '"p";q=3;w=60' }],
    [
      "fixedWindow of the calendar",
      fixedWindow({ limit: 10, window: "day" }),
      { "RateLimit-Policy": '"p";q=3;w=86400' },
    ],
    ["slidingWindow", slidingWindow({ limit: 10, window: "1m" }), { "RateLimit-Policy": '"p";q=3;w=60' }],
    ["slidingLog", slidingLog({ limit: 10, window: "1m" }), { "RateLimit-Policy": '"p";q=3;w=60' }],
    ["tokenBucket", tokenBucket({ capacity: 10, refillPerSecond: 3 }), { "RateLimit-Policy": '"p";q=3;w=3' }],
    ["gcra", gcra({ limit: 10, window: "1m", burst: 5 }), { "RateLimit-Policy": '"p";q=1;w=20' }],
    [
      "a limit below the number of processes",
      fixedWindow({ limit: 2, window: "1m" }),
      { "RateLimit-Policy": '"p";q=1;w=60' },
    ],
    ["a limit of 0", fixedWindow({ limit: 0, window: "1m" }), { "RateLimit-Policy": '"p";q=0;w=60' }],
    ["concurrency", concurrency({ limit: 10 }), { "RateLimit-Policy": '"p";q=3;qu="concurrent-requests"' }],
  ])("divides %s by the number of instances", async (_, p, fields) => {
    expect((await visit(app({ policies: { p }, onFailure: "local", instances: 3 }))).fields).toMatchObject(
      fields,
    );
  });

  it("counts each identity for itself, as the policies say or its own do", async () => {
    const spare = perMinute(1, { by: (request: express.Request) => request.get("x-user") });
    const served = app({ policies: { shared: perMinute(10) }, onFailure: { local: { spare } } });
    const seen = [];
    for (const name of ["anna", "bert", "anna"]) seen.push((await visit(served, { "x-user": name })).status);
    expect(seen).toEqual([200, 200, 429]);
  });

  it("counts what a request costs", async () => {
    const served = app({ policies: { shared: perMinute(10) }, onFailure: local(5), cost: 3 });
    expect(statuses(await visits(2, served))).toEqual([200, 429]);
  });

  it("counts what a policy's own function says a request costs, which is asked once", async () => {
    const cost = vi.fn((request: express.Request) => Number(request.get("x-size")));
    const p = fixedWindow({ limit: 30, window: "1m", cost });
    const served = app({ policies: { p }, onFailure: "local", instances: 3 });
    const seen = [];
    for (const size of ["7", "4", "3"]) seen.push((await visit(served, { "x-size": size })).status);
    expect([seen, cost.mock.calls.length]).toEqual([[200, 429, 200], 3]);
  });

  it("counts what the function of a policy of this process's own says", async () => {
    const cost = (request: express.Request) => Promise.resolve(Number(request.get("x-size")));
    const spare = fixedWindow({ limit: 10, window: "1m", cost });
    const served = app({ policies: { shared: perMinute(10) }, onFailure: { local: { spare } } });
    const seen = [];
    for (const size of ["7", "4", "3"]) seen.push((await visit(served, { "x-size": size })).status);
    expect(seen).toEqual([200, 429, 200]);
  });

  it("counts what a request costs its policy by name", async () => {
    const limiter = limiterOf({ policies: { p: perMinute(30) }, onFailure: "local", instances: 3 });
    const allowed = [];
    for (const p of [7, 4, 3])
      allowed.push((await limiter.decide({ identity: "anna", cost: { p } })).allowed);
    expect(allowed).toEqual([true, false, true]);
  });

  it("gives back, commits and frees slots in its own memory", async () => {
    const policies = { shared: perMinute(10) };
    const spare = { spare: perMinute(5), slots: concurrency({ limit: 1 }) };
    const limiter = limiterOf({ policies, onFailure: { local: spare } });
    const left = async () =>
      (await limiter.peek({ identity: "anna" })).verdicts.map(({ remaining }) => remaining);
    const decision = await limiter.decide({ identity: "anna", cost: 1 });
    expect([decision.allowed, decision.degraded?.rule, await left()]).toEqual([true, "local", [4, 0]]);
    await limiter.settle(decision, "giveBack");
    expect(await left()).toEqual([5, 1]);
    const reservation = await limiter.reserve({ identity: "anna" });
    await reservation.commit(3);
    expect(await left()).toEqual([2, 1]);
  });

  it("knows how long to wait, and wait() waits so long", async () => {
    const spare = fixedWindow({ limit: 1, window: 300 });
    const limiter = limiterOf({ policies: { shared: perMinute(10) }, onFailure: { local: { spare } } });
    await limiter.decide({ identity: "anna" });
    const start = performance.now();
    expect((await limiter.wait({ identity: "anna", maxWaitMs: 2000 })).degraded?.rule).toBe("local");
    expect(performance.now() - start).toBeGreaterThan(200);
  });

  it("without HTTP counts the identity that was asked for, also out of a record", async () => {
    const limiter = limiterOf({ policies: { a: perMinute(9), b: perMinute(9) }, onFailure: local(1) });
    const allowed = [];
    for (const identity of ["anna", user("7"), "anna", { a: user("7"), b: "x" }])
      allowed.push((await limiter.decide({ identity })).allowed);
    expect(allowed).toEqual([true, true, false, false]);
  });

  it("P07 T1 of 3 refuses the fourth, and forgets all of it when Redis returns", async () => {
    const port = await freePort();
    const limiter = limiterOf({
      redis: `redis://127.0.0.1:${port}`,
      policies: { shared: perMinute(10) },
      onFailure: local(3),
    });
    const decide = async () => (await limiter.decide({ identity: "anna" })).allowed;
    expect([await decide(), await decide(), await decide(), await decide()]).toEqual([
      true,
      true,
      true,
      false,
    ]);
    const server = await startRedis({ port });
    onTestFinished(() => server.stop());
    await eventually("Redis decides", async () => limiter.health().state === "ok" || !(await decide()), 3000);
    await eventually("Redis decides", () => limiter.health().state === "ok", 3000);
    const { verdicts, degraded } = await limiter.peek({ identity: "anna" });
    expect([verdicts[0]!.policy, degraded]).toEqual(["shared", undefined]);
    await server.kill();
    await eventually(
      "Redis is missed",
      async () => (await limiter.peek({ identity: "anna" })).degraded !== undefined,
    );
    expect((await limiter.peek({ identity: "anna" })).verdicts).toMatchObject([
      { policy: "spare", remaining: 3 },
    ]);
  });

  it("keeps a bounded number of identities", async () => {
    const limiter = limiterOf({ policies: { shared: perMinute(10) }, onFailure: local(1) });
    for (let i = 0; i < 25_000; i++) await limiter.decide({ identity: `u${i}` });
    // The first ones have been forgotten to make room, the last ones have not.
    const allowed = async (identity: string) => (await limiter.peek({ identity })).allowed;
    expect([await allowed("u24999"), await allowed("u16000")]).toEqual([false, false]);
    expect(await allowed("u0")).toBe(true);
  });
});

describe("health", () => {
  it("tells whether the store answers, since when, and with what it failed last", async () => {
    const port = await freePort();
    const begun = Date.now();
    const limiter = limiterOf({ redis: `redis://127.0.0.1:${port}`, policies: { shared: perMinute(10) } });
    expect(limiter.health()).toEqual({
      state: "degraded",
      since: expect.toSatisfy((at: number) => at >= begun && at <= Date.now()),
      lastError: undefined,
      breaker: "closed",
    });
    for (let i = 0; i < 5; i++) await limiter.decide({ identity: "anna" });
    const { since, ...bad } = limiter.health();
    expect(bad).toEqual({ state: "degraded", lastError: "connection", breaker: "open" });
    await sleep(10);
    const server = await startRedis({ port });
    onTestFinished(() => server.stop());
    await eventually("it is well", () => limiter.health().state === "ok", 3000);
    const { since: well, ...last } = limiter.health();
    expect(last).toEqual({ state: "ok", lastError: "connection", breaker: "closed" });
    expect(well).toBeGreaterThan(since);
  });

  it("is well again without any traffic, also after a single failure", async () => {
    const port = await freePort();
    const limiter = limiterOf({ redis: `redis://127.0.0.1:${port}`, policies: { shared: perMinute(10) } });
    await limiter.decide({ identity: "anna" });
    expect(limiter.health()).toMatchObject({ state: "degraded", breaker: "closed" });
    const server = await startRedis({ port });
    onTestFinished(() => server.stop());
    await eventually("it is well", () => limiter.health().state === "ok", 3000);
  });

  it("is well again without any traffic after a give-back that failed", async () => {
    const port = await freePort();
    const first = await startRedis({ port });
    onTestFinished(() => first.stop());
    const limiter = limiterOf({ redis: first.url, policies: { shared: perMinute(10) } });
    const decision = await limiter.decide({ identity: "anna" });
    expect(decision.degraded).toBeUndefined();
    await first.kill();
    await expect(limiter.settle(decision, "giveBack")).rejects.toMatchObject({ reason: "connection" });
    expect(limiter.health()).toMatchObject({ state: "degraded", lastError: "connection" });
    const second = await startRedis({ port });
    onTestFinished(() => second.stop());
    await eventually("it is well", () => limiter.health().state === "ok", 3000);
  });

  it("of this process's memory is always well", () => {
    expect(limiterOf({ redis: undefined, limit: 1, window: 1 }).health().state).toBe("ok");
  });
});
