/**
 * Every package at work, whichever way it was loaded: four requests on each framework under a limit of three, a policy
 * file, and a peer's limiter over our store.
 */
const events = require("node:events");
const { createServer } = require("node:http");

/**
 * @typedef {{
 *   express: typeof import("@tidegate/express"), fastify: typeof import("@tidegate/fastify"),
 *   koa: typeof import("@tidegate/koa"), policyFile: typeof import("@tidegate/policy-file"),
 *   cli: typeof import("@tidegate/cli"), expressStore: typeof import("@tidegate/compat/express-rate-limit"),
 *   simulate: typeof import("@tidegate/core/simulate"), testing: typeof import("@tidegate/core/testing"),
 * }} Packages
 * @typedef {{
 *   express: typeof import("express"), fastify: typeof import("fastify").fastify, Koa: typeof import("koa"),
 *   expressRateLimit: typeof import("express-rate-limit").rateLimit,
 * }} Frameworks
 */

/**
 * @param {Packages} packages
 * @param {Frameworks} frameworks
 */
module.exports = async function bursts(packages, frameworks) {
  const config = packages.policyFile.policiesFromText(
    "policies:\n  burst: { algorithm: slidingLog, limit: 3, window: 1h }\n",
  );
  const answers = {
    express: await onExpress(frameworks.express, packages.express.rateLimit(config)),
    fastify: await onFastify(frameworks.fastify, packages.fastify.rateLimit, config),
    koa: await onKoa(frameworks.Koa, packages.koa.rateLimit(config)),
    peer: await onExpress(frameworks.express, peer(packages, frameworks)),
  };
  return { node: process.version, answers, rest: await restOf(packages) };
};

/** @param {Packages} packages @param {Frameworks} frameworks */
const peer = ({ expressStore }, { expressRateLimit }) =>
  expressRateLimit({
    limit: 3,
    windowMs: 3_600_000,
    standardHeaders: "draft-6",
    legacyHeaders: false,
    store: expressStore.tidegateStore(),
  });

/** @param {Packages} packages */
async function restOf({ cli, simulate, testing }) {
  const clock = testing.virtualClock();
  const before = clock.now();
  clock.advance("1m");
  const passed = clock.now() - before;
  return { cli: typeof cli.run, simulate: typeof simulate.simulate, passed };
}

/** @param {typeof import("express")} express @param {import("express").RequestHandler} limit */
async function onExpress(express, limit) {
  const app = express();
  app.use(limit);
  app.get("/", (_, res) => void res.send("hello"));
  const server = createServer(app).listen(0, "127.0.0.1");
  await events.once(server, "listening");
  return burst(server);
}

/** @param {typeof import("fastify").fastify} fastify @param {any} plugin @param {object} config */
async function onFastify(fastify, plugin, config) {
  const app = fastify();
  await app.register(plugin, config);
  app.get("/", async () => "hello");
  await app.listen({ port: 0, host: "127.0.0.1" });
  return burst(app.server).finally(() => app.close());
}

/** @param {typeof import("koa")} Koa @param {import("koa").Middleware} limit */
async function onKoa(Koa, limit) {
  const app = new Koa();
  app.use(limit);
  app.use((ctx) => void (ctx.body = "hello"));
  const server = createServer(app.callback()).listen(0, "127.0.0.1");
  await events.once(server, "listening");
  return burst(server);
}

/** @param {import("node:http").Server} server */
async function burst(server) {
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const statuses = [];
  let last;
  for (let i = 0; i < 4; i++) {
    last = await fetch(`http://127.0.0.1:${port}/`);
    statuses.push(last.status);
  }
  server.closeAllConnections();
  server.close();
  const fields = [...(last?.headers ?? [])].filter(([name]) => /^ratelimit|^retry-after$/.test(name));
  return { statuses, fields: Object.fromEntries(fields) };
}
