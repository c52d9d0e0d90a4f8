import "reflect-metadata";
import { ThrottlerStorageRedisService } from "@nest-lab/throttler-storage-redis";
import { Controller, Get, Module } from "@nestjs/common";
import { APP_GUARD, NestFactory } from "@nestjs/core";
import { ThrottlerGuard, ThrottlerModule } from "@nestjs/throttler";
import { rateLimit } from "@tidegate/express";
import { Redis } from "ioredis";
import { identityOf, PLENTY, tidegate, WINDOW_MS } from "./limits.js";

/** On Express, which is Nest's default. What TypeScript writes with an @ is called by hand. */

class Site {
  index() {
    return "ok";
  }
}
Controller()(Site);
Get("/")(
  Site.prototype,
  "index",
  /** @type {PropertyDescriptor} */ (Object.getOwnPropertyDescriptor(Site.prototype, "index")),
);

/** @type {import("./limits.js").Serve} */
export async function serve(limiter, redis, onEvent) {
  class Application {}
  Module({ controllers: [Site], ...(limiter === "peer" && peer(redis)) })(Application);
  const app = await NestFactory.create(Application, { logger: ["error", "fatal"] });
  if (limiter !== "none" && limiter !== "peer") app.use(rateLimit(tidegate(limiter, redis, onEvent)));
  await app.listen(0, "127.0.0.1");
  return app.getHttpServer();
}

/**
 * @param {string} redis
 * @returns {import("@nestjs/common").ModuleMetadata}
 */
const peer = (redis) => ({
  imports: [
    ThrottlerModule.forRoot({
      throttlers: [{ limit: PLENTY, ttl: WINDOW_MS }],
      storage: new ThrottlerStorageRedisService(new Redis(redis)),
      getTracker: (request) => identityOf(/** @type {import("node:http").IncomingMessage} */ (request)),
    }),
  ],
  providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
});
