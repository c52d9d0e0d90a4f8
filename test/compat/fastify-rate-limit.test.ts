/** What our store adds to @fastify/rate-limit; that it keeps what the plugin promises, fastify-suite.test.ts shows. */
import { createRequire } from "node:module";
import { slidingWindow, type TidegateEvent } from "@tidegate/core";
import { tidegateStore } from "@tidegate/compat/fastify-rate-limit";
import fastify, { type FastifyInstance, type FastifyPluginAsync, type LightMyRequestResponse } from "fastify";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";

// By require: its types and those of @tidegate/fastify exclude each other in one program.
const rateLimit = createRequire(import.meta.url)("@fastify/rate-limit") as FastifyPluginAsync<
  Record<string, unknown>
>;

let redis: RedisServer;
beforeAll(async () => void (redis = await startRedis()));
beforeEach(() => redis.client.flushall());
afterAll(() => redis.stop());

type Options = NonNullable<Parameters<typeof tidegateStore>[0]>;

/** An application with the plugin on our store; both are closed when the test is over. */
async function site(options: Options, rules: object, routes: Record<string, object | undefined> = {}) {
  const Store = tidegateStore({ timeoutMs: 10_000, redis: redis.url, ...options });
  const app = fastify();
  app.addHook("onClose", () => Store.close());
  onTestFinished(() => app.close());
  await app.register(rateLimit, { max: 2, timeWindow: 60_000, store: Store, ...rules });
  for (const [url, rateLimit] of Object.entries({ "/": undefined, ...routes }))
    app.get(url, { config: (rateLimit ? { rateLimit } : {}) as never }, () => "hello");
  return app;
}

const asked = async (app: FastifyInstance, ...urls: string[]): Promise<LightMyRequestResponse[]> => {
  const answers = [];
  for (const url of urls) answers.push(await app.inject(url));
  return answers;
};

const statuses = async (app: FastifyInstance, ...urls: string[]): Promise<number[]> =>
  (await asked(app, ...urls)).map(({ statusCode }) => statusCode);

describe("under @fastify/rate-limit", () => {
  it("admits exactly the limit between two applications that share a Redis", async () => {
    const apps = await Promise.all([site({}, { max: 20 }), site({}, { max: 20 })]);
    const answers = await Promise.all(Array.from({ length: 60 }, (_, i) => apps[i % 2]!.inject("/")));
    const count = (status: number) => answers.filter(({ statusCode }) => statusCode === status).length;
    expect([count(200), count(429)]).toEqual([20, 40]);
  });

  it("begins anew with the next application, after it was closed", async () => {
    const Store = tidegateStore({ timeoutMs: 10_000, redis: redis.url, onFailure: "closed" });
    for (const expected of [[200], [429]]) {
      const app = fastify();
      app.addHook("onClose", () => Store.close());
      await app.register(rateLimit, { max: 1, timeWindow: 60_000, store: Store });
      app.get("/", () => "hello");
      expect(await statuses(app, "/")).toEqual(expected);
      await app.close();
    }
  });

  it("lets every key end with its window", async () => {
    await statuses(await site({ prefix: "shop" }, {}, { "/own": { max: 1 } }), "/", "/own", "/own");
    const keys = (await redis.client.keys("*")).toSorted();
    expect(keys).toEqual([
      "shop:{id:127.0.0.1}:all.hits:fw",
      expect.stringMatching(/^shop:\{id:127\.0\.0\.1\}:h\.[\w-]{22}\.hits:fw$/),
    ]);
    for (const key of keys) expect(await redis.client.pttl(key)).toBeGreaterThan(0);
  });

  it("counts a route with a configuration of its own for itself", async () => {
    const app = await site({}, {}, { "/a": { max: 1 }, "/b": { max: 1 } });
    expect(await statuses(app, "/a", "/a", "/b", "/b", "/", "/", "/")).toEqual([
      200, 429, 200, 429, 200, 200, 429,
    ]);
  });

  it("counts routes of one groupId together", async () => {
    const together = { max: 2, groupId: "search" };
    const app = await site({}, {}, { "/a": together, "/b": together, "/c": { max: 2, groupId: "other" } });
    expect(await statuses(app, "/a", "/b", "/a", "/b", "/c")).toEqual([200, 200, 429, 429, 200]);
  });

  it("counts limiters made by hand each for itself", async () => {
    const app = await site({}, { global: false });
    type Made = { createRateLimit(options: object): (request: object) => Promise<{ isExceeded: boolean }> };
    const [minute, hour] = [{ max: 3 }, { max: 2, timeWindow: "1 hour" }].map((rules) =>
      (app as unknown as Made).createRateLimit(rules),
    );
    const request = { ip: "203.0.113.7", routeOptions: {} };
    const exceeded = async (limit = minute!) => (await limit(request)).isExceeded;
    const seen = [];
    for (const limit of [minute, minute, minute, minute, hour, hour, hour]) seen.push(await exceeded(limit));
    expect(seen).toEqual([false, false, false, true, false, false, true]);
  });

  it("bans who was refused too often", async () => {
    const app = await site({}, { max: 1, ban: 2 });
    expect(await statuses(app, "/", "/", "/", "/", "/")).toEqual([200, 429, 429, 403, 403]);
  });

  it("bans also who is kept away by continueExceeding", async () => {
    const app = await site({}, { max: 1, ban: 2, continueExceeding: true });
    expect(await statuses(app, "/", "/", "/", "/")).toEqual([200, 429, 429, 403]);
  });

  it("keeps away by continueExceeding on one route and not on another", async () => {
    const app = await site({}, {}, { "/a": { max: 1, continueExceeding: true }, "/b": { max: 1 } });
    expect(await statuses(app, "/a", "/a", "/b", "/")).toEqual([200, 429, 200, 200]);
  });

  it("lets in again who kept away for one window, with continueExceeding", async () => {
    const app = await site({}, { max: 1, timeWindow: 200, continueExceeding: true });
    expect(await statuses(app, "/", "/")).toEqual([200, 429]);
    await eventually("the keys have ended", async () => (await redis.client.keys("*::b")).length === 0);
    expect(await statuses(app, "/")).toEqual([200]);
  });

  it("doubles the wait with each refusal by exponentialBackoff, to a day and no longer", async () => {
    const app = await site({}, { max: 1, exponentialBackoff: true });
    await app.inject("/");
    const waits = [];
    for (let i = 0; i < 13; i++) waits.push(Number((await app.inject("/")).headers["retry-after"]));
    const doubled = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].map((times) => times * 60);
    expect(waits).toEqual([...doubled, 86_400, 86_400]);
  });

  it("looks without counting", async () => {
    const app = await site({}, { global: false });
    type Look = (request: object, options?: object) => Promise<{ remaining: number; ttl: number }>;
    const limit = (app as unknown as { createRateLimit(): Look }).createRateLimit();
    const request = { ip: "203.0.113.7", routeOptions: {} };
    expect(await limit(request, { increment: false })).toMatchObject({ remaining: 2, ttl: 0 });
    await limit(request);
    const seen = await limit(request, { increment: false });
    expect(seen.remaining).toBe(1);
    expect(seen.ttl).toBeGreaterThan(0);
    expect(await limit(request)).toMatchObject({ remaining: 0 });
  });
});

