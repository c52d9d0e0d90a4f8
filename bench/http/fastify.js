import { rateLimit } from "@tidegate/fastify";
import fastify from "fastify";
import { Redis } from "ioredis";
import { identityOf, PLENTY, tidegate, WINDOW_MS } from "./limits.js";

/** @type {import("./limits.js").Serve} */
export async function serve(limiter, redis, onEvent) {
  const app = fastify();
  if (limiter === "peer") await app.register(await peer(), peerOptions(redis));
  else if (limiter !== "none") await app.register(rateLimit, tidegate(limiter, redis, onEvent));
  app.get("/", async () => "ok");
  await app.listen({ port: 0, host: "127.0.0.1" });
  return app.server;
}

/** Without its types: they give the same names in Fastify another type than ours do. */
async function peer() {
  const plugin = await import(import.meta.resolve("@fastify/rate-limit"));
  return /** @type {import("fastify").FastifyPluginAsync<object>} */ (plugin.default);
}

/** @param {string} redis */
const peerOptions = (redis) => ({
  max: PLENTY,
  timeWindow: WINDOW_MS,
  keyGenerator: identityOf,
  redis: new Redis(redis),
});
