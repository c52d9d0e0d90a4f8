import { spawnSync } from "node:child_process";
import { createLimiter, fixedWindow, memoryStore, slidingLog, tokenBucket } from "@tidegate/core";
import { afterEach, describe, expect, it, vi } from "vitest";
import { fakeClock } from "../harness/clock.ts";

afterEach(() => vi.useRealTimers());

describe("the memory store", () => {
  it("keeps no more than it may", async () => {
    const store = memoryStore({ maxEntries: 100 });
    const limiter = createLimiter({ store, limit: 5, window: "1h" });
    for (let i = 0; i < 1000; i++) await limiter.decide({ identity: i });
    expect(store.size).toBe(100);
    await limiter.close();
  });

  it("lets go of whoever came least lately, and of a refused one only when there are no others", async () => {
    const store = memoryStore({ maxEntries: 4 });
    const limiter = createLimiter({ store, policies: { p: fixedWindow({ limit: 1, window: "1h" }) } });
    const admits = async (identity: string) => (await limiter.decide({ identity })).allowed;
    expect(await admits("attacker")).toBe(true);
    expect(await admits("attacker")).toBe(false);
    for (let i = 0; i < 50; i++) expect(await admits(`visitor-${i}`)).toBe(true);
    expect(await admits("attacker")).toBe(false);
    expect(await admits("visitor-49")).toBe(false);
    expect(await admits("visitor-0")).toBe(true);
    await limiter.close();
  });

  it("still admits newcomers when all it keeps are refused", async () => {
    const store = memoryStore({ maxEntries: 3 });
    const limiter = createLimiter({ store, policies: { p: fixedWindow({ limit: 1, window: "1h" }) } });
    for (const identity of ["a", "b", "c"]) for (let i = 0; i < 2; i++) await limiter.decide({ identity });
    expect((await limiter.decide({ identity: "d" })).allowed).toBe(true);
    expect(store.size).toBe(3);
    await limiter.close();
  });

  it("forgets what has ended, by one timer that stops when nothing is left", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    const clock = fakeClock();
    const store = memoryStore({ clock: clock.now });
    const limiter = createLimiter({ store, policies: { p: slidingLog({ limit: 5, window: "1m" }) } });
    expect(vi.getTimerCount()).toBe(0);
    for (let i = 0; i < 100; i++) await limiter.decide({ identity: i });
    expect([store.size, vi.getTimerCount()]).toEqual([100, 1]);
    clock.advance(61_000);
    vi.advanceTimersByTime(30_000);
    expect([store.size, vi.getTimerCount()]).toEqual([0, 0]);
    await limiter.close();
  });

  it("keeps a window of 30 days and of 400 days, without a timer of that length", async () => {
    const warned = vi.fn();
    process.on("warning", warned);
    const clock = fakeClock();
    const limiter = createLimiter({
      store: memoryStore({ clock: clock.now }),
      policies: {
        month: fixedWindow({ limit: 1, window: "30d" }),
        long: fixedWindow({ limit: 2, window: "400d" }),
      },
    });
    await limiter.decide({ identity: "x" });
    clock.advance(1_000);
    expect((await limiter.decide({ identity: "x" })).allowed).toBe(false);
    clock.advance(31 * 86_400_000);
    const { allowed, verdicts } = await limiter.decide({ identity: "x" });
    expect([allowed, verdicts.map(({ remaining }) => remaining)]).toEqual([true, [0, 0]]);
    await limiter.close();
    process.off("warning", warned);
    expect(warned).not.toHaveBeenCalled();
  });

  it("does not follow the wall clock", async () => {
    const limiter = createLimiter({ policies: { p: tokenBucket({ capacity: 1, refillPerSecond: 0.001 }) } });
    await limiter.decide({ identity: "x" });
    const real = Date.now;
    Date.now = () => real() + 86_400_000;
    expect((await limiter.decide({ identity: "x" })).allowed).toBe(false);
    Date.now = real;
    await limiter.close();
  });

  it("holds no process: one that made a limiter and used it ends by itself", () => {
    const program = `
      import { createLimiter } from "@tidegate/core";
      const limiter = createLimiter({ limit: 1, window: "1m" });
      await limiter.decide({ identity: "x" });`;
    const { status } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
      timeout: 5_000,
    });
    expect(status).toBe(0);
  });
});
