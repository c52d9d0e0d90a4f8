/**
 * An application's process, for tests that take Redis away from it: serves sites on request, and keeps what it saw of
 * each. It runs the built packages: Node 20 runs no TypeScript.
 */
import { subscribe } from "node:diagnostics_channel";
import dns from "node:dns";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const core = await import("@tidegate/core");

/**
 * @typedef {import("node:http").Server} Server
 * @typedef {import("@tidegate/core").Config<any, any>} Config
 * @typedef {import("@tidegate/core").Decision} Decision
 * @typedef {import("@tidegate/core").Limiter} Limiter
 * @typedef {import("./processes.ts").LimiterOptions} LimiterOptions
 * @typedef {import("./processes.ts").SiteOptions} SiteOptions
 * @typedef {import("./processes.ts").Seen} Seen
 * @typedef {import("node:http").IncomingMessage & { decided?: () => Decision | undefined }} Incoming
 * @typedef {{ server: Server, limiters: Limiter[], close: () => Promise<unknown> }} Running
 */

const { concurrency, fixedWindow, gcra, slidingLog, slidingWindow, tokenBucket, user } = core;
/** @type {Record<string, any>} */
const makers = { concurrency, fixedWindow, gcra, slidingLog, slidingWindow, tokenBucket };

/** @param {import("./processes.ts").Policies} policies */
const policiesOf = (policies) =>
  Object.fromEntries(
    Object.entries(policies).map(([name, [maker, options]]) => [name, makers[maker](options)]),
  );

/** @param {NonNullable<LimiterOptions["client"]>} options */
function clientOf({ tlsKey, ...options }) {
  const tls = {
    ciphers: "PSK",
    maxVersion: "TLSv1.2",
    pskCallback: () => ({ psk: Buffer.from(String(tlsKey)), identity: "app" }),
    checkServerIdentity: () => undefined,
  };
  const client = new Redis({ ...options, ...(tlsKey && { tls: /** @type {any} */ (tls) }) });
  client.on("error", () => {}); // Whose client it is listens to it.
  return client;
}

/**
 * @param {LimiterOptions} options
 * @param {Config["onEvent"]} onEvent
 * @returns {any}
 */
function configOf({ policies, onFailure, client, ...rest }, onEvent) {
  const rule = typeof onFailure === "object" ? { local: policiesOf(onFailure.local) } : onFailure;
  return {
    ...rest,
    ...(client && { redis: clientOf(client) }),
    ...(rule && { onFailure: rule }),
    policies: policiesOf(policies),
    by: (/** @type {any} */ { headers }) => user(headers["x-user"] ?? "nobody"),
    cost: (/** @type {any} */ { headers }) => Number(headers["x-cost"] ?? 1),
    onEvent,
  };
}

/** @type {Record<SiteOptions["framework"] & string, (configs: any[], options: SiteOptions) => Promise<Running>>} */
const frameworks = {
  async express(configs, { extended = [] }) {
    const { default: express } = await import("express");
    const { rateLimit } = await import("@tidegate/express");
    const app = express();
    app.use((req, _, next) => {
      /** @type {Incoming} */ (req).decided = () => req.rateLimit;
      next();
    });
    const limits = configs.map((config) => rateLimit(config));
    for (const limit of limits) app.use(limit);
    for (const policies of extended) {
      const more = limits[0]?.with({ policies: policiesOf(policies) });
      if (more) app.use(more);
    }
    app.use((_, res) => void res.end("hello"));
    const server = createServer(app);
    const limiters = limits.map(({ limiter }) => limiter);
    return { server, limiters, close: () => closed(server) };
  },

  async fastify(configs) {
    const { fastify } = await import("fastify");
    const { rateLimit } = await import("@tidegate/fastify");
    const app = fastify();
    app.addHook("onRequest", (request, _, next) => {
      /** @type {Incoming} */ (request.raw).decided = () => request.rateLimit;
      next();
    });
    for (const config of configs) await app.register(rateLimit, config);
    app.get("/", async () => "hello");
    await app.ready();
    return { server: app.server, limiters: [app.rateLimit.limiter], close: () => app.close() };
  },

  async koa(configs) {
    const { default: Koa } = await import("koa");
    const { rateLimit } = await import("@tidegate/koa");
    const app = new Koa();
    app.use((ctx, next) => {
      /** @type {Incoming} */ (ctx.req).decided = () => ctx.state.rateLimit;
      return next();
    });
    const limits = configs.map((config) => rateLimit(config));
    for (const limit of limits) app.use(limit);
    app.use((ctx) => {
      ctx.body = "hello";
    });
    const server = createServer(app.callback());
    const limiters = limits.map(({ limiter }) => limiter);
    return { server, limiters, close: () => closed(server) };
  },
};

/** @param {Server} server */
const closed = (server) => new Promise((resolve) => server.close(resolve));

class Site {
  /** @type {Seen} */
  #seen = { requests: [], breaker: [], events: [], lates: 0, mostPending: 0 };
  #pending = 0;
  /** @type {Running | undefined} */
  #running;
  #prefixes;
  #recording;
  #lateMs;

