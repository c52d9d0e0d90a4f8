/** A simulation decides what the live middleware would have decided, request by request. */
import { createSimulation, type PastRequest } from "@tidegate/core/simulate";
import {
  concurrency,
  type Config,
  fixedWindow,
  gcra,
  ip,
  perRequest,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
  user,
} from "@tidegate/express";
import type { Request } from "express";
import { describe, expect, it } from "vitest";
import { useRedis } from "../harness/http.ts";
import { expressPattern, replayed, told } from "./live.ts";
import { logOf } from "./logs.ts";

const redis = useRedis();

const SECOND = 1000;
const DAY = 86_400 * SECOND;

/** Decides a log both ways. The report's totals are those of the live decisions. */
async function expectSame(config: Config<Request>, log: readonly PastRequest[]) {
  const simulation = createSimulation(config, { pattern: expressPattern });
  const simulated = log.map((request) => simulation.add(request));
  const live = await replayed(redis, config, log);
  expect(simulated.map(told)).toEqual(live.map(told));

  const report = simulation.report();
  const count = (kind: string) => live.filter((each) => each.kind === kind).length;
  expect(report.requests).toBe(log.length);
  expect(report).toMatchObject({
    admitted: count("pass"),
    refused: count("refuse"),
    notLimited: count("skip"),
  });
  const verdicts = live.flatMap((each) => (each.kind === "skip" ? [] : each.decision.verdicts));
  const byName = new Map<string, number>();
  for (const { name, refused } of report.policies) byName.set(name, (byName.get(name) ?? 0) + refused);
  for (const [name, refused] of byName) {
    const blocked = ({ reason }: (typeof verdicts)[number]) => reason === "blocked";
    expect([
      name,
      verdicts.filter((each) => each.policy === name && !each.allowed && !blocked(each)).length,
    ]).toEqual([name, refused]);
  }
  return { report, live };
}

const algorithms: [name: string, policy: Policy, spanMs: number][] = [
  ["tokenBucket", tokenBucket({ capacity: 5, refillPerSecond: 1.7 }), 40 * SECOND],
  ["gcra", gcra({ limit: 6, window: "4s" }), 40 * SECOND],
  ["gcra, spaced", gcra({ limit: 20, window: "7s", burst: 2 }), 40 * SECOND],
  ["slidingWindow", slidingWindow({ limit: 8, window: "4s" }), 40 * SECOND],
  ["slidingLog", slidingLog({ limit: 8, window: "4s" }), 40 * SECOND],
  ["fixedWindow", fixedWindow({ limit: 8, window: "4s" }), 40 * SECOND],
  ["fixedWindow by the clock", fixedWindow({ limit: 8, window: "4s", align: "clock" }), 40 * SECOND],
  [
    "fixedWindow by the calendar",
    fixedWindow({ limit: 20, window: "day", timeZone: "Europe/Berlin" }),
    5 * DAY,
  ],
];

describe("each algorithm alone", () => {
  it.each(algorithms)("%s: every verdict is that of Express on Redis", async (_, only, spanMs) => {
    const log = logOf({ seed: 1, requests: 250, spanMs });
    const { report } = await expectSame({ policies: { only } }, log);
    expect(report.refused).toBeGreaterThan(20);
    expect(report.admitted).toBeGreaterThan(20);
  });

  it.each(algorithms)("%s: with costs from 0 to 4, and more than there is", async (_, only, spanMs) => {
    const log = logOf({ seed: 2, requests: 200, spanMs, paths: ["/?c=0", "/?c=1", "/?c=4", "/?c=30"] });
    const cost = ({ query }: Request) => Number(query["c"]);
    const { report } = await expectSame({ policies: { only }, cost }, log);
    expect(report.refused).toBeGreaterThan(20);
  });

  it("concurrency: slots are free again when requests were through", async () => {
    const log = logOf({ seed: 3, requests: 300, spanMs: 30 * SECOND, clients: 3, durationMs: 2500 });
    const { report } = await expectSame({ policies: { inFlight: concurrency({ limit: 3 }) } }, log);
    expect(report.refused).toBeGreaterThan(20);
    expect(report.admitted).toBeGreaterThan(20);
  });
});

