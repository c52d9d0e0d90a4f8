/**
 * A small API, made so that a test can give it a store of its own: searches by key, and logins that fail closed.
 *
 *     npm test           vitest: limits.test.js
 *     npm run test:node  node:test: limits.node-test.js
 */
import { apiKey, fixedWindow, ip, rateLimit, slidingLog, tokenBucket } from "@tidegate/express";
import express from "express";

const KEYS = new Set(["anna", "ben"]);

/**
 * @param {Pick<import("@tidegate/express").Config, "redis" | "store" | "onEvent">} where it counts: `{ redis }` in production,
 *   `{ store: testStore() }` in a test
 * @returns {import("express").Express}
 */
export function createApp(where) {
  const app = express();
  const limit = rateLimit({
    ...where,
    by: apiKey({ header: "x-api-key", verify: (key) => KEYS.has(key) }).or(ip()),
    policies: {
      burst: tokenBucket({ capacity: 3, refillPerSecond: 1 }),
      monthly: fixedWindow({ limit: 5, window: "month", timeZone: "Europe/Berlin" }),
    },
    routes: {
      "POST /login": {
        policies: { login: slidingLog({ limit: 2, window: "15m", by: ip() }) },
        onFailure: "closed",
      },
      "GET /health": false,
    },
  });
  app.get("/health", (_req, res) => {
    res.json(limit.limiter.health());
  });
  app.use(limit);
  app.get("/search", (_req, res) => {
    res.json({ found: [] });
  });
  app.post("/login", (_req, res) => {
    res.json({ hello: "anna" });
  });
  return app;
}