describe("with an algorithm", () => {
  it("refused requests cost nothing", async () => {
    const first = await site({ algorithm: slidingWindow, denyCache: false }, {});
    expect(await statuses(first, "/", "/", "/", "/", "/", "/")).toEqual([200, 200, 429, 429, 429, 429]);
    const raised = await site({ algorithm: slidingWindow, denyCache: false }, { max: 3 });
    expect(await statuses(raised, "/", "/")).toEqual([200, 429]);
  });

  it("a ban fails the boot, as nobody counts refused requests", async () => {
    await expect(site({ algorithm: slidingWindow }, { ban: 3 })).rejects.toMatchObject({
      code: "TIDEGATE_OPTION_INVALID",
      option: "ban",
    });
  });
});

describe("when Redis is away", () => {
  const gone = { redis: "redis://127.0.0.1:1", timeoutMs: 100 };

  it.each([
    ["open: requests pass, as the first of their window", { onFailure: "open" }, {}, 200, "1"],
    ["closed: requests are answered 503 with Retry-After", { onFailure: "closed" }, {}, 503, undefined],
    ["closed with skipOnError: requests pass", { onFailure: "closed" }, { skipOnError: true }, 200, "2"],
    ["open with continueExceeding", { onFailure: "open" }, { continueExceeding: true }, 200, "1"],
  ] as const)("%s", async (_, rule, rules, status, remaining) => {
    const app = await site({ ...gone, ...rule }, rules);
    const answer = await app.inject("/");
    expect([answer.statusCode, answer.headers["x-ratelimit-remaining"]]).toEqual([status, remaining]);
    expect(answer.headers["retry-after"]).toBe(status === 503 ? "5" : undefined);
  });

  it("local: this process lets its share in, of each route by its own numbers", async () => {
    const rule = { onFailure: "local", instances: 2 } as const;
    const app = await site({ ...gone, ...rule }, { max: 4 }, { "/one": { max: 2, timeWindow: "1 hour" } });
    expect(await statuses(app, "/", "/", "/", "/one", "/one")).toEqual([200, 200, 429, 200, 429]);
  });

  it("local: nobody is kept away beyond the window, as there is nobody to tell", async () => {
    const rule = { onFailure: "local", instances: 1 } as const;
    const app = await site({ ...gone, ...rule }, { max: 1, exponentialBackoff: true });
    const answers = await asked(app, "/", "/", "/", "/");
    expect(answers.map(({ statusCode }) => statusCode)).toEqual([200, 429, 429, 429]);
    expect(Number(answers[3]!.headers["retry-after"])).toBeLessThanOrEqual(60);
  });

  it("counts on when a server that hung goes on, and never waits longer than it may", async () => {
    const own = await startRedis();
    onTestFinished(() => own.stop());
    const events: TidegateEvent[] = [];
    const app = await site(
      { redis: own.url, timeoutMs: 200, onEvent: (event) => events.push(event) },
      { max: 1 },
    );
    await eventually("it is reached", async () => (await statuses(app, "/"))[0] === 429, 20_000);
    own.pause();
    const start = performance.now();
    expect(await statuses(app, "/", "/")).toEqual([200, 200]);
    expect(performance.now() - start).toBeLessThan(10_000);
    own.resume();
    await eventually("it counts again", async () => (await statuses(app, "/"))[0] === 429, 20_000);
    expect(events.map(({ type }) => type)).toEqual(
      expect.arrayContaining(["storeError", "degraded", "recovered"]),
    );
  });
});
