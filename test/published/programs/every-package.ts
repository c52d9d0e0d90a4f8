/** Names and types of every entry, as an application of any module setting writes them. */
import { run, type Io } from "@tidegate/cli";
import { tidegateStore as expressStore } from "@tidegate/compat/express-rate-limit";
import { tidegateStore as fastifyStore } from "@tidegate/compat/fastify-rate-limit";
import { tidegateStore as nestStorage } from "@tidegate/compat/nestjs-throttler";
import { ConfigError, createLimiter, type Decision, type Limiter, slidingWindow } from "@tidegate/core";
import { openTelemetryMetrics } from "@tidegate/core/opentelemetry";
import { prometheusMetrics } from "@tidegate/core/prometheus";
import { simulate, type PastRequest } from "@tidegate/core/simulate";
import { expectLimited, testStore, virtualClock } from "@tidegate/core/testing";
import { rateLimit as expressLimit, type RateLimitHandler } from "@tidegate/express";
import { type FastifyRateLimitConfig, rateLimit as fastifyLimit } from "@tidegate/fastify";
import { rateLimit as koaLimit, type RateLimitMiddleware } from "@tidegate/koa";
import { policiesFromText, type PolicyFileConfig } from "@tidegate/policy-file";
import type { RequestHandler } from "express";
import type { Store as ExpressStore } from "express-rate-limit";
import type { FastifyInstance } from "fastify";
import type { Middleware } from "koa";

const store = testStore({ clock: virtualClock() });
const limiter: Limiter = createLimiter({ store, policies: { a: slidingWindow({ limit: 1, window: "1m" }) } });
const onExpress: RateLimitHandler & RequestHandler = expressLimit({ store, limit: 1, window: "1m" });
const onKoa: RateLimitMiddleware & Middleware = koaLimit({ store, limit: 1, window: "1m" });
const file: PolicyFileConfig = policiesFromText("policies: { a: { algorithm: gcra, limit: 1, window: 1m } }");
const peersStore: ExpressStore = expressStore({});

/** What the packages add to the types of the frameworks. */
export const tells = (req: Parameters<RequestHandler>[0]): Decision | undefined => req.rateLimit;
export async function register(app: FastifyInstance, config: FastifyRateLimitConfig): Promise<void> {
  await app.register(fastifyLimit, config);
  app.get("/", { config: { rateLimit: { policies: {} } } }, (request) => request.rateLimit?.allowed);
}
/** A wrong option is a wrong type, so that what is checked here is no `any`. */
// @ts-expect-error -- a limit is a number
export const wrong = (): unknown => expressLimit({ limit: "1", window: "1m" });
export type Others = [Io, PastRequest, ConfigError];

const made = [
  run,
  fastifyStore,
  nestStorage,
  openTelemetryMetrics,
  prometheusMetrics,
  simulate,
  expectLimited,
];
const handlers = [onExpress, onKoa, fastifyLimit];
const types = new Set([...made, ...handlers, ConfigError].map((value) => typeof value));
console.log([...types].join(), Object.keys(file).join(), typeof peersStore, typeof limiter);
