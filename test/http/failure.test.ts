/** What a client gets while Redis cannot be asked, and afterwards. */
import { fixedWindow, rateLimit, tokenBucket } from "@tidegate/express";
import express, { type RequestHandler } from "express";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { eventually } from "../harness/eventually.ts";
import {
  expresses,
  limiting,
  LOCAL,
  ownRedis,
  passed,
  PATIENT,
  serve,
  UNAVAILABLE,
  visit,
  visits,
} from "../harness/http.ts";
import { freePort } from "../harness/redis.ts";

const policies = { api: tokenBucket({ capacity: 100, refillPerSecond: 100 / 60 }) };
const OPEN = passed({ "RateLimit-Policy": '"api";q=100;w=60' });
const DEADLINE_MS = 50;

describe.each(expresses)("On %s", (_, express) => {
  describe.each([
    ["open", OPEN],
    ["closed", UNAVAILABLE],
  ] as const)("P06 the rule %s", (onFailure, answer) => {
    it("answers for a Redis that has gone", async () => {
      const server = await ownRedis();
      const limit = limiting({ redis: server.url, policies, onFailure, ...PATIENT });
      const app = serve(express, limit);
      await visit(app);
      await server.kill();
      expect(await visit(app)).toEqual(answer);
      expect(limit.events).toEqual([
        { type: "storeError", reason: "connection", message: expect.any(String) },
        { type: "degraded", rule: onFailure, reason: "connection" },
      ]);
    });

    it("answers for a Redis that hangs", async () => {
      const server = await ownRedis();
      const limit = limiting({ redis: server.url, policies, onFailure });
      const app = serve(express, limit);
      await eventually("Redis decides", async () => "RateLimit" in (await visit(app)).fields);
      limit.events.length = 0;
      server.pause();
      expect(await visit(app)).toEqual(answer);
      expect(limit.events).toEqual([
        { type: "storeError", reason: "timeout", message: expect.any(String) },
        { type: "degraded", rule: onFailure, reason: "timeout" },
      ]);
    });

    it.each([
      ["text where a hash should be", "burst:tb", "a stranger's", "foreign"],
      ["text where a count should be", "day:fw", "a stranger's", "broken"],
      ["a number that INCRBY does not take", "day:fw", "007", "broken"],
    ])(
      "answers for a key with %s, charges nothing beside it, and calls it no outage",
      async (_, name, text, reason) => {
        const server = await ownRedis();
        const both = { burst: policies.api, day: fixedWindow({ limit: 9, window: "1d" }) };
        const limit = limiting({ redis: server.url, policies: both, onFailure, ...PATIENT });
        await server.client.set(`${LOCAL}:${name}`, text);
        const { status, fields } = await visit(serve(express, limit));
        expect(status).toBe(answer.status);
        expect(fields).not.toHaveProperty("RateLimit");
        expect(await server.client.keys("*")).toEqual([`${LOCAL}:${name}`]);
        expect(limit.events).toEqual([{ type: "degraded", rule: onFailure, reason }]);
      },
    );

    it("reaches the handler only when open, with a decision that invents nothing", async () => {
      const look = vi.fn<RequestHandler>((_, __, next) => next());
      const limit = limiting({ redis: `redis://127.0.0.1:${await freePort()}`, policies, onFailure });
      await visit(serve(express, limit, look));
      const seen = look.mock.calls.map(([req]) => req.rateLimit);
      const decision = {
        allowed: true,
        at: expect.closeTo(Date.now(), -4),
        cost: 1,
        verdicts: [],
        retryAfterMs: 0,
        degraded: { rule: "open", reason: "connection" },
        blocked: false,
        replayed: false,
        cached: false,
        receipt: undefined,
      };
      expect(seen).toEqual(onFailure === "open" ? [decision] : []);
    });
  });
});

/**
 * The limiter, and by how many milliseconds the slowest request overran `deadlineMs`. A bare timer,
 * set with each request, shows how late this machine is at the moment: that is not the limiter's.
 */
