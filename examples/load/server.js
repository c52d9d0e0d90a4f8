/**
 * A small API with one limit, to be put under load.
 *
 *     REDIS_URL  a Redis to count in; without it, this process's memory
 *     PORT       a port, 8080 by default
 */
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { apiKey, ip, rateLimit, tokenBucket } from "@tidegate/express";
import express from "express";

/** @import { Config } from "@tidegate/express" */
/** @import { Express, Request, Response } from "express" */

/** Stands for your own keys. Any other key counts by address, so that inventing some wins nothing. */
const KEYS = new Set(["load-a", "load-b"]);

/**
 * What it is given goes to the limiter.
 *
 * @param {Config<Request, Response>} [config]
 * @returns {{ app: Express, close: () => Promise<void> }}
 */
export function createApi(config = {}) {
  const limit = rateLimit({
    prefix: "tidegate-load",
    by: apiKey({ header: "x-api-key", verify: (key) => KEYS.has(key) }).or(ip()),
    policies: { burst: tokenBucket({ capacity: 10, refillPerSecond: 5 }) },
    ...config,
  });
  const app = express();
  app.use(limit);
  app.get("/", (_req, res) => {
    res.json({ hello: "world" });
  });
  return { app, close: () => limit.limiter.close() };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { REDIS_URL, PORT = "8080" } = process.env;
  const { app, close } = createApi({ redis: REDIS_URL || undefined });
  const server = app.listen(Number(PORT), "127.0.0.1");
  await once(server, "listening");
  console.log(`node autocannon.js http://127.0.0.1:${PORT}/`);
  const stop = () => {
    server.close();
    server.closeAllConnections();
    return close();
  };
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void stop());
}
