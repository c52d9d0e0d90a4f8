/** What is on which page, besides what the sources say by themselves. */

/**
 * What a page begins with, with the document that shows how it is used.
 *
 * @type {Readonly<Record<string, string>>}
 */
export const INTRODUCTIONS = {
  "compat-express-rate-limit":
    "A store for express-rate-limit 7 and 8. [The migration page](../migrate/express-rate-limit.md) says what changes.",
  "compat-fastify-rate-limit":
    "A store for @fastify/rate-limit 10 and 11. [The migration page](../migrate/fastify-rate-limit.md) says what changes.",
  "compat-nestjs-throttler":
    "A storage for @nestjs/throttler 6. [The migration page](../migrate/nestjs-throttler.md) says what changes.",
  core: "The limiter, its policies, who is counted, stores, clients and errors. The [README](../../README.md) shows how they are used together.",
  "core-opentelemetry":
    "What limiters do, as metrics of OpenTelemetry: [operations.md](../operations.md). It needs the package `@opentelemetry/api`.",
  "core-prometheus":
    "What limiters do, as metrics for Prometheus: [operations.md](../operations.md). It needs the package `prom-client`.",
  "core-simulate":
    "What limits would have done to the traffic of a log: [choosing-limits.md](../choosing-limits.md).",
  "core-testing":
    "A clock that a test moves, a store that fails on command, and what responses say of limits: [testing.md](../testing.md).",
  express: "Middleware for Express 4 and 5: [express.md](../express.md).",
  fastify: "A plugin for Fastify 5: [fastify.md](../fastify.md).",
  koa: "Middleware for Koa 2 and 3: [koa.md](../koa.md).",
  "policy-file": "Policies out of a file of YAML or JSON: [policy-file.md](../policy-file.md).",
};

/** For those who write middleware of their own; everybody else needs none of them. */
const FRAMEWORKS = [
  "http/",
  "options.ts#flag",
  "options.ts#oneOf",
  "identity/proxy.ts#Trust",
  "identity/proxy.ts#trustBySample",
];

/**
 * The parts of a page that is long, by what begins `<file>#<name>` of what belongs there, below the package's `src`.
 * The first that matches holds.
 *
 * @type {Readonly<Record<string, readonly (readonly [title: string, beginnings: readonly string[]])[]>>}
 */
export const PARTS = {
  core: [
    [
      "Making a limiter",
      ["limiter", "config", "request", "wait", "header-options", "options.ts#Duration", "failure/"],
    ],
    ["Policies", ["algorithms/"]],
    [
      "Who is counted",
      [
        "identity/proxy.ts#TrustProxy",
        "identity/address",
        "identity/api",
        "identity/identity",
        "identity/sources",
      ],
    ],
    ["Decisions", ["decision"]],
    ["Errors and events", ["errors", "observe/"]],
    ["Stores", ["stores/"]],
    ["Clients of Redis", ["clients/"]],
    ["Whether a Redis is fit", ["doctor/"]],
    ["Middleware for another framework", FRAMEWORKS],
  ],
};

/** Shapes that signatures name and that mean nothing outside: any version may change them. */
export const OPAQUE = ["Algorithm", "Explanation", "NamedLimit", "NamedPolicy", "Numbers", "Told"];

/** What clients of other libraries look like, as far as it is used here: their own documents tell of them. */
export const SHAPES = [
  "IoredisCluster",
  "IoredisLike",
  "IoredisServer",
  "NodeRedisCluster",
  "NodeRedisClusterSettings",
  "NodeRedisLike",
  "NodeRedisServer",
  "NodeRedisSettings",
];

/**
 * What stands before an example for the test that compiles it, by page and name.
 *
 * @type {Readonly<Record<string, string>>}
 */
export const EXAMPLES = {
  "compat-express-rate-limit tidegateStore":
    'import { rateLimit } from "express-rate-limit"; import { tidegateStore } from "@tidegate/compat/express-rate-limit";',
  "compat-fastify-rate-limit tidegateStore":
    'import { tidegateStore } from "@tidegate/compat/fastify-rate-limit"; declare const app: { register(plugin: unknown, options: object): void }; declare const rateLimit: unknown;',
  "compat-nestjs-throttler tidegateStore":
    'import { ThrottlerModule, type ThrottlerOptions } from "@nestjs/throttler"; import { tidegateStore } from "@tidegate/compat/nestjs-throttler"; declare const throttlers: ThrottlerOptions[];',
  "express rateLimit":
    'import { rateLimit } from "@tidegate/express"; declare const app: import("express").Express;',
  "express RateLimitHandler.with":
    'import { type RateLimitHandler, slidingLog } from "@tidegate/express"; import type { Express, RequestHandler } from "express"; declare const app: Express, limit: RateLimitHandler, login: RequestHandler;',
  "fastify FastifyRateLimit.with":
    'import "@tidegate/fastify"; import type { Policy } from "@tidegate/core"; import type { FastifyInstance, RouteHandler } from "fastify"; declare const app: FastifyInstance, login: RouteHandler, policies: Record<string, Policy>;',
  "fastify rateLimit":
    'import { rateLimit } from "@tidegate/fastify"; declare const app: import("fastify").FastifyInstance;',
  "koa rateLimit":
    'import { rateLimit } from "@tidegate/koa"; import Koa from "koa"; declare const app: Koa;',
  "koa RateLimitMiddleware.with":
    'import { type RateLimitMiddleware, slidingLog } from "@tidegate/koa"; import Router from "@koa/router"; import type { Middleware } from "koa"; declare const router: Router, limit: RateLimitMiddleware, login: Middleware;',
  "policy-file policiesFrom":
    'import { rateLimit } from "@tidegate/express"; import { policiesFrom } from "@tidegate/policy-file";',
};
