/** The same small API in each framework, on a port, and what its server saw of its clients. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Config, Decision } from "@tidegate/core";
import { rateLimit as expressLimit } from "@tidegate/express";
import { rateLimit as fastifyLimit } from "@tidegate/fastify";
import { rateLimit as koaLimit } from "@tidegate/koa";
import express from "express";
import fastify from "fastify";
import Koa from "koa";

/** One request, as the server saw it. */
export interface Visit {
  readonly method: string;
  /** What the request says in `x-client`. */
  readonly client: string | undefined;
  /** When its head was read, milliseconds since 1970, by a clock that never goes back. */
  readonly arrivedMs: number;
  /** When it was decided, by the store's clock; `undefined` for one that was left alone. */
  readonly decidedMs: number | undefined;
  readonly status: number;
  /** The response's fields, names in lower case. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface Api {
  readonly url: string;
  /** In the order in which they were answered. */
  readonly visits: Visit[];
  readonly close: () => Promise<void>;
}

interface Making {
  readonly config: Config;
  /** Response fields of a middleware in front of the limiter. */
  readonly fields: Readonly<Record<string, string>>;
  readonly watch: (
    request: IncomingMessage,
    response: ServerResponse,
    decision: () => Decision | undefined,
  ) => void;
}

interface Made {
  readonly server: Server;
  readonly close: () => Promise<void>;
}

const LOCALHOST = "127.0.0.1";

/** What the API says to whoever passes: a preflight is answered behind the limiter too. */
const statusFor = (method: string | undefined): number => (method === "OPTIONS" ? 204 : 200);

async function listening(server: Server): Promise<Server> {
  server.listen(0, LOCALHOST);
  await once(server, "listening");
  return server;
}

async function expressApi({ config, fields, watch }: Making): Promise<Made> {
  const app = express();
  const limit = expressLimit(config);
  app.use((req, res, next) => {
    res.set(fields);
    watch(req, res, () => req.rateLimit);
    next();
  });
  app.use(limit);
  app.use((req, res) => void res.status(statusFor(req.method)).send("hello"));
  return { server: await listening(createServer(app)), close: () => limit.limiter.close() };
}

async function fastifyApi({ config, fields, watch }: Making): Promise<Made> {
  const app = fastify();
  app.addHook("onRequest", (request, reply, next) => {
    reply.headers(fields);
    watch(request.raw, reply.raw, () => request.rateLimit);
    next();
  });
  await app.register(fastifyLimit, config);
  app.all("/", (request, reply) => reply.code(statusFor(request.method)).send("hello"));
  await app.listen({ port: 0, host: LOCALHOST });
  return { server: app.server, close: () => app.close() };
}

async function koaApi({ config, fields, watch }: Making): Promise<Made> {
  const app = new Koa();
  const limit = koaLimit(config);
  app.use((ctx, next) => {
    ctx.set(fields);
    watch(ctx.req, ctx.res, () => ctx.state.rateLimit);
    return next();
  });
  app.use(limit);
  app.use((ctx) => {
    ctx.body = "hello";
    ctx.status = statusFor(ctx.method);
  });
  return { server: await listening(createServer(app.callback())), close: () => limit.limiter.close() };
}

const makers = { "Express 5": expressApi, "Fastify 5": fastifyApi, "Koa 3": koaApi };

export type FrameworkName = keyof typeof makers;
export const frameworks = Object.keys(makers) as FrameworkName[];

/** An API in this framework behind a limiter of this configuration. */
export async function startApi(
  framework: FrameworkName,
  config: Config,
  fields: Readonly<Record<string, string>> = {},
): Promise<Api> {
  const visits: Visit[] = [];
  const patient = { timeoutMs: 10_000, ...config };
  const { server, close } = await makers[framework]({ config: patient, fields, watch: watchInto(visits) });
  return {
    url: `http://${LOCALHOST}:${(server.address() as AddressInfo).port}/`,
    visits,
    async close() {
      server.close();
      server.closeAllConnections();
      await close();
    },
  };
}

const watchInto =
  (visits: Visit[]): Making["watch"] =>
  (request, response, decision) => {
    const arrivedMs = performance.timeOrigin + performance.now();
    response.once("finish", () => {
      visits.push({
        method: request.method!,
        client: clientOf(request),
        arrivedMs,
        decidedMs: decision()?.at,
        status: response.statusCode,
        fields: { ...response.getHeaders() },
      });
    });
  };

/** Who is counted in these tests: what the request says in `x-client`. Alike in all three frameworks. */
export const clientOf = ({ headers }: Pick<IncomingMessage, "headers">): string | undefined => {
  const client = headers["x-client"];
  return typeof client === "string" ? client : undefined;
};
