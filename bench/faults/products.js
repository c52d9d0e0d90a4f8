/** The limiters that faults are thrown at: how each is set, and where it counts. */

/** @typedef {import("ioredis").ChainableCommander} Pipeline */

/**
 * @typedef {object} Product
 * @property {string} name
 * @property {string} app the file that makes an application with it
 * @property {string} options what it is set to, besides the limit and who is counted
 * @property {(pipeline: Pipeline, id: string) => Pipeline} read asks for what one visitor was charged
 * @property {(reply: unknown) => number} units in the reply; 0 where there is no key
 */

const BY_COUNT = { units: (/** @type {unknown} */ reply) => Number(reply ?? 0) };

/** What the READMEs of several show for the client. */
const CLIENT = "client: `connectTimeout: 500`, `maxRetriesPerRequest: 1`";

/** @type {Pick<Product, "read" | "units">} */
const OURS = {
  read: (pipeline, id) => pipeline.getBuffer(`rl:{id:${id}}:default:sw`),
  // Number of the window, count in it, count in the one before: see lua/README.md.
  units: (reply) => (Buffer.isBuffer(reply) ? reply.readUInt32LE(4) + reply.readUInt32LE(8) : 0),
};

/** @type {Product[]} */
export const products = [
  { name: "tidegate", app: "tidegate", options: "defaults", ...OURS },
  {
    name: "tidegate, shared connection",
    app: "tidegate-shared",
    options: "`shareConnection: true`; client: defaults",
    ...OURS,
  },
  {
    name: "express-rate-limit + rate-limit-redis",
    app: "express-rate-limit",
    options: `\`passOnStoreError: true\`; ${CLIENT}`,
    read: (pipeline, id) => pipeline.get(`rl:${id}`),
    ...BY_COUNT,
  },
  {
    name: "@fastify/rate-limit",
    app: "fastify-rate-limit",
    options: `\`skipOnError: true\`; ${CLIENT}`,
    read: (pipeline, id) => pipeline.get(`fastify-rate-limit-${id}`),
    ...BY_COUNT,
  },
  {
    name: "koa-ratelimit",
    app: "koa-ratelimit",
    options: `none that would help; ${CLIENT}`,
    read: (pipeline, id) => pipeline.zcard(`limit:${id}`),
    ...BY_COUNT,
  },
  {
    name: "rate-limiter-flexible",
    app: "rate-limiter-flexible",
    options:
      "`insuranceLimiter` in memory, `rejectIfRedisNotReady`, `inMemoryBlockOnConsumed`; client: `enableOfflineQueue: false`",
    read: (pipeline, id) => pipeline.get(`rlflx:${id}`),
    ...BY_COUNT,
  },
];
