/**
 * A server as docs/express.md, docs/fastify.md and docs/koa.md write it, with their way of shutting down. It runs the
 * built packages: Node 20 runs no TypeScript.
 */
import { setTimeout as sleep } from "node:timers/promises";

const { framework, redis, prefix, handlerMs } = JSON.parse(String(process.argv[2]));
const { concurrency, fixedWindow } = await import("@tidegate/core");
const config = {
  redis,
  prefix,
  policies: {
    inFlight: concurrency({ limit: 10_000 }),
    api: fixedWindow({ limit: 100_000, window: "1h" }),
  },
  // A machine that is busy may miss a deadline, which nobody would hear of.
  onEvent() {},
};

/** The numbers of the requests that have arrived. @type {string[]} */
const arrived = [];
const watch = (/** @type {import("node:http").Server} */ server) =>
  server.prependListener("request", ({ headers }) => arrived.push(String(headers["x-number"])));

/** @type {Record<string, () => Promise<import("node:http").Server>>} */
const frameworks = {
  async express() {
    const { default: express } = await import("express");
    const { rateLimit } = await import("@tidegate/express");
    const app = express();
    const limit = rateLimit(config);
    app.use(limit);
    app.get("/", (_, res) => setTimeout(() => res.send("hello"), handlerMs));
    const server = app.listen(0);
    process.once("SIGTERM", () => {
      server.close(() => void limit.limiter.close());
    });
    return server;
  },

  async fastify() {
    const { fastify } = await import("fastify");
    const { rateLimit } = await import("@tidegate/fastify");
    const app = fastify();
    await app.register(rateLimit, config);
    app.get("/", () => sleep(handlerMs, "hello"));
    await app.listen({ port: 0 });
    process.once("SIGTERM", () => void app.close());
    return app.server;
  },

  async koa() {
    const { default: Koa } = await import("koa");
    const { rateLimit } = await import("@tidegate/koa");
    const app = new Koa();
    const limit = rateLimit(config);
    app.use(limit);
    app.use(async (ctx) => {
      ctx.body = await sleep(handlerMs, "hello");
    });
    const server = app.listen(0);
    process.once("SIGTERM", () => {
      server.close(() => void limit.limiter.close());
    });
    return server;
  },
};

const server = await frameworks[framework]?.();
if (server) {
  if (!server.listening) await new Promise((resolve) => server.once("listening", resolve));
  watch(server);
  process.send?.(server.address());
}
process.once("exit", () => console.log(JSON.stringify(arrived)));
process.once("disconnect", () => process.kill(process.pid, "SIGKILL")); // The test has gone.
process.channel?.unref(); // Nothing but the server's own work is to hold this process.
