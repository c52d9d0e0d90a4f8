/** A user's test under Jest, in ESM: by Jest's own globals, and with our matchers. */
import * as core from "@tidegate/core";
import { matchers, testStore } from "@tidegate/core/testing";
import { rateLimit, slidingLog, TidegateError } from "@tidegate/express";
import express from "express";
import { once } from "node:events";

const { test, expect } = /** @type {any} */ (globalThis);

expect.extend(matchers);

test("limits a burst", async () => {
  const store = testStore();
  const app = express();
  app.use(rateLimit({ store, policies: { burst: slidingLog({ limit: 2, window: "1h" }) } }));
  app.get("/", (_, res) => void res.send("hello"));
  const server = app.listen(0);
  // A test that fails must end, too.
  server.unref();
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const visit = () => fetch(`http://127.0.0.1:${port}/`);
  expect(await visit()).toBeAdmitted({ remaining: 1 });
  expect(await visit()).toBeAdmitted({ remaining: 0 });
  expect(await visit()).toBeLimited({ policy: "burst", retryAfter: 3600 });
  store.clock.advance("61m");
  expect(await visit()).toBeAdmitted({ remaining: 1 });
});

test("has one core", () => {
  expect(typeof rateLimit).toBe("function");
  expect(TidegateError).toBe(core.TidegateError);
  expect(() => rateLimit({ limit: -1, window: "1m" })).toThrow(core.ConfigError);
});

test("says what is missing for a URL", () => {
  const make = () => rateLimit({ redis: "redis://127.0.0.1:1", limit: 1, window: "1m" });
  expect(make).toThrow(expect.objectContaining({ code: "TIDEGATE_CLIENT_MISSING" }));
});
