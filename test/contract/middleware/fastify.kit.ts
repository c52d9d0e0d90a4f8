import { type FastifyRateLimitConfig, rateLimit } from "@tidegate/fastify";
import fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type HTTPMethods,
} from "fastify";
import type { Io, Kit, Route, Site } from "./kit.ts";

/** Nothing is awaited before the end: routes are declared while the plugin has not begun. */
export const fastifyKit: Kit = {
  name: "Fastify 5",
  noPattern: "/:a(",
  ownTrust: true,
  async serve({ before, routes = {}, handle, trust, router = {}, json }: Site, { config }) {
    const app: FastifyInstance = fastify({
      ...(trust !== undefined && { trustProxy: trust as string }),
      routerOptions: {
        caseSensitive: router.caseSensitive ?? false,
        ignoreTrailingSlash: !router.strict,
      },
      forceCloseConnections: true,
    });
    if (before)
      app.addHook("onRequest", async (request, reply) => {
        await before(ioOf(request, reply));
        return reply.sent ? reply : undefined;
      });
    const options: FastifyRateLimitConfig = json ? { ...config, hook: "preValidation" } : config;
    app.register(rateLimit, options);
    // By then the plugin has run: what a route says of more policies is the plugin's own to make.
    app.register(async () => {
      for (const [name, route] of Object.entries(routes)) {
        const [method, url] = name.split(" ") as [HTTPMethods, string];
        const { handle, ...more }: Route = typeof route === "function" ? { handle: route } : route;
        const preHandler = [
          ...(more.again ? [app.rateLimit.handler] : []),
          ...(more.with ? [app.rateLimit.with(more.with)] : []),
        ];
        const handler = (request: FastifyRequest, reply: FastifyReply) =>
          answer(handle(ioOf(request, reply)), reply);
        app.route({ method, url, preHandler, handler });
      }
    });
    app.all("/*", (request, reply) => answer(handle!(ioOf(request, reply)), reply));
    await app.listen({ port: 0 });
    return { server: app.server, limiter: app.rateLimit.limiter };
  },
  bodyOf: (request) => (request as FastifyRequest).body,
  foundBy: (incoming) => (found) => Object.assign((incoming as { fastify?: object }).fastify!, found),
};

/** A handler that has answered returns the reply; one that failed rejects. */
async function answer(handled: unknown, reply: FastifyReply): Promise<unknown> {
  await handled;
  return reply;
}

function ioOf(request: FastifyRequest, reply: FastifyReply): Io {
  Object.assign(request.raw, { fastify: request });
  return {
    incoming: request.raw,
    outgoing: reply.raw,
    decision: request.rateLimit,
    field: (name, value) => void reply.header(name, value),
    send: (status, body) => void reply.code(status).send(body),
  };
}
