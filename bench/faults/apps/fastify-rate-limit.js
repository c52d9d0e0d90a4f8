import fastify from "fastify";
import { connected, identityOf, PLENTY, RECOMMENDED, WINDOW_MS } from "../limits.js";

/** @type {import("../limits.js").Serve} */
export async function serve(url) {
  const app = fastify();
  await app.register(await plugin(), options(url));
  app.get("/", async () => "ok");
  await app.listen({ port: 0, host: "127.0.0.1" });
  return app.server;
}

/** @param {string} url */
const options = (url) => ({
  max: PLENTY,
  timeWindow: WINDOW_MS,
  keyGenerator: identityOf,
  skipOnError: true,
  redis: connected(url, RECOMMENDED),
});

/** Without its types: they give the same names in Fastify another type than ours do. */
async function plugin() {
  const { default: rateLimit } = await import(import.meta.resolve("@fastify/rate-limit"));
  return /** @type {import("fastify").FastifyPluginAsync<object>} */ (rateLimit);
}
