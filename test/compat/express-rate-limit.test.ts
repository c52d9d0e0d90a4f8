/**
 * What express-rate-limit and its own stores promise of a store, kept by ours: the promises of `test/store-test.ts` of
 * rate-limit-redis 6.0.1 and of `test/library/memory-store-test.ts` and `middleware-test.ts` of express-rate-limit 8.7.5,
 * in words and code of our own. Theirs are in no package, and ask a mock of ioredis for its keys.
 */
import {
  type Decision,
  fixedWindow,
  memoryStore,
  slidingWindow,
  type TidegateEvent,
  tokenBucket,
} from "@tidegate/core";
import { StoreUnavailableError, tidegateStore, TidegateStore } from "@tidegate/compat/express-rate-limit";
import express, { type Express, type RequestHandler } from "express";
import { MemoryStore, type Options, rateLimit, type Store } from "express-rate-limit";
import { Redis } from "ioredis";
import request from "supertest";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { type CountingOptions } from "../../packages/compat/src/counting.ts";
import { Tickets } from "../../packages/compat/src/tickets.ts";
import { fakeClock } from "../harness/clock.ts";
import { eventually } from "../harness/eventually.ts";
import { faultProxy } from "../harness/fault-proxy.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";

let redis: RedisServer;
beforeAll(async () => void (redis = await startRedis()));
beforeEach(() => redis.client.flushall());
afterAll(() => redis.stop());

const patient = { timeoutMs: 10_000 };

/** A store as express-rate-limit begins it. */
function begun(options: CountingOptions, rules: Partial<Options> = {}): TidegateStore {
  const store = tidegateStore({ ...patient, ...options });
  onTestFinished(() => store.shutdown());
  store.init({ windowMs: 60_000, limit: 2, ...rules });
  return store;
}

const places = {
  Redis: () => ({ redis: redis.url }),
  "this process's memory": () => ({}),
};

describe.each(Object.entries(places))("the promises of a store, in %s", (_, where) => {
  it("fits where express-rate-limit wants a store", () => {
    expect(begun(where()) satisfies Store).toBeInstanceOf(TidegateStore);
  });

  it("counts from 1, also beyond the limit, and tells when the window ends", async () => {
    const store = begun(where());
    const before = Date.now();
    const told = [];
    for (let i = 0; i < 4; i++) told.push(await store.increment("key"));
    expect(told.map(({ totalHits }) => totalHits)).toEqual([1, 2, 3, 4]);
    for (const { resetTime } of told) {
      expect(resetTime!.getTime()).toBeGreaterThan(before + 45_000);
      expect(resetTime!.getTime()).toBeLessThanOrEqual(Date.now() + 60_000);
    }
  });

  it("counts each key for itself", async () => {
    const store = begun(where());
    await store.increment("one");
    expect((await store.increment("two")).totalHits).toBe(1);
  });

  it("takes back one hit for each decrement, and never more than there were", async () => {
    const store = begun(where(), { skipFailedRequests: true });
    await store.increment("key");
    await store.increment("key");
    await store.decrement("key");
    expect((await store.get("key"))?.totalHits).toBe(1);
    await store.decrement("key");
    await store.decrement("key");
    expect(await store.get("key")).toBeUndefined();
    expect((await store.increment("key")).totalHits).toBe(1);
  });

  it("forgets a key that is reset, and no other", async () => {
    const store = begun(where());
    await store.increment("key");
    await store.increment("other");
    await store.resetKey("key");
    expect((await store.increment("key")).totalHits).toBe(1);
    expect((await store.increment("other")).totalHits).toBe(2);
  });

  it("tells of a key without counting, and nothing of a key without a window", async () => {
    const store = begun(where());
    expect(await store.get("key")).toBeUndefined();
    await store.increment("key");
    expect(await store.get("key")).toMatchObject({ totalHits: 1, resetTime: expect.any(Date) });
    expect(await store.get("key")).toMatchObject({ totalHits: 1 });
  });

  it("begins a new window with 1 when one is over", async () => {
    const store = begun(where(), { windowMs: 40 });
    await store.increment("key");
    await eventually("the window is over", async () => (await store.get("key")) === undefined);
    expect((await store.increment("key")).totalHits).toBe(1);
  });

  it("is closed as often as one likes, and begins anew", async () => {
    const store = begun({ ...where(), onFailure: "closed" });
    await store.increment("key");
    await store.shutdown();
    await store.shutdown();
    store.init({ windowMs: 60_000, limit: 2 });
    expect((await store.increment("key")).totalHits).toBe(store.localKeys ? 1 : 2);
  });
});

