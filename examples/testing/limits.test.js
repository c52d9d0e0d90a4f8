/** The limits of the API, through its front door. Months go by, and nothing sleeps. */
import { matchers, testStore, virtualClock } from "@tidegate/core/testing";
import request from "supertest";
import { beforeEach, expect, it } from "vitest";
import { createApp } from "./app.js";

expect.extend(matchers);

const clock = virtualClock();
const store = testStore({ clock });
/** @type {string[]} */
const events = [];
const app = createApp({ store, onEvent: ({ type }) => events.push(type) });

beforeEach(() => {
  clock.set("2026-03-01T00:00:00+01:00");
  store.clear();
  events.length = 0;
});

const search = (key = "anna") => request(app).get("/search").set("x-api-key", key);
const login = () => request(app).post("/login");

it("lets three searches in at once, and one more each second", async () => {
  for (const remaining of [2, 1, 0]) expect(await search()).toBeAdmitted({ remaining });
  expect(await search()).toBeLimited({ policy: "burst", retryAfter: 1 });
  clock.advance("1s");
  expect(await search()).toBeAdmitted();
});

it("counts each key for itself, and keys that nobody knows by address", async () => {
  for (let i = 0; i < 3; i++) await search("anna");
  expect(await search("anna")).toBeLimited();
  expect(await search("ben")).toBeAdmitted({ remaining: 2 });
  for (let i = 0; i < 3; i++) await search(`invented-${i}`);
  expect(await search("invented-again")).toBeLimited({ policy: "burst" });
});

it("gives five searches a month, until midnight in Berlin", async () => {
  for (let i = 0; i < 5; i++) {
    expect(await search()).toBeAdmitted();
    clock.advance("1 day");
  }
  expect(await search()).toBeLimited({ policy: ["monthly"] });
  clock.set("2026-03-31T23:59:59+02:00");
  expect(await search()).toBeLimited({ retryAfter: 1 });
  clock.advance("1s");
  expect(await search()).toHaveRemaining(4, "monthly");
});

it("answers 503 to logins while Redis is away, and lets searches pass", async () => {
  store.fail("connection");
  expect(await login()).toBeUnavailable({ retryAfter: 5 });
  expect(await search()).toBeAdmitted({ remaining: null });
  expect((await request(app).get("/health")).body).toMatchObject({ state: "degraded" });
  store.heal();
  expect(await login()).toBeAdmitted({ remaining: 1 });
  expect(events).toEqual(["storeError", "degraded", "degraded", "recovered"]);
});

it("asks no Redis about its health page", async () => {
  await request(app).get("/health");
  expect(store.calls).toEqual([]);
});

it("refuses the third login within 15 minutes", async () => {
  await login();
  clock.advance("5m");
  await login();
  expect(await login()).toBeLimited({ policy: "login", retryAfter: 600 });
  clock.advance("10m");
  expect(await login()).toBeAdmitted({ remaining: 0 });
});
