/**
 * A GraphQL API whose requests cost what they ask for, and one of whose fields has a limit of its own.
 *
 *     REDIS_URL  a Redis to count in; without it, this process's memory
 *     PORT       a port, 8080 by default
 */
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { createLimiter, fixedWindow, ipOf, rateLimit, tokenBucket } from "@tidegate/express";
import express from "express";
import { buildSchema, execute, GraphQLError } from "graphql";
import { operationOf } from "./operations.js";

/** @import { Config, Identity, Limiter, Policy } from "@tidegate/express" */
/** @import { Operation } from "./operations.js" */
/** @import { Express, RequestHandler } from "express" */

/** @typedef {{ caller: Identity, codes: Limiter }} Context */

// `sendOtp` may be null: the error of a field that may not takes its neighbours' answers with it.
const schema = buildSchema(`
  type Query { me: Caller!, books(first: Int! = 10): [Book!]! }
  type Mutation { sendOtp(phone: String!): Boolean }
  type Caller { id: ID! }
  type Book { title: String! }
`);

const BOOKS = Array.from({ length: 1000 }, (_, i) => ({ title: `Book ${i + 1}` }));

const resolvers = {
  /** @type {(args: unknown, context: Context) => unknown} */
  me: (_, { caller }) => ({ id: `${caller.kind}:${caller.value}` }),
  /** @type {(args: { first: number }) => unknown} */
  books: ({ first }) => BOOKS.slice(0, Math.max(0, first)),
  /** @type {(args: { phone: string }, context: Context) => Promise<boolean>} */
  async sendOtp(_, { caller, codes }) {
    const { allowed, retryAfterMs } = await codes.decide({ identity: caller });
    if (!allowed) throw limited(retryAfterMs);
    return true; // The place to send the code.
  },
};

/** @param {number | null} retryAfterMs */
function limited(retryAfterMs) {
  const retryAfterSeconds = retryAfterMs === null ? null : Math.ceil(retryAfterMs / 1000);
  const extensions = { code: "RATE_LIMITED", retryAfterSeconds };
  return new GraphQLError("Too many codes were asked for.", { extensions });
}

/**
 * What it is given beside the two policies goes to both limiters.
 *
 * @param {Config & { complexity?: Policy, sendOtp?: Policy }} [options]
 * @returns {{ app: Express, close: () => Promise<unknown> }}
 */
export function createApi({
  complexity = tokenBucket({ capacity: 200, refillPerSecond: 20 }),
  sendOtp = fixedWindow({ limit: 1, window: "1m" }),
  ...config
} = {}) {
  const settings = { prefix: "tidegate-graphql", ...config };
  const limit = rateLimit({ ...settings, policies: { complexity }, cost: costOf });
  const codes = createLimiter({ ...settings, policies: { sendOtp } });
  const app = express();
  // What a request costs stands in its body, so the body is read first; that much is free, and kept small.
  app.post("/graphql", express.json({ limit: "20kb" }), readOperations, limit, answerWith(codes));
  return { app, close: () => Promise.all([limit.limiter.close(), codes.close()]) };
}

/** @type {RequestHandler} */
const readOperations = (req, res, next) => {
  res.locals.isBatch = Array.isArray(req.body);
  req.body = [req.body].flat().map((asked) => operationOf(schema, asked));
  next();
};

/**
 * All operations of a request together: it is let in whole, or not at all. An empty batch is not free.
 *
 * @param {{ body: Operation[] }} request
 */
const costOf = ({ body }) => body.reduce((sum, { cost }) => sum + cost, 0) || 1;

/**
 * @param {Limiter} codes
 * @returns {RequestHandler<{}, unknown, Operation[]>}
 */
function answerWith(codes) {
  return async ({ ip, body }, res) => {
    const contextValue = { caller: ipOf(ip), codes };
    const answers = await Promise.all(body.map((operation) => run(operation, contextValue)));
    res.json(res.locals.isBatch ? answers : answers[0]);
  };
}

/**
 * @param {Operation} operation
 * @param {Context} contextValue
 */
async function run(operation, contextValue) {
  if ("error" in operation) return { errors: [operation.error] };
  return execute({ schema, rootValue: resolvers, contextValue, ...operation.runnable });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { REDIS_URL, PORT = "8080" } = process.env;
  const { app, close } = createApi({ redis: REDIS_URL || undefined });
  const server = app.listen(Number(PORT), "127.0.0.1");
  await once(server, "listening");
  console.log(`curl http://127.0.0.1:${PORT}/graphql --json '{"query":"{ books(first: 3) { title } }"}'`);
  const stop = () => {
    server.close();
    server.closeAllConnections();
    return close();
  };
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void stop());
}
