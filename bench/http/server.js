/** An application in a process of its own: `node server.js <framework> <limiter> <Redis URL>`. */
import { answerQuestions } from "../lib/child.js";
import { serve as express } from "./express.js";
import { serve as fastify } from "./fastify.js";
import { serve as koa } from "./koa.js";
import { serve as nest } from "./nest.js";

/**
 * @typedef {object} State
 * @property {number} port
 * @property {number} cpu what the process has used, µs
 * @property {number} degraded decisions made without Redis
 */

const [framework, limiter, redis] = /** @type {[Framework, import("./limits.js").Limiter, string]} */ (
  process.argv.slice(2)
);

/** @typedef {keyof typeof frameworks} Framework */
const frameworks = { Express: express, Fastify: fastify, Koa: koa, Nest: nest };

let degraded = 0;
const server = await frameworks[framework](limiter, redis, ({ type }) => {
  if (type === "degraded") degraded++;
});
const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());

answerQuestions(() => {
  const { user, system } = process.cpuUsage();
  return /** @type {State} */ ({ port, cpu: user + system, degraded });
});
