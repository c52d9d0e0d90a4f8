import { once } from "node:events";
import { rateLimit } from "@tidegate/express";
import express from "express";
import { rateLimit as expressRateLimit } from "express-rate-limit";
import { Redis } from "ioredis";
import { RedisStore } from "rate-limit-redis";
import { RateLimiterRedis } from "rate-limiter-flexible";
import { identityOf, PLENTY, tidegate, WINDOW_MS } from "./limits.js";

/** @type {import("./limits.js").Serve} */
export async function serve(limiter, redis, onEvent) {
  const app = express();
  if (limiter === "peer") app.use(peer(redis));
  else if (limiter === "other") app.use(other(redis));
  else if (limiter !== "none") app.use(rateLimit(tidegate(limiter, redis, onEvent)));
  app.get("/", (_, res) => void res.send("ok"));
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

/** @param {string} redis */
function peer(redis) {
  const client = new Redis(redis);
  const store = new RedisStore({
    sendCommand: (command, ...args) =>
      /** @type {Promise<import("rate-limit-redis").RedisReply>} */ (client.call(command, ...args)),
  });
  return expressRateLimit({ limit: PLENTY, windowMs: WINDOW_MS, keyGenerator: identityOf, store });
}

/**
 * It brings no middleware; its README shows this one.
 *
 * @param {string} redis
 * @returns {import("express").RequestHandler}
 */
function other(redis) {
  const limiter = new RateLimiterRedis({
    storeClient: new Redis(redis),
    points: PLENTY,
    duration: WINDOW_MS / 1000,
  });
  return (req, res, next) => {
    limiter.consume(identityOf(req)).then(
      () => next(),
      () => void res.status(429).send("Too Many Requests"),
    );
  };
}
