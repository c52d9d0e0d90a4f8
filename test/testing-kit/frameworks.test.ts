/** The kit in users' tests: an application of each framework, its limits, and time that nobody waits for. */
import { createServer, type Server } from "node:http";
import { type Config, type FailureRule, fixedWindow, slidingLog } from "@tidegate/core";
import {
  type AnyResponse,
  expectAdmitted,
  expectLimited,
  expectUnavailable,
  rateLimitOf,
  type TestStore,
  testStore,
  virtualClock,
} from "@tidegate/core/testing";
import { rateLimit as expressLimit } from "@tidegate/express";
import { rateLimit as fastifyLimit } from "@tidegate/fastify";
import { rateLimit as koaLimit } from "@tidegate/koa";
import express from "express";
import fastify from "fastify";
import Koa from "koa";
import request from "supertest";
import { describe, expect, it, onTestFinished } from "vitest";

type Visit = (headers?: Record<string, string>) => Promise<AnyResponse>;
type Framework = [name: string, serve: (config: Config) => Promise<Visit>];

const bySupertest =
  (server: Server): Visit =>
  async (headers = {}) =>
    request(server).get("/").set(headers);

const frameworks: Framework[] = [
  [
    "Express, by supertest",
    async (config) => {
      const app = express();
      app.use(expressLimit(config));
      app.get("/", (_, res) => void res.send("hello"));
      return bySupertest(createServer(app));
    },
  ],
  [
    "Fastify, by inject",
    async (config) => {
      const app = fastify();
      await app.register(fastifyLimit, config);
      app.get("/", async () => "hello");
      onTestFinished(() => app.close());
      return (headers = {}) => app.inject({ url: "/", headers });
    },
  ],
  [
    "Koa, by supertest",
    async (config) => {
      const app = new Koa();
      app.use(koaLimit(config));
      app.use((ctx) => void (ctx.body = "hello"));
      return bySupertest(createServer(app.callback()));
    },
  ],
];

const policies = {
  minute: fixedWindow({ limit: 2, window: "1m" }),
  month: fixedWindow({ limit: 3, window: "month", timeZone: "Europe/Berlin" }),
};

describe.each(frameworks)("An application of %s", (_, serve) => {
  it("is refused once its limit is spent, and let in when its window is over", async () => {
    const clock = virtualClock("2026-03-01T00:00:00+01:00");
    const visit = await serve({ store: testStore({ clock }), policies });
    expectAdmitted(await visit(), { status: 200, remaining: 1 });
    expectAdmitted(await visit(), { remaining: 0, policy: "minute" });
    expectLimited(await visit(), { policy: "minute", retryAfter: 60 });
    clock.advance("59s");
    expectLimited(await visit(), { policy: ["minute"], retryAfter: 1 });
    clock.advance("1s");
    expectAdmitted(await visit(), { remaining: 0, policy: "month" });
    // March has 31 days in Berlin, and an hour less: 2,674,800 s. No field says more than timers can wait.
    expectLimited(await visit(), { policy: ["month"], retryAfter: 2_147_483 });
    clock.set("2026-04-01T00:00:00+02:00");
    expectAdmitted(await visit(), { remaining: 2, policy: "month" });
  });

  it("tells of the same limits as ever", async () => {
    const visit = await serve({ store: testStore(), policies });
    expect(rateLimitOf(await visit())).toStrictEqual({
      status: 200,
      policies: [
        { name: "minute", quota: 2, unit: "requests", windowSeconds: 60 },
        { name: "month", quota: 3, unit: "requests", windowSeconds: 2_678_400 },
      ],
      limits: [
        { name: "minute", remaining: 1, resetSeconds: 60 },
        // Berlin's January ends in 2,674,800 s. No field says more than timers can wait.
        { name: "month", remaining: 2, resetSeconds: 2_147_483 },
      ],
    });
  });

  it("is asked of by key, as the calls show", async () => {
    const store = testStore();
    const visit = await serve({ store, policies: { login: slidingLog({ limit: 1, window: "15m" }) } });
    await visit();
    await visit();
    expect(store.calls).toEqual([
      { kind: "decide", keys: [keyOf("login:sl")], units: [1], at: store.clock.now(), answer: "granted" },
      { kind: "decide", keys: [keyOf("login:sl")], units: [1], at: store.clock.now(), answer: "refused" },
    ]);
    expect(store.size).toBe(1);
  });

  it("asks nothing of a request that is skipped", async () => {
    const store = testStore();
    const visit = await serve({ store, policies, skip: (request: any) => "x-probe" in request.headers });
    expectAdmitted(await visit({ "x-probe": "1" }), { remaining: null });
    expect(store.calls).toEqual([]);
  });

  it("counts nothing any more once its store is cleared", async () => {
    const store = testStore();
    const visit = await serve({ store, policies });
    for (let i = 0; i < 3; i++) await visit();
    store.clear();
    expect([store.calls, store.size]).toEqual([[], 0]);
    expectAdmitted(await visit(), { remaining: 1 });
  });

  it.each<[rule: FailureRule, check: (response: AnyResponse) => void]>([
    ["open", (response) => expectAdmitted(response, { status: 200, remaining: null })],
    ["closed", (response) => expectUnavailable(response, { retryAfter: 5 })],
    ["local", (response) => expectAdmitted(response, { remaining: 1, policy: "minute" })],
    [
      { local: { here: fixedWindow({ limit: 9, window: "1h" }) } },
      (response) => expectAdmitted(response, { remaining: 8, policy: "here" }),
    ],
  ])(
    "answers by the rule %j while its store fails, and by the store again at once",
    async (onFailure, check) => {
      const store: TestStore = testStore();
      const visit = await serve({ store, policies, onFailure, instances: 1 });
      expectAdmitted(await visit(), { remaining: 1 });
      store.fail("connection");
      check(await visit());
      store.heal();
      expectAdmitted(await visit(), { remaining: 0 });
    },
  );
});

/** Fastify's inject comes from an address too. */
const keyOf = (policy: string): string => `rl:{ip:127.0.0.1}:${policy}`;
