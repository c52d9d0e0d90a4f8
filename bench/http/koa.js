import { once } from "node:events";
import { rateLimit } from "@tidegate/koa";
import { Redis } from "ioredis";
import Koa from "koa";
import koaRateLimit from "koa-ratelimit";
import { identityOf, PLENTY, tidegate, WINDOW_MS } from "./limits.js";

/** @type {import("./limits.js").Serve} */
export async function serve(limiter, redis, onEvent) {
  const app = new Koa();
  if (limiter === "peer") app.use(peer(redis));
  else if (limiter !== "none") app.use(rateLimit(tidegate(limiter, redis, onEvent)));
  app.use((ctx) => {
    ctx.body = "ok";
  });
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

/** @param {string} redis */
const peer = (redis) =>
  koaRateLimit({
    driver: "redis",
    db: new Redis(redis),
    max: PLENTY,
    duration: WINDOW_MS,
    id: identityOf,
  });
