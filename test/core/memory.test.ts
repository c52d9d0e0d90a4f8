import { spawnSync } from "node:child_process";
import {
  type Config,
  createLimiter,
  fixedWindow,
  memoryStore,
  slidingLog,
  type TidegateEvent,
  tokenBucket,
} from "@tidegate/core";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
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

  describe("when it is full", () => {
    const policies = { p: fixedWindow({ limit: 1, window: "1h" }) };

    /** A store of so many entries, whose clock stands still until it is moved. */
    function full(maxEntries: number, more: Partial<Config> = {}) {
      const clock = fakeClock();
      const store = memoryStore({ maxEntries, nowUs: clock.now });
      const limiter = createLimiter({ store, policies, ...more });
      onTestFinished(() => limiter.close());
      const admits = async (identity: string) => (await limiter.decide({ identity })).allowed;
      return { clock, store, limiter, admits };
    }

    it("lets go of what is soonest as if it had never been used", async () => {
      const { clock, store, admits } = full(4);
      for (const identity of ["a", "b", "c", "d"]) {
        expect(await admits(identity)).toBe(true);
        clock.advance(60_000);
      }
      expect(await admits("e")).toBe(true);
      expect(store.size).toBe(4);
      for (const kept of ["b", "c", "d", "e"]) expect([kept, await admits(kept)]).toEqual([kept, false]);
    });

    it("lets go of what ends soonest, whenever it was used", async () => {
      const { limiter } = full(2, { policies: { p: tokenBucket({ capacity: 100, refillPerSecond: 1 }) } });
      await limiter.decide({ identity: "much", cost: 90 });
      await limiter.decide({ identity: "little", cost: 10 });
      await limiter.decide({ identity: "new" });
      const left = async (identity: string) => (await limiter.peek({ identity })).verdicts[0]!.remaining;
      expect([await left("much"), await left("little")]).toEqual([10, 100]);
    });

    it("lets go of a refused one first when its time is over, and else only when there are no others", async () => {
      const { clock, admits } = full(4);
      for (const allowed of [true, false]) expect(await admits("attacker")).toBe(allowed);
      clock.advance(1_000_000);
      for (let i = 0; i < 50; i++) expect(await admits(`visitor-${i}`)).toBe(true);
      expect(await admits("attacker")).toBe(false);
      clock.advance(2_700_000);
      for (const identity of ["visitor-49", "visitor-48", "visitor-47"])
        expect(await admits(identity)).toBe(false);
      expect(await admits("new")).toBe(true);
      expect(await admits("visitor-49")).toBe(false);
    });

    it("counts all newcomers together, strictly, when nobody is left but refused ones; and warns once", async () => {
      const events: TidegateEvent[] = [];
      const { clock, store, admits } = full(3, { onEvent: (event) => events.push(event) });
      for (const identity of ["a", "b", "c"])
        for (const allowed of [true, false]) expect(await admits(identity)).toBe(allowed);
      expect(await admits("d")).toBe(true);
      for (const identity of ["d", "e", "f"])
        expect([identity, await admits(identity)]).toEqual([identity, false]);
      for (const identity of ["a", "b", "c"]) expect(await admits(identity)).toBe(false);
      expect(store.size).toBe(4);
      expect(events).toEqual([expect.objectContaining({ type: "warning", code: "TIDEGATE_MEMORY_FULL" })]);
      clock.advance(3_600_001);
      expect(await admits("e")).toBe(true);
      expect(await admits("f")).toBe(true);
      expect(events).toHaveLength(1);
    });

    it("may be asked by whoever hears that it is full", async () => {
      const asked: Promise<unknown>[] = [];
      const policies = {
        first: fixedWindow({ limit: 1, window: "1h" }),
        second: fixedWindow({ limit: 1, window: "1h" }),
      };
      const { limiter, admits } = full(2, {
        policies,
        onEvent: () => void asked.push(limiter.decide({ identity: "listener" })),
      });
      for (const allowed of [true, false]) expect(await admits("a")).toBe(allowed);
      const { allowed, verdicts } = await limiter.decide({ identity: "b" });
      expect([allowed, verdicts.map(({ remaining }) => remaining)]).toEqual([true, [0, 0]]);
      expect(asked).toHaveLength(1);
      expect(await asked[0]).toMatchObject({ allowed: false });
    });

    it("a newcomer's give-back is nobody else's unit", async () => {
      const { limiter, admits } = full(1, { policies: { p: fixedWindow({ limit: 2, window: "1h" }) } });
      for (const allowed of [true, true, false]) expect(await admits("a")).toBe(allowed);
      const decision = await limiter.decide({ identity: "b" });
      expect(await admits("c")).toBe(true);
      await limiter.settle(decision, "giveBack");
      expect(await admits("d")).toBe(false);
    });
  });

  it("keeps policies apart when one takes the other's place within a decision", async () => {
    const clock = fakeClock();
    const policies = {
      wide: fixedWindow({ limit: 10, window: "2h" }),
      narrow: fixedWindow({ limit: 2, window: "1h" }),
    };
    const limiter = createLimiter({ store: memoryStore({ maxEntries: 1, nowUs: clock.now }), policies });
    onTestFinished(() => limiter.close());
    for (const allowed of [true, true, false])
      expect((await limiter.decide({ identity: "x" })).allowed).toBe(allowed);
  });

  it("forgets to the millisecond what ends within one second", async () => {
    const clock = fakeClock();
    const store = memoryStore({ nowUs: clock.now });
    const limiter = createLimiter({ store, policies: { p: fixedWindow({ limit: 1, window: "1m" }) } });
    onTestFinished(() => limiter.close());
    const sizes = [];
    for (const identity of ["a", "b", "c"]) {
      await limiter.decide({ identity });
      clock.advance(10);
    }
    for (const ms of [59_969, 1, 9, 1, 10]) {
      clock.advance(ms);
      store.sweep();
      sizes.push(store.size);
    }
    expect(sizes).toEqual([3, 2, 2, 1, 0]);
  });

  it("forgets what has ended, by one timer that stops when nothing is left", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    const clock = fakeClock();
    const store = memoryStore({ nowUs: clock.now });
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
      store: memoryStore({ nowUs: clock.now }),
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

  it("lends its clock to what a process counts alone", async () => {
    const clock = fakeClock();
    const alone = fixedWindow({ limit: 1, window: "1h", scope: "process" });
    const shared = fixedWindow({ limit: 9, window: "1m" });
    const limiter = createLimiter({
      store: memoryStore({ nowUs: clock.now }),
      policies: { alone, shared },
    });
    onTestFinished(() => limiter.close());
    const allowed = [];
    for (const ms of [0, 3_599_999, 1]) {
      clock.advance(ms);
      allowed.push((await limiter.decide({ identity: "x" })).allowed);
    }
    expect(allowed).toEqual([true, false, true]);
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