it("tells express-rate-limit whether its keys are this process's alone, and what begins them", () => {
  expect(begun({})).toMatchObject({ localKeys: true, prefix: "erl" });
  expect(begun({ redis: redis.url, prefix: "login" })).toMatchObject({ localKeys: false, prefix: "login" });
  expect(begun({ store: memoryStore() })).toMatchObject({ localKeys: false });
});

it("begins every key with its prefix, and lets every key end with its window", async () => {
  const store = begun({ redis: redis.url, prefix: "login" });
  await store.increment("203.0.113.7");
  const keys = await redis.client.keys("*");
  expect(keys).toEqual(["login:{id:203.0.113.7}:all.hits:fw"]);
  expect(await redis.client.pttl(keys[0]!)).toBeGreaterThan(45_000);
});

it("counts in one place what two stores of the same prefix count, and apart what those of others do", async () => {
  const [one, two, other] = ["a", "a", "b"].map((prefix) => begun({ redis: redis.url, prefix }));
  await one!.increment("key");
  expect((await two!.increment("key")).totalHits).toBe(2);
  expect((await other!.increment("key")).totalHits).toBe(1);
});

it("gives no hit of a window that is over back to the next one", async () => {
  const clock = fakeClock();
  const store = begun({ store: memoryStore({ nowUs: clock.now }) }, { skipFailedRequests: true });
  await store.increment("key");
  clock.advance(61_000);
  await store.increment("key");
  await store.increment("key");
  for (let i = 0; i < 3; i++) await store.decrement("key");
  expect(await store.get("key")).toBeUndefined();
  await store.increment("key");
  clock.advance(61_000);
  await store.decrement("key");
  expect((await store.increment("key")).totalHits).toBe(1);
});

it("makes no key when a window is over before its hit is taken back", async () => {
  const store = begun({ redis: redis.url }, { windowMs: 40, skipFailedRequests: true });
  await store.increment("key");
  await eventually("the window is over", async () => (await redis.client.keys("*")).length === 0);
  await store.decrement("key");
  expect(await redis.client.keys("*")).toEqual([]);
});

it("takes back no hit of another after a reset", async () => {
  const store = memoryStore({ nowUs: fakeClock().now });
  const [one, two] = [1, 2].map(() => begun({ store }, { skipFailedRequests: true }));
  await one!.increment("key");
  await one!.resetKey("key");
  await two!.increment("key");
  await one!.decrement("key");
  expect((await two!.get("key"))?.totalHits).toBe(1);
});

it("says so when it is to take back a hit that it was not told to keep", async () => {
  const store = begun({}, { skipFailedRequests: false, skipSuccessfulRequests: false });
  await store.increment("key");
  await expect(store.decrement("key")).rejects.toMatchObject({
    code: "TIDEGATE_SETTLEMENT",
    message: expect.stringContaining("skipFailedRequests or skipSuccessfulRequests"),
  });
});

it("keeps what may be taken back within a bound, the latest keys first", () => {
  const tickets = new Tickets(3);
  const hit = (at: number) => ({ at, verdicts: [{ fullMs: 1000 }] }) as unknown as Decision;
  for (const [key, at] of [["a", 1], ["a", 2], ["b", 3], ["b", 4]] as const) tickets.put(key, hit(at)); // prettier-ignore
  expect([tickets.size, tickets.take("a"), tickets.take("b")?.at]).toEqual([2, undefined, 4]);
  for (let at = 10; at < 20; at++) tickets.put("c", hit(at));
  expect(tickets.size).toBe(3);
  expect(tickets.take("c")?.at).toBe(19);
  tickets.put("c", hit(5000));
  expect(tickets.size).toBe(1);
});