function timed(limit: RequestHandler, deadlineMs = DEADLINE_MS) {
  const overruns: Promise<number>[] = [];
  const app = serve(express, (req, res, next) => {
    const asked = performance.now();
    const passed = () => performance.now() - asked;
    const fair = new Promise<number>((resolve) => setTimeout(() => resolve(passed()), deadlineMs));
    limit(req, res, (error) => {
      const took = passed();
      overruns.push(fair.then((due) => took - due));
      next(error);
    });
  });
  return { app, slowest: async () => Math.max(...(await Promise.all(overruns))) };
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const statuses = (answers: { status: number }[]) => answers.map(({ status }) => status);
const typesOf = ({ events }: ReturnType<typeof limiting>) => events.map(({ type }) => type);
const day = { day: fixedWindow({ limit: 3, window: "1d" }) };
const UNKNOWN = passed({ "RateLimit-Policy": '"day";q=3;w=86400' });

it("A Redis that is not there: answers in time, one event for the outage, exact again when it comes", async () => {
  const port = await freePort();
  const limit = limiting({ redis: `redis://127.0.0.1:${port}`, policies: day, timeoutMs: DEADLINE_MS });
  const { app, slowest } = timed(limit);

  expect(await visits(20, app)).toEqual(Array(20).fill(UNKNOWN));
  expect(await slowest()).toBeLessThan(50);
  expect(typesOf(limit).sort()).toEqual([...Array(20).fill("degraded"), "storeError"]);

  limit.events.length = 0;
  await sleep(1500); // Long enough that attempts to connect have become rare.
  await ownRedis({ port });
  await sleep(2000);
  expect(statuses(await visits(5, app))).toEqual([200, 200, 200, 429, 429]);
  expect(typesOf(limit)).toEqual(["recovered"]);
});

it("A Redis that hangs: answers in time, one event for the outage, nothing charged for what was given up", async () => {
  const server = await ownRedis();
  const limit = limiting({ redis: server.url, policies: day, timeoutMs: DEADLINE_MS });
  const { app, slowest } = timed(limit);
  expect((await visit(app)).fields).toHaveProperty("RateLimit");

  server.pause();
  expect(await Promise.all(Array.from({ length: 20 }, () => visit(app)))).toEqual(Array(20).fill(UNKNOWN));
  expect(await slowest()).toBeLessThan(50);
  expect(typesOf(limit).sort()).toEqual([...Array(20).fill("degraded"), "storeError"]);

  limit.events.length = 0;
  server.resume();
  await eventually("Redis is asked again", () => typesOf(limit).includes("recovered"), 2000);
  expect(statuses(await visits(3, app))).toEqual([200, 200, 429]);
  expect(typesOf(limit)).toEqual(["recovered"]);
});

it("A request's functions and Redis share one deadline", async () => {
  const server = await ownRedis();
  const never = () => new Promise<never>(() => {});
  const limit = limiting({
    redis: server.url,
    policies: day,
    timeoutMs: 100,
    skip: never,
    by: never,
    cost: never,
  });
  const { app, slowest } = timed(limit, 100);
  server.pause();
  expect(await visit(app)).toEqual(UNKNOWN);
  expect(await slowest()).toBeLessThan(50);
});

describe("A listener", () => {
  it.each<[string, () => unknown]>([
    [
      "throws",
      () => {
        throw new Error("the metrics are down");
      },
    ],
    ["rejects", () => Promise.reject(new Error("the metrics are down"))],
  ])("that %s breaks no request, and is told of once", async (_, onEvent) => {
    const warnings: string[] = [];
    const spy = vi.spyOn(process, "emitWarning").mockImplementation((_, options) => {
      warnings.push((options as { code: string }).code);
    });
    const unhandled = vi.fn<(error: unknown) => void>();
    process.on("unhandledRejection", unhandled);
    onTestFinished(() => {
      spy.mockRestore();
      process.off("unhandledRejection", unhandled);
    });

    const limit = rateLimit({ redis: `redis://127.0.0.1:${await freePort()}`, policies, onEvent });
    onTestFinished(() => limit.limiter.close());
    expect(await visits(3, serve(express, limit))).toEqual([OPEN, OPEN, OPEN]);
    expect(warnings).toEqual(["TIDEGATE_EVENT_FAULT"]);
    expect(unhandled).not.toHaveBeenCalled();
  });
});
