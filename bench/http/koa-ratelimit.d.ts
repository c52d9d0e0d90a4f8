/** It comes without types; this much of it is used. */
declare module "koa-ratelimit" {
  import type { Redis } from "ioredis";
  import type { Context, Middleware } from "koa";

  export default function ratelimit(options: {
    driver: "redis";
    db: Redis;
    max: number;
    /** Milliseconds. */
    duration: number;
    id: (context: Context) => string;
  }): Middleware;
}