describe("what cannot work", () => {
  it.each<[string, unknown, object]>([
    ["an unknown option", { redi: "x" }, { code: "TIDEGATE_OPTION_UNKNOWN", option: "redi" }],
    ["no options", null, { code: "TIDEGATE_OPTION_INVALID", option: "tidegateStore" }],
    ["an algorithm by name", { algorithm: "gcra" }, { option: "algorithm", value: "gcra" }],
    ["a rule of one's own", { onFailure: { local: {} } }, { option: "onFailure" }],
    ["the rule local without instances", { onFailure: "local" }, { option: "onFailure" }],
    ["a server by number", { redis: 6379 }, { code: "TIDEGATE_CLIENT_UNKNOWN", option: "redis" }],
  ])("%s fails when the store is made", (_, options, error) => {
    expect(() => tidegateStore(options as CountingOptions)).toThrow(expect.objectContaining(error));
  });

  it("a limit that is a function fails with an algorithm, at init and at every call", async () => {
    const store = tidegateStore({ algorithm: slidingWindow });
    const error = expect.objectContaining({ code: "TIDEGATE_OPTION_INVALID", option: "limit" });
    expect(() => store.init({ windowMs: 1000, limit: () => 3 })).toThrow(error);
    await expect(store.increment("key")).rejects.toEqual(error);
  });

  it.each([0, NaN, -1, "1m"])("a window of %s fails", (windowMs) => {
    expect(() => tidegateStore().init({ windowMs: windowMs as number })).toThrow(
      expect.objectContaining({ option: "windowMs" }),
    );
  });

  it("a store that nobody has begun says so", async () => {
    await expect(tidegateStore().increment("key")).rejects.toThrow("rateLimit({ store })");
  });

  it.each(["", undefined])("a key of %j counts nobody, and is an error", async (key) => {
    await expect(begun({}).increment(key as string)).rejects.toMatchObject({
      code: "TIDEGATE_IDENTITY_MISSING",
    });
  });
});

/** A site behind express-rate-limit with our store, closed when the test is over. */
function site(store: TidegateStore, rules: Partial<Options>, ...more: RequestHandler[]): Express {
  onTestFinished(() => store.shutdown());
  const app = express();
  app.set("env", "test"); // Its error handler prints otherwise.
  app.use(rateLimit({ windowMs: 60_000, limit: 3, store, validate: { ip: false }, ...rules }), ...more);
  app.all("/{*path}", (_req, res) => void res.send("hello"));
  return app;
}

async function statuses(app: Express, count: number, path = "/"): Promise<number[]> {
  const seen: number[] = [];
  for (let i = 0; i < count; i++) seen.push((await request(app).get(path)).status);
  return seen;
}

/** 0 where there is no such field. */
const secondsIn = ({ headers }: { headers: Record<string, string> }, name: string): number =>
  Number(headers[name] ?? 0);

