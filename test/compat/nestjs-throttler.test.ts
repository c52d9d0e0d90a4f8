/**
 * What @nestjs/throttler and its storages promise, kept by ours: the promises of `src/throttler.service.spec.ts` and
 * `test/controller.e2e-spec.ts` of @nestjs/throttler 6.7.1 and of `test/controller.spec.ts` of
 * @nest-lab/throttler-storage-redis 1.2.0, in words and code of our own: no package has them.
 */
import "reflect-metadata";
import { memoryStore, slidingWindow, type TidegateEvent } from "@tidegate/core";
import { tidegateStore } from "@tidegate/compat/nestjs-throttler";
import { Controller, Get, type INestApplication, Module } from "@nestjs/common";
import { APP_GUARD, NestFactory } from "@nestjs/core";
import {
  SkipThrottle,
  Throttle,
  ThrottlerGuard,
  ThrottlerModule,
  type ThrottlerOptions,
} from "@nestjs/throttler";
import request from "supertest";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { fakeClock } from "../harness/clock.ts";
import { eventually } from "../harness/eventually.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";

let redis: RedisServer;
beforeAll(async () => void (redis = await startRedis()));
beforeEach(() => redis.client.flushall());
afterAll(() => redis.stop());

type Options = NonNullable<Parameters<typeof tidegateStore>[0]>;
type Storage = ReturnType<typeof tidegateStore>;

const patient = { timeoutMs: 10_000 };

function storageOf(options: Options): Storage {
  const storage = tidegateStore({ ...patient, ...options });
  onTestFinished(() => storage.onApplicationShutdown());
  return storage;
}

const places = {
  Redis: () => ({ redis: redis.url }),
  "this process's memory": () => ({}),
};

