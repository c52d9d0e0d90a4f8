/** The readiness endpoints of docs/operations.md, in every framework. */
import { createServer, type RequestListener, type Server } from "node:http";
import { rateLimit as express } from "@tidegate/express";
import { rateLimit as fastify } from "@tidegate/fastify";
import { rateLimit as koa } from "@tidegate/koa";
import makeExpress from "express";
import makeFastify from "fastify";
import Koa from "koa";
import request from "supertest";
import { describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { freshPrefix } from "../harness/pair.ts";
import { startRedis } from "../harness/redis.ts";

const configOf = (redis: string) => ({
  redis,
  prefix: freshPrefix(),
  limit: 100,
  window: "1m",
  timeoutMs: 10_000,
});

const listening = (listener: RequestListener): Server => {
  const server = createServer(listener).listen(0);
  onTestFinished(() => void server.close());
  return server;
};

async function withExpress(redis: string): Promise<Server> {
  const limit = express({ ...configOf(redis), routes: { "GET /ready": false } });
  onTestFinished(() => limit.limiter.close());
  const app = makeExpress();
  app.use(limit);
  app.get("/ready", async (_req, res) => {
    await limit.limiter.peek({ identity: "readiness" });
    const health = limit.limiter.health();
    res.status(health.state === "ok" ? 200 : 503).json(health);
  });
  return listening(app);
}

async function withFastify(redis: string): Promise<Server> {
  const app = makeFastify();
  onTestFinished(() => app.close());
  await app.register(fastify, configOf(redis));
  app.get("/ready", { config: { rateLimit: false } }, async (_request, reply) => {
    await app.rateLimit.limiter.peek({ identity: "readiness" });
    const health = app.rateLimit.limiter.health();
    return reply.code(health.state === "ok" ? 200 : 503).send(health);
  });
  await app.listen({ port: 0 });
  return app.server;
}

async function withKoa(redis: string): Promise<Server> {
  const limit = koa(configOf(redis));
  onTestFinished(() => limit.limiter.close());
  const app = new Koa();
  app.use(async (ctx, next) => {
    if (ctx.path !== "/ready") return next();
    await limit.limiter.peek({ identity: "readiness" });
    const health = limit.limiter.health();
    ctx.status = health.state === "ok" ? 200 : 503;
    ctx.body = health;
  });
  app.use(limit);
  return listening(app.callback() as RequestListener);
}

describe.each<[string, (redis: string) => Promise<Server>]>([
  ["Express", withExpress],
  ["Fastify", withFastify],
  ["Koa", withKoa],
])("%s", (_, serve) => {
  it("is ready while Redis answers, not ready from its end on, and ready again without any traffic", async () => {
    const redis = await startRedis();
    onTestFinished(() => redis.stop());
    const begun = Date.now();
    const site = await serve(redis.url);
    const ask = async () => {
      const { status, body, headers } = await request(site).get("/ready");
      expect(headers).not.toHaveProperty("ratelimit-policy");
      return [status, body];
    };
    const since = expect.toSatisfy((at: number) => at >= begun && at <= Date.now());
    expect(await ask()).toEqual([200, { state: "ok", since, breaker: "closed" }]);

    await redis.kill();
    const lastError = "connection";
    expect(await ask()).toEqual([503, { state: "degraded", since, lastError, breaker: "closed" }]);

    await redis.stop();
    const again = await startRedis({ port: redis.port });
    onTestFinished(() => again.stop());
    await eventually("it is ready", async () => (await ask())[0] === 200, 20_000);
    expect(await ask()).toEqual([200, { state: "ok", since, lastError, breaker: "closed" }]);
    expect(await again.client.keys("*")).toEqual([]);
  });
});