describe("under express-rate-limit", () => {
  it("answers as with its own store: status, body and headers", async () => {
    const ours = site(tidegateStore({ ...patient, redis: redis.url }), { standardHeaders: "draft-8" });
    const theirs = express().use(
      rateLimit({ windowMs: 60_000, limit: 3, store: new MemoryStore(), standardHeaders: "draft-8" }),
      (_req, res) => void res.send("hello"),
    );
    for (let i = 0; i < 5; i++) {
      const [answer, expected] = [await request(ours).get("/"), await request(theirs).get("/")];
      expect([answer.status, answer.text]).toEqual([expected.status, expected.text]);
      for (const name of ["x-ratelimit-limit", "x-ratelimit-remaining", "ratelimit-policy"])
        expect(answer.headers[name], name).toBe(expected.headers[name]);
      for (const name of ["retry-after", "x-ratelimit-reset"])
        expect(Math.abs(secondsIn(answer, name) - secondsIn(expected, name)), name).toBeLessThan(20);
    }
  });

  it("admits exactly the limit between two applications that share a Redis", async () => {
    const apps = [1, 2].map(() =>
      site(tidegateStore({ ...patient, redis: redis.url }), { limit: 20 }).listen(0),
    );
    onTestFinished(() => apps.forEach((app) => app.close()));
    const answers = await Promise.all(Array.from({ length: 60 }, (_, i) => request(apps[i % 2]!).get("/")));
    const count = (status: number) => answers.filter((answer) => answer.status === status).length;
    expect([count(200), count(429)]).toEqual([20, 40]);
  });

  it("tells the request how much is used", async () => {
    let told: unknown;
    const app = site(tidegateStore(patient), {}, (req, _res, next) => {
      told = (req as unknown as { rateLimit: object }).rateLimit;
      next();
    });
    await request(app).get("/");
    expect(told).toMatchObject({ limit: 3, used: 1, remaining: 2, resetTime: expect.any(Date) });
  });

  it("counts everything where the limit is a function", async () => {
    const app = site(tidegateStore(patient), { limit: (req) => (req.headers["x-plan"] ? 4 : 1) });
    expect(await statuses(app, 2)).toEqual([200, 429]);
    expect((await request(app).get("/").set("x-plan", "paid")).status).toBe(200);
    expect((await request(app).get("/").set("x-plan", "paid")).status).toBe(200);
    expect((await request(app).get("/").set("x-plan", "paid")).status).toBe(429);
  });

  it("lets nobody in at limit 0", async () => {
    expect(await statuses(site(tidegateStore(patient), { limit: 0, validate: false }), 2)).toEqual([
      429, 429,
    ]);
  });

  it.each([
    ["skipFailedRequests", 500, [500, 500, 500, 500, 500]],
    ["skipFailedRequests", 200, [200, 200, 200, 429, 429]],
    ["skipSuccessfulRequests", 200, [200, 200, 200, 200, 200]],
    ["skipSuccessfulRequests", 500, [500, 500, 500, 429, 429]],
  ])("%s, and responses of %s", async (option, status, expected) => {
    const store = tidegateStore({ ...patient, redis: redis.url });
    const decrement = vi.spyOn(store, "decrement");
    const app = site(store, { [option]: true }, (_req, res) => void res.status(status).end());
    const seen: number[] = [];
    for (let i = 0; i < 5; i++) {
      const given = decrement.mock.calls.length;
      seen.push((await request(app).get("/")).status);
      const comesBack = seen[i]! < 400 === (option === "skipSuccessfulRequests");
      if (comesBack) await eventually("it comes back", () => decrement.mock.calls.length > given);
      await decrement.mock.results.at(-1)?.value;
    }
    expect(seen).toEqual(expected);
  });

  it("warns of two limiters that count a request under one prefix, and not of two prefixes", async () => {
    const errors: unknown[] = [];
    const logger = { error: (error: unknown) => void errors.push(error), warn: () => {} };
    const limiterOf = (prefix: string) => {
      const store = begun({ redis: redis.url, prefix });
      return rateLimit({ store, logger, keyGenerator: () => "key" });
    };
    const stacked = (...prefixes: string[]) =>
      express().use(...prefixes.map(limiterOf), (_req, res) => void res.send("hello"));
    await request(stacked("one", "two")).get("/");
    expect(errors).toEqual([]);
    await request(stacked("same", "same")).get("/");
    expect(errors).toEqual([expect.objectContaining({ code: "ERR_ERL_DOUBLE_COUNT" })]);
  });
});

describe("with an algorithm", () => {
  it("refused requests cost nothing, so a raised limit holds at once", async () => {
    const options = { redis: redis.url, algorithm: fixedWindow, denyCache: false };
    expect(await statuses(site(tidegateStore({ ...patient, ...options }), { limit: 2 }), 6)).toEqual([
      200, 200, 429, 429, 429, 429,
    ]);
    expect(await statuses(site(tidegateStore({ ...patient, ...options }), { limit: 4 }), 3)).toEqual([
      200, 200, 429,
    ]);
  });

  it("Retry-After is the algorithm's own wait", async () => {
    const clock = fakeClock();
    const store = memoryStore({ nowUs: clock.now });
    const bucket = tidegateStore({
      store,
      algorithm: ({ limit }) => tokenBucket({ capacity: limit, refillPerSecond: 0.2 }),
    });
    const app = site(bucket, {});
    expect(await statuses(app, 3)).toEqual([200, 200, 200]);
    expect((await request(app).get("/")).headers["retry-after"]).toMatch(/^[45]$/);
    clock.advance(5000);
    expect(await statuses(app, 2)).toEqual([200, 429]);
  });

  it("a refusal that skipFailedRequests takes back gives nobody else's unit back", async () => {
    const clock = fakeClock();
    const store = begun(
      { store: memoryStore({ nowUs: clock.now }), algorithm: slidingWindow },
      { skipFailedRequests: true },
    );
    const hits = [];
    for (let i = 0; i < 3; i++) hits.push((await store.increment("key")).totalHits);
    expect(hits).toEqual([1, 2, 3]);
    await store.decrement("key"); // of the third, which was refused
    expect((await store.get("key"))?.totalHits).toBe(2);
  });
});

