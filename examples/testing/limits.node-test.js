/** The same with nothing but Node: its test runner, and assertions that need no framework. */
import { strictEqual } from "node:assert/strict";
import { test } from "node:test";
import {
  expectAdmitted,
  expectLimited,
  expectUnavailable,
  rateLimitOf,
  testStore,
} from "@tidegate/core/testing";
import { createApp } from "./app.js";

/**
 * The API on a port, until the test is over.
 *
 * @param {import("node:test").TestContext} t
 */
async function serving(t) {
  const store = testStore();
  const server = createApp({ store, onEvent: () => {} }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const port = typeof address === "object" ? address?.port : undefined;
  const login = () => fetch(`http://127.0.0.1:${port}/login`, { method: "POST" });
  return { store, login };
}

await test("refuses the third login within 15 minutes", async (t) => {
  const { store, login } = await serving(t);
  expectAdmitted(await login(), { status: 200, remaining: 1 });
  store.clock.advance("5m");
  expectAdmitted(await login(), { remaining: 0 });
  const refusal = await login();
  expectLimited(refusal, { policy: "login", retryAfter: 600 });
  strictEqual(rateLimitOf(refusal).policies[0]?.windowSeconds, 900);
  store.clock.advance("10m");
  expectAdmitted(await login());
});

await test("answers 503 to logins while Redis is away", async (t) => {
  const { store, login } = await serving(t);
  store.fail("connection");
  expectUnavailable(await login(), { retryAfter: 5 });
  store.heal();
  expectAdmitted(await login());
});
