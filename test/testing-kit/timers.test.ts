/** What goes by timers and not by the store's clock, under the fake timers of vitest and of node:test. */
import { mock } from "node:test";
import { concurrency, createLimiter, fixedWindow, slidingLog } from "@tidegate/core";
import { expectAdmitted, expectLimited, testStore } from "@tidegate/core/testing";
import { rateLimit } from "@tidegate/express";
import express from "express";
import request from "supertest";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";

/** All but what HTTP itself needs. */
const TIMES = ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date", "performance"] as const;

describe("under vitest's fake timers, with a store that goes by Date,", () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: Date.UTC(2026, 0, 1), toFake: [...TIMES] });
    onTestFinished(() => void vi.useRealTimers());
  });

  it("wait() resolves when its time has come, and not before", async () => {
    const limiter = createLimiter({
      store: testStore({ clock: Date }),
      policies: { jobs: slidingLog({ limit: 1, window: "1m" }) },
    });
    const order: string[] = [];
    const started = () => new Date().toISOString().slice(14, 19);
    await limiter.decide({ identity: "anna" });
    const first = limiter.wait({ identity: "anna" }).then(() => order.push(`first ${started()}`));
    const second = limiter.wait({ identity: "anna" }).then(() => order.push(`second ${started()}`));
    await vi.advanceTimersByTimeAsync(59_999);
    expect(order).toEqual([]);
    await vi.advanceTimersByTimeAsync(60_001);
    await Promise.all([first, second]);
    expect(order).toEqual(["first 01:00", "second 02:00"]);
    await limiter.close();
  });

  it("wait() gives up after maxWaitMs", async () => {
    const limiter = createLimiter({
      store: testStore({ clock: Date }),
      policies: { slots: concurrency({ limit: 1, leaseMs: 60_000 }) },
    });
    await limiter.decide({ identity: "anna" });
    const waiting = expect(limiter.wait({ identity: "anna", maxWaitMs: 5000 })).rejects.toMatchObject({
      code: "TIDEGATE_WAIT_TIMEOUT",
    });
    await vi.advanceTimersByTimeAsync(6000);
    await waiting;
    await limiter.close();
  });

  it("a limit of this process goes by the same time", async () => {
    const limiter = createLimiter({
      store: testStore({ clock: Date }),
      policies: { here: fixedWindow({ limit: 1, window: "1m", scope: "process" }) },
    });
    const admits = async () => (await limiter.decide({ identity: "anna" })).allowed;
    expect([await admits(), await admits()]).toEqual([true, false]);
    vi.advanceTimersByTime(59_999);
    expect(await admits()).toBe(false);
    vi.advanceTimersByTime(1);
    expect(await admits()).toBe(true);
    await limiter.close();
  });

  it("the rule local counts by the same time", async () => {
    const store = testStore({ clock: Date });
    const onFailure = { local: { here: fixedWindow({ limit: 1, window: "1m" }) } };
    const limiter = createLimiter({ store, limit: 9, window: "1m", onFailure });
    const admits = async () => (await limiter.decide({ identity: "anna" })).allowed;
    store.fail("unavailable");
    expect([await admits(), await admits()]).toEqual([true, false]);
    vi.advanceTimersByTime(60_000);
    expect(await admits()).toBe(true);
    await limiter.close();
  });

  it("requests come by HTTP as ever", async () => {
    const app = express();
    app.use(rateLimit({ store: testStore({ clock: Date }), limit: 1, window: "1m" }));
    app.get("/", (_, res) => void res.send("hello"));
    const visit = () => request(app).get("/");
    expectAdmitted(await visit(), { remaining: 0 });
    expectLimited(await visit());
    vi.advanceTimersByTime(120_000);
    expectAdmitted(await visit());
  });
});

it("under vitest's fake timers a virtual clock stands: it and they are moved each for itself", async () => {
  vi.useFakeTimers({ toFake: [...TIMES] });
  onTestFinished(() => void vi.useRealTimers());
  const store = testStore();
  const limiter = createLimiter({ store, policies: { jobs: slidingLog({ limit: 1, window: "1m" }) } });
  await limiter.decide({ identity: "anna" });
  let isIn = false;
  const waiting = limiter.wait({ identity: "anna" }).then(() => (isIn = true));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(isIn).toBe(false); // It woke up, asked again, and was told the same wait.
  store.clock.advance("1m");
  await vi.advanceTimersByTimeAsync(60_000);
  await waiting;
  await limiter.close();
});

it("under the timers of node:test, with a store that goes by Date, wait() resolves when its time has come", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: Date.UTC(2026, 0, 1) });
  onTestFinished(() => mock.timers.reset());
  const store = testStore({ clock: Date });
  const limiter = createLimiter({ store, policies: { jobs: slidingLog({ limit: 1, window: "1m" }) } });
  await limiter.decide({ identity: "anna" });
  let isIn = false;
  const waiting = limiter.wait({ identity: "anna" }).then(() => (isIn = true));
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  await turn();
  mock.timers.tick(59_999);
  await turn();
  expect(isIn).toBe(false);
  mock.timers.tick(1);
  await waiting;
  await limiter.close();
});