describe("when Redis is away", () => {
  const gone = { redis: "redis://127.0.0.1:1", timeoutMs: 100 };

  it.each([
    ["open: requests pass, as the first of their window", "open", 200, "2"],
    ["closed: requests are answered 503 with Retry-After", "closed", 503, undefined],
  ] as const)("%s", async (_, onFailure, status, remaining) => {
    const app = site(tidegateStore({ ...gone, onFailure }), {});
    const start = performance.now();
    const answer = await request(app).get("/");
    expect(answer.status).toBe(status);
    expect(answer.headers["x-ratelimit-remaining"]).toBe(remaining);
    expect(answer.headers["x-ratelimit-reset"]).toBeUndefined();
    expect(answer.headers["retry-after"]).toBe(status === 503 ? "5" : undefined);
    expect(performance.now() - start).toBeLessThan(5000);
  });

  it("closed with passOnStoreError: requests pass and say nothing", async () => {
    const errors: unknown[] = [];
    const logger = { error: (error: unknown) => void errors.push(error), warn: () => {} };
    const app = site(tidegateStore({ ...gone, onFailure: "closed" }), { passOnStoreError: true, logger });
    const answer = await request(app).get("/");
    expect([answer.status, answer.headers["x-ratelimit-limit"]]).toEqual([200, undefined]);
    expect(errors).toEqual([expect.any(StoreUnavailableError)]);
  });

  it.each([undefined, slidingWindow])(
    "local: this process lets its share in, algorithm %o",
    async (algorithm) => {
      const rule = { onFailure: "local", instances: 2, ...(algorithm && { algorithm }) } as const;
      const app = site(tidegateStore({ ...gone, ...rule }), { limit: 6 });
      expect(await statuses(app, 4)).toEqual([200, 200, 200, 429]);
    },
  );

  it("a reply that is lost charges nothing twice, on a shared connection that sends again", async () => {
    const proxy = await faultProxy(redis);
    const client = new Redis(proxy.port, "127.0.0.1");
    client.on("error", () => {}); // Its connection breaks, as is asked for.
    onTestFinished(() => {
      client.disconnect();
      proxy.close();
    });
    const store = begun({ redis: client, shareConnection: true });
    await store.increment("key");
    proxy.dropReplies(1);
    expect((await store.increment("key")).totalHits).toBe(2);
    expect(proxy.accepted).toBe(2);
    expect((await store.get("key"))!.totalHits).toBe(2);
  });

  it("counts on when a server that hung goes on, and never waits longer than it may", async () => {
    const own = await startRedis();
    onTestFinished(() => own.stop());
    const events: TidegateEvent[] = [];
    const store = tidegateStore({ redis: own.url, timeoutMs: 200, onEvent: (event) => events.push(event) });
    const app = site(store, { limit: 1 });
    await eventually("it is reached", async () => (await statuses(app, 1))[0] === 429, 20_000);
    own.pause();
    const start = performance.now();
    expect(await statuses(app, 2)).toEqual([200, 200]);
    expect(performance.now() - start).toBeLessThan(10_000);
    own.resume();
    await eventually("it counts again", async () => (await statuses(app, 1))[0] === 429, 20_000);
    expect(events.map(({ type }) => type)).toEqual(
      expect.arrayContaining(["storeError", "degraded", "recovered"]),
    );
  });
});