  /** @param {SiteOptions} options */
  constructor({ limiters, recording = true, lateMs = 25 }) {
    this.#prefixes = new Set(limiters.map(({ prefix }) => prefix));
    this.#recording = recording;
    this.#lateMs = lateMs;
    subscribe("tidegate:breaker", (message) => {
      const { prefix, state } = /** @type {{ prefix: string, state: "open" | "closed" }} */ (message);
      if (this.#prefixes.has(prefix)) this.#seen.breaker.push({ at: Date.now(), state });
    });
    subscribe("tidegate:late", (message) => {
      if (this.#prefixes.has(/** @type {{ prefix: string }} */ (message).prefix)) this.#seen.lates++;
    });
  }

  /** @param {SiteOptions} options */
  async start(options) {
    const onEvent = (/** @type {import("@tidegate/core").TidegateEvent} */ event) => {
      if (event.type !== "degraded") this.#seen.events.push({ at: Date.now(), ...event });
    };
    const configs = options.limiters.map((limiter) => configOf(limiter, onEvent));
    this.#running = await frameworks[options.framework ?? "express"](configs, options);
    const { server } = this.#running;
    server.prependListener("request", (request, response) => this.#watch(request, response));
    await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
    return /** @type {import("node:net").AddressInfo} */ (server.address()).port;
  }

  /**
   * Times a request in this process, from its arrival to the end of its answer. How long that takes says little on a
   * machine that is busy; what it waited for is known for certain. `atOnce`: it was answered within the turn of the
   * event loop in which it arrived, so that it waited for nothing. `late`: it was not answered yet when a bare timer
   * had fired, and all timers that were due by then, so that it waited for something else than the deadline.
   *
   * @param {Incoming} request
   * @param {import("node:http").ServerResponse} response
   */
  #watch(request, response) {
    const [at, arrived] = [Date.now(), performance.now()];
    this.#seen.mostPending = Math.max(this.#seen.mostPending, ++this.#pending);
    response.once("close", () => this.#pending--);
    if (!this.#recording) return;
    const entry = { user: String(request.headers["x-user"]), at, ms: 0, atOnce: false, late: false };
    setImmediate(() => (entry.atOnce = response.writableEnded));
    /** @type {NodeJS.Timeout | undefined} */
    let bare;
    // Once the limiter has had its turn and set its own timer: a process may be held up in between.
    process.nextTick(() => {
      if (response.writableEnded) return;
      const look = () => setImmediate(() => (entry.late = !response.writableEnded));
      bare = setTimeout(look, DEADLINE_MS + this.#lateMs);
    });
    response.once("prefinish", () => {
      entry.ms = performance.now() - arrived;
      clearTimeout(bare);
    });
    response.once("finish", () => {
      const { allowed, degraded } = request.decided?.() ?? {};
      const { rule, reason } = degraded ?? {};
      this.#seen.requests.push(Object.assign(entry, { status: response.statusCode, allowed, rule, reason }));
    });
  }

  /** What was seen since the last time. */
  async seen() {
    await sleep(5); // What has just been sent is through by then.
    const seen = this.#seen;
    this.#seen = { requests: [], breaker: [], events: [], lates: 0, mostPending: this.#pending };
    return seen;
  }

  /** @param {boolean} recording */
  async record(recording) {
    this.#recording = recording;
  }

  async health() {
    return this.#running?.limiters.map((limiter) => limiter.health());
  }

  async close() {
    const { server, limiters, close } = /** @type {Running} */ (this.#running);
    server.closeAllConnections();
    await close();
    await Promise.all(limiters.map((limiter) => limiter.close()));
  }
}

/** Of a limiter that says nothing of it, milliseconds. */
const DEADLINE_MS = 50;

/** Lets this process find a host, as a line in its hosts file would. Every other name is asked for as ever. */
function nameHost(/** @type {{ host: string, address: string }} */ { host, address }) {
  const lookup = /** @type {any} */ (dns.lookup);
  const known = (/** @type {string} */ name, /** @type {any[]} */ ...rest) =>
    lookup(name === host ? address : name, ...rest);
  dns.lookup = /** @type {any} */ (known);
}

/** @type {Map<number, Site>} */
const sites = new Map();

/** @type {Record<string, (site: number, given: any) => Promise<unknown>>} */
const calls = {
  async serve(id, options) {
    const site = new Site(options);
    sites.set(id, site);
    return site.start(options);
  },
  seen: async (id) => sites.get(id)?.seen(),
  record: async (id, recording) => sites.get(id)?.record(recording),
  name: async (_, given) => nameHost(given),
  health: async (id) => sites.get(id)?.health(),
  close: async (id) => sites.get(id)?.close(),
  /** Bytes in use, once everything that can go has gone. */
  async heap() {
    for (let i = 0; i < 3; i++) {
      await sleep(10);
      globalThis.gc?.();
    }
    return process.memoryUsage().heapUsed;
  },
};

process.on("message", async (/** @type {import("./processes.ts").Call} */ { id, call, site, given }) => {
  try {
    process.send?.({ id, result: await calls[call]?.(site, given) });
  } catch (error) {
    process.send?.({ id, error: error instanceof Error ? error.stack : String(error) });
  }
});
process.once("disconnect", () => process.exit());