describe("several policies at once", () => {
  it("all of them are charged, or none; on trial, by user and by address", async () => {
    const log = logOf({
      seed: 4,
      requests: 300,
      spanMs: 40 * SECOND,
      paths: ["/", "/search"],
      durationMs: 3000,
    });
    const { report } = await expectSame(
      {
        by: user().or(ip()),
        cost: ({ path }) => (path === "/search" ? 3 : 1),
        policies: {
          burst: tokenBucket({ capacity: 8, refillPerSecond: 2 }),
          steady: gcra({ limit: 4, window: "8s", by: ip(), cost: 1 }),
          inFlight: concurrency({ limit: 2, by: ip(), cost: 1 }),
          trial: slidingWindow({ limit: 6, window: "5s", mode: "shadow" }),
          log: slidingLog({ limit: 9, window: "5s" }),
          fixed: fixedWindow({ limit: 12, window: "10s" }),
        },
      },
      log,
    );
    expect(report.policies.filter(({ refused }) => refused === 0).map(({ name }) => name)).toEqual([]);
  });

  it("a policy of this process is counted as any other", async () => {
    const log = logOf({ seed: 5, requests: 100, spanMs: 20 * SECOND });
    const shared = { only: fixedWindow({ limit: 5, window: "4s" }) };
    const own = { only: fixedWindow({ limit: 5, window: "4s", scope: "process", onFailure: "closed" }) };
    const simulation = createSimulation({ policies: own });
    const simulated = log.map((request) => simulation.add(request));
    expect(simulated.map(told)).toEqual((await replayed(redis, { policies: shared }, log)).map(told));
  });

  it("numbers that requests choose", async () => {
    const log = logOf({ seed: 6, requests: 250, spanMs: 40 * SECOND });
    const free = tokenBucket({ capacity: 3, refillPerSecond: 0.5 });
    const paid = tokenBucket({ capacity: 12, refillPerSecond: 2 });
    const plan = perRequest(free, ({ method }: Request) => (method === "POST" ? paid : free));
    const { report } = await expectSame({ policies: { plan } }, log);
    expect(report.policies[0]).toMatchObject({ limit: 3, curve: null, suggestions: null });
  });
});

describe("what comes after responses", () => {
  const log = logOf({ seed: 7, requests: 200, spanMs: 40 * SECOND, clients: 3, durationMs: 1500 });

  it.each(algorithms.slice(0, 7))("%s: what succeeded is given back", async (_, only) => {
    const { report } = await expectSame({ policies: { only }, giveBackOn: "success" }, log);
    expect(report.refused).toBeGreaterThan(5);
  });

  it.each(algorithms.slice(0, 7))("%s: what it cost is known afterwards", async (_, only) => {
    const settle = ({ status }: { status: number | undefined }) =>
      status === 500 ? 4 : status === 401 ? 0 : "keep";
    const { report } = await expectSame({ policies: { only }, settle }, log);
    expect(report.refused).toBeGreaterThan(10);
  });

  it("without durations they come at once", async () => {
    const only = slidingLog({ limit: 4, window: "4s" });
    const atOnce = log.map((past) => ({ ...past, durationMs: undefined }));
    await expectSame({ policies: { only }, giveBackOn: "failure" }, atOnce);
  });
});

describe("what a request is", () => {
  const paths = ["/", "/health", "/login", "/search?q=1", "/signup", "/users/7"];
  const log = logOf({ seed: 8, requests: 300, spanMs: 40 * SECOND, paths, durationMs: 200 });

  it("routes: overrides, groups, none", async () => {
    const daily = fixedWindow({ limit: 40, window: "20s" });
    const { report } = await expectSame(
      {
        policies: { daily, burst: tokenBucket({ capacity: 10, refillPerSecond: 2 }) },
        routes: {
          "/health": false,
          "POST /login": {
            policies: { attempts: slidingLog({ limit: 2, window: "9s" }) },
            giveBackOn: "success",
          },
          "GET /search": { cost: 4 },
          "/signup": { policies: { daily, rare: gcra({ limit: 2, window: "5s" }) }, group: "accounts" },
          "/users/:id": { by: user().or(ip()), policies: { daily } },
        },
      },
      log,
    );
    expect(report.notLimited).toBeGreaterThan(20);
    expect(report.policies.map(({ name, route }) => [name, route])).toEqual([
      ["daily", undefined],
      ["burst", undefined],
      ["attempts", "POST /login"],
      ["daily", "/signup"],
      ["rare", "/signup"],
    ]);
  });

  it("who is never limited, who is always refused, and what is skipped", async () => {
    const preflight = { origin: "https://example.com", "access-control-request-method": "PUT" };
    const more = log.map((past, i) =>
      i % 9 === 0 ? { ...past, method: "OPTIONS", headers: i % 2 ? preflight : {} } : past,
    );
    const { report, live } = await expectSame(
      {
        policies: { only: slidingWindow({ limit: 5, window: "5s" }) },
        allow: ["192.0.2.1"],
        deny: ["192.0.2.4/31"],
        skip: ({ path }) => path === "/health",
      },
      more,
    );
    const denied = live.filter((each) => each.kind === "refuse" && each.decision.blocked).length;
    expect(denied).toBeGreaterThan(5);
    expect(report.refused - report.policies[0]!.refused).toBe(denied);
  });

  it("the same request twice", async () => {
    const { live } = await expectSame(
      {
        policies: { only: fixedWindow({ limit: 6, window: "6s" }) },
        // Half of a client's requests bring one and the same key, more often than it is replayed.
        idempotencyKey: (req) => (req.get("x-key")! < "k2" ? "again" : undefined),
        idempotencyMs: 8000,
        giveBackOn: "failure",
      },
      log,
    );
    expect(live.filter((each) => each.kind === "pass" && each.decision.replayed).length).toBeGreaterThan(10);
  });
});
