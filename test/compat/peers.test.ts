/** What docs/migrate says of how the peers behave, asked of the peers as they are installed. */
import { createRequire } from "node:module";
import fastify, { type FastifyPluginAsync } from "fastify";
import { rateLimit } from "express-rate-limit";
import express from "express";
import { Redis } from "ioredis";
import Koa from "koa";
import request from "supertest";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { type RedisServer, startRedis } from "../harness/redis.ts";

const fromRoot = createRequire(import.meta.url);

let redis: RedisServer;
let client: Redis;
beforeAll(async () => {
  redis = await startRedis();
  client = new Redis(redis.port, "127.0.0.1");
});
beforeEach(() => client.flushall());
afterAll(async () => {
  client.disconnect();
  await redis.stop();
});

const now = () => Date.now() / 1000;

describe("express-rate-limit 8.7.5", () => {
  const app = (rules: object) =>
    express().use(rateLimit({ windowMs: 60_000, limit: 1, ...rules }), (_, res) => void res.send("hello"));

  it("writes X-RateLimit-Reset as a moment, and text as its body", async () => {
    const site = app({});
    await request(site).get("/");
    const { status, text, headers } = await request(site).get("/");
    expect([status, text]).toEqual([429, "Too many requests, please try again later."]);
    expect(Math.abs(Number(headers["x-ratelimit-reset"]) - now() - 60)).toBeLessThan(20);
    expect(headers).toHaveProperty("retry-after");
    expect(headers).not.toHaveProperty("cache-control");
  });

  it("writes no Retry-After where both kinds of fields are off", async () => {
    const site = app({ legacyHeaders: false });
    await request(site).get("/");
    expect((await request(site).get("/")).headers).not.toHaveProperty("retry-after");
  });

  it("writes draft-8 with the first 12 digits of a plain digest", async () => {
    const { headers } = await request(app({ standardHeaders: "draft-8", keyGenerator: () => "key" })).get(
      "/",
    );
    // sha256("key") is 2c70e12b7a06…
    expect(headers["ratelimit-policy"]).toBe('"1-in-1min"; q=1; w=60; pk=:MmM3MGUxMmI3YTA2:');
    expect(headers["ratelimit"]).toBe('"1-in-1min"; r=0; t=60');
  });
});

describe("@fastify/rate-limit 11.2.0", () => {
  it("writes x-ratelimit-reset as a span, and JSON as its body", async () => {
    const app = fastify();
    onTestFinished(() => app.close());
    const plugin = fromRoot("@fastify/rate-limit") as FastifyPluginAsync<Record<string, unknown>>;
    await app.register(plugin, { max: 1, timeWindow: 60_000, redis: client });
    app.get("/", () => "hello");
    expect((await app.inject("/")).headers["x-ratelimit-reset"]).toBe("60");
    const { body, headers } = await app.inject("/");
    expect(body).toBe(
      '{"statusCode":429,"error":"Too Many Requests","message":"Rate limit exceeded, retry in 1 minute"}',
    );
    expect(headers).not.toHaveProperty("cache-control");
  });

  it("counts the routes of one groupId each for itself", async () => {
    const app = fastify();
    onTestFinished(() => app.close());
    const plugin = fromRoot("@fastify/rate-limit") as FastifyPluginAsync<Record<string, unknown>>;
    await app.register(plugin, { redis: client });
    const config = { rateLimit: { max: 1, groupId: "search" } } as never;
    for (const url of ["/a", "/b"]) app.get(url, { config }, () => "hello");
    expect([(await app.inject("/a")).statusCode, (await app.inject("/b")).statusCode]).toEqual([200, 200]);
  });
});

describe("@fastify/rate-limit 11.2.0, given nonsense", () => {
  it.each([
    ["nonsense", 500, undefined],
    [NaN, 200, "60"],
  ])("a timeWindow of %j", async (timeWindow, status, reset) => {
    const app = fastify();
    onTestFinished(() => app.close());
    const plugin = fromRoot("@fastify/rate-limit") as FastifyPluginAsync<Record<string, unknown>>;
    await app.register(plugin, { max: 1, timeWindow });
    app.get("/", () => "hello");
    const { statusCode, headers } = await app.inject("/");
    expect([statusCode, headers["x-ratelimit-reset"]]).toEqual([status, reset]);
  });
});

describe("koa-ratelimit 6.0.0", () => {
  type Ratelimit = (options: object) => Koa.Middleware;
  const ratelimit = fromRoot("koa-ratelimit") as Ratelimit;

  function site(options: object) {
    const app = new Koa();
    app.silent = true;
    app
      .use(ratelimit({ db: client, max: 1, duration: 60_000, ...options }))
      .use((ctx) => void (ctx.body = "hello"));
    const server = app.listen(0);
    onTestFinished(() => void server.close());
    return server;
  }

  it("counts no refused request, and answers text", async () => {
    const app = site({});
    await request(app).get("/");
    for (let i = 0; i < 3; i++) {
      const { status, text, headers } = await request(app).get("/");
      expect(status).toBe(429);
      expect(text).toMatch(/^Rate limit exceeded, retry in .*\.$/);
      expect(Math.abs(Number(headers["x-ratelimit-reset"]) - now() - 60)).toBeLessThan(20);
    }
    expect(await client.zcard((await client.keys("limit:*"))[0]!)).toBe(1);
  });

  it("tells to wait 0 seconds while it refuses", async () => {
    const app = site({ duration: 900 });
    await request(app).get("/");
    const { status, headers } = await request(app).get("/");
    expect([status, headers["retry-after"]]).toEqual([429, "0"]);
  });

  it("counts everybody together where the id is a promise", async () => {
    const app = site({ id: async (ctx: Koa.Context) => ctx.get("x-id") });
    expect((await request(app).get("/").set("x-id", "one")).status).toBe(200);
    expect((await request(app).get("/").set("x-id", "two")).status).toBe(429);
  });
});

describe("rate-limiter-flexible 11.4.0", () => {
  interface Res {
    readonly consumedPoints: number;
  }
  interface Flexible {
    consume(key: string, points?: number): Promise<Res>;
    get(key: string): Promise<Res | null>;
  }
  type Kind = new (options: object) => Flexible;
  const { RateLimiterRedis, RateLimiterUnion } = fromRoot("rate-limiter-flexible") as {
    RateLimiterRedis: Kind;
    RateLimiterUnion: new (...limiters: Flexible[]) => Flexible;
  };
  const made = (options: object) =>
    new RateLimiterRedis({ storeClient: client, points: 2, duration: 60, ...options });

  it("counts refused requests, and takes a cost that does not fit", async () => {
    const limiter = made({});
    for (let i = 0; i < 4; i++) await limiter.consume("key").catch(() => {});
    await limiter.consume("other", 5).catch(() => {});
    expect((await limiter.get("key"))!.consumedPoints).toBe(4);
    expect((await limiter.get("other"))!.consumedPoints).toBe(5);
  });

  it("keeps for ever what has a duration of less than a second", async () => {
    await made({ duration: 0.5 }).consume("key");
    expect(await client.pttl("rlflx:key")).toBe(-1);
  });

  it("leaves charged what did not refuse, in a union", async () => {
    const [one, two] = [made({ keyPrefix: "one", points: 1 }), made({ keyPrefix: "two", points: 9 })];
    const union = new RateLimiterUnion(one!, two!);
    for (let i = 0; i < 3; i++) await union.consume("key").catch(() => {});
    expect((await two!.get("key"))!.consumedPoints).toBe(3);
  });
});