describe.each(Object.entries(places))("the promises of a storage, in %s", (_, where) => {
  it("counts from 1, and tells in whole seconds when the window ends", async () => {
    const told = await storageOf(where()).increment("test", 1000, 1, 0, "test");
    expect(told).toEqual({ totalHits: 1, timeToExpire: 1, isBlocked: false, timeToBlockExpire: 0 });
  });

  it("refuses what is over the limit, and says for how long", async () => {
    const storage = storageOf(where());
    const told = [];
    for (let i = 0; i < 4; i++) told.push(await storage.increment("key", 600_000, 2, 900_000, "default"));
    expect(told.map(({ totalHits, isBlocked }) => [totalHits, isBlocked])).toEqual([
      [1, false],
      [2, false],
      [3, true],
      [3, true],
    ]);
    for (const { timeToBlockExpire } of told.slice(2)) {
      expect(timeToBlockExpire).toBeGreaterThan(840);
      expect(timeToBlockExpire).toBeLessThanOrEqual(900);
    }
  });

  it("counts each key and each named throttler for itself", async () => {
    const storage = storageOf(where());
    const asked = (key: string, name: string) => storage.increment(key, 60_000, 1, 60_000, name);
    await asked("key", "short");
    expect((await asked("key", "short")).isBlocked).toBe(true);
    expect((await asked("key", "long")).isBlocked).toBe(false);
    expect((await asked("other", "short")).isBlocked).toBe(false);
  });

  it("blocks one key and never another that keeps below its limit", async () => {
    const storage = storageOf(where());
    for (let i = 0; i < 6; i++) {
      // At most two of the quiet key's hits come within 100 ms.
      expect((await storage.increment("quiet", 100, 3, 100, "test")).isBlocked).toBe(false);
      for (let j = 0; j < 4; j++) await storage.increment("loud", 100, 3, 100, "test");
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  });

  it("lets a key begin anew when its block is over, also where that ends before the window", async () => {
    const storage = storageOf(where());
    const asked = () => storage.increment("key", 600_000, 1, 100, "default");
    await asked();
    expect(await asked()).toMatchObject({ isBlocked: true, timeToBlockExpire: 1 });
    await eventually("the block is over", async () => (await asked()).isBlocked === false, 20_000);
    expect(await asked()).toMatchObject({ isBlocked: true });
  });
});

it("a block lasts its time from the first refusal, and attempts meanwhile do not lengthen it", async () => {
  const clock = fakeClock();
  const storage = storageOf({ store: memoryStore({ nowUs: clock.now }) });
  const asked = () => storage.increment("key", 60_000, 1, 30_000, "default");
  await asked();
  clock.advance(50_000);
  expect(await asked()).toMatchObject({ isBlocked: true, timeToBlockExpire: 30 });
  clock.advance(29_000);
  expect(await asked()).toMatchObject({ isBlocked: true, timeToBlockExpire: 1 });
  clock.advance(1001);
  expect(await asked()).toMatchObject({ totalHits: 1, isBlocked: false, timeToExpire: 60 });
});

it("attempts do not lengthen a block in Redis either", async () => {
  const storage = storageOf({ redis: redis.url });
  const asked = () => storage.increment("key", 600_000, 1, 600_000, "default");
  const left = async () => redis.client.pttl((await redis.client.keys("*::b"))[0] ?? "none");
  await asked();
  await asked();
  await eventually("the block is told, and some of it is over", async () => {
    const ms = await left();
    return ms > 0 && ms < 599_950;
  });
  const before = await left();
  for (let i = 0; i < 3; i++) await asked();
  await storage.increment("other", 1000, 1, 0, "default"); // What was sent before it has been done.
  expect(await left()).toBeLessThanOrEqual(before);
});

it("without a block, who is refused waits for the window's end", async () => {
  const clock = fakeClock();
  const storage = storageOf({ store: memoryStore({ nowUs: clock.now }) });
  const asked = () => storage.increment("key", 60_000, 1, 0, "default");
  await asked();
  clock.advance(45_000);
  expect(await asked()).toMatchObject({ isBlocked: true, timeToBlockExpire: 15 });
  clock.advance(15_001);
  expect(await asked()).toMatchObject({ isBlocked: false });
});

it("lets nobody in at limit 0", async () => {
  expect(await storageOf({}).increment("key", 60_000, 0, 60_000, "default")).toMatchObject({
    isBlocked: true,
  });
});

it("lets every key end, blocks as well", async () => {
  const storage = storageOf({ redis: redis.url, prefix: "shop" });
  for (let i = 0; i < 3; i++) await storage.increment("a}b{c", 60_000, 1, 60_000, "default");
  const keys = await redis.client.keys("*");
  expect(keys).toHaveLength(2);
  for (const key of keys) {
    expect(key).toMatch(/^shop:\{id:h\.[\w-]{22}\}:(default\.hits:fw|:b)$/);
    expect(await redis.client.pttl(key)).toBeGreaterThan(0);
  }
});

it("decides by an algorithm of the user's", async () => {
  const clock = fakeClock();
  const storage = storageOf({ store: memoryStore({ nowUs: clock.now }), algorithm: slidingWindow });
  const asked = () => storage.increment("key", 60_000, 2, 0, "default");
  await asked();
  await asked();
  clock.advance(60_500); // A fixed window would be empty; of the last one 59.5 s of 60 still count.
  expect(await asked()).toMatchObject({ isBlocked: true });
});

/** Decorators, as the compiler would call them. */
function controller(): new () => object {
  class Site {
    plain = () => "hello";
    login() {
      return this.plain();
    }
    health() {
      return this.plain();
    }
    root() {
      return this.plain();
    }
  }
  Controller()(Site);
  const on = (name: "login" | "health" | "root", ...decorators: MethodDecorator[]) => {
    for (const decorate of decorators)
      decorate(Site.prototype, name, Object.getOwnPropertyDescriptor(Site.prototype, name)!);
  };
  on("login", Get("login"), Throttle({ default: { limit: 1, ttl: 600_000 } }));
  on("health", Get("health"), SkipThrottle());
  on("root", Get());
  return Site;
}

/** A Nest application with the guard everywhere and our storage; closed when the test is over. */
async function site(options: Options, throttlers: ThrottlerOptions[] = [{ limit: 2, ttl: 60_000 }]) {
  class App {}
  Module({
    imports: [ThrottlerModule.forRoot({ throttlers, storage: tidegateStore({ ...patient, ...options }) })],
    controllers: [controller()],
    providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
  })(App);
  const app = await NestFactory.create(App, { logger: false });
  onTestFinished(() => app.close());
  await app.listen(0, "127.0.0.1");
  return app;
}

const ask = (app: INestApplication, path = "/") => request(app.getHttpServer()).get(path);

async function statuses(app: INestApplication, ...paths: string[]): Promise<number[]> {
  const seen: number[] = [];
  for (const path of paths) seen.push((await ask(app, path)).status);
  return seen;
}

describe("under @nestjs/throttler", () => {
  it("limits, tells so, and counts each route for itself", async () => {
    const app = await site({ redis: redis.url });
    const first = await ask(app);
    expect([
      first.status,
      first.headers["x-ratelimit-limit"],
      first.headers["x-ratelimit-remaining"],
    ]).toEqual([200, "2", "1"]);
    expect(await statuses(app, "/", "/", "/login", "/login", "/health", "/health", "/health")).toEqual([
      200, 429, 200, 429, 200, 200, 200,
    ]);
    const refused = await ask(app, "/login");
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(540);
    expect(refused.body).toEqual({ statusCode: 429, message: "ThrottlerException: Too Many Requests" });
  });

  it("admits exactly the limit between two applications that share a Redis", async () => {
    const throttlers = [{ limit: 20, ttl: 60_000 }];
    const apps = await Promise.all([1, 2].map(() => site({ redis: redis.url }, throttlers)));
    const answers = await Promise.all(Array.from({ length: 60 }, (_, i) => ask(apps[i % 2]!)));
    const count = (status: number) => answers.filter((answer) => answer.status === status).length;
    expect([count(200), count(429)]).toEqual([20, 40]);
  });

  it("begins anew with the next application, where a module is started again and again", async () => {
    const storage = tidegateStore({ ...patient, redis: redis.url, onFailure: "closed" });
    class App {}
    Module({
      imports: [ThrottlerModule.forRoot({ throttlers: [{ limit: 1, ttl: 600_000 }], storage })],
      controllers: [controller()],
      providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
    })(App);
    for (const expected of [[200], [429]]) {
      const app = await NestFactory.create(App, { logger: false });
      await app.listen(0, "127.0.0.1");
      expect(await statuses(app, "/")).toEqual(expected);
      await app.close();
    }
  });

  it("closes its connection with the application", async () => {
    const storage = tidegateStore({ ...patient, redis: redis.url });
    class App {}
    Module({ imports: [ThrottlerModule.forRoot({ throttlers: [{ limit: 1, ttl: 1000 }], storage })] })(App);
    const app = await NestFactory.create(App, { logger: false });
    await app.init();
    const clients = async () =>
      String(await redis.client.client("LIST"))
        .trim()
        .split("\n").length;
    await storage.increment("key", 1000, 1, 0, "default");
    const before = await clients();
    await app.close();
    await eventually("one has gone", async () => (await clients()) === before - 1);
  });
});

describe("when Redis is away", () => {
  const gone = { redis: "redis://127.0.0.1:1", timeoutMs: 100 };

  it("open: requests pass, as the first of their window", async () => {
    const app = await site({ ...gone, onFailure: "open" });
    expect(await statuses(app, "/", "/", "/")).toEqual([200, 200, 200]);
  });

  it("closed: requests are answered 503", async () => {
    const answer = await ask(await site({ ...gone, onFailure: "closed" }));
    expect(answer.status).toBe(503);
    expect(answer.body).toMatchObject({ statusCode: 503, message: expect.stringContaining("closed") });
  });

  it("local: this process lets its share in, of each route by its own numbers", async () => {
    const app = await site({ ...gone, onFailure: "local", instances: 2 }, [{ limit: 4, ttl: 60_000 }]);
    expect(await statuses(app, "/", "/", "/", "/login", "/login")).toEqual([200, 200, 429, 200, 429]);
  });

  it("counts on when a server that hung goes on, and never waits longer than it may", async () => {
    const own = await startRedis();
    onTestFinished(() => own.stop());
    const events: TidegateEvent[] = [];
    const options = { redis: own.url, timeoutMs: 200, onEvent: (event: TidegateEvent) => events.push(event) };
    const app = await site(options, [{ limit: 1, ttl: 600_000 }]);
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
