import {
  concurrency,
  createLimiter,
  fixedWindow,
  gcra,
  type Limiter,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";
import { type TestStore, testStore, virtualClock } from "@tidegate/core/testing";
import { describe, expect, it, onTestFinished, vi } from "vitest";

describe("a virtual clock", () => {
  it("begins with 2026 unless it is told", () => {
    expect(virtualClock().now()).toBe(1_767_225_600_000);
  });

  it.each<[start: string | number | Date, ms: number]>([
    ["2026-03-29", 1_774_742_400_000],
    ["2026-03-29T01:30:00+01:00", 1_774_744_200_000],
    ["2026-03-29T00:30Z", 1_774_744_200_000],
    ["2026-03-29T00:30:00.250Z", 1_774_744_200_250],
    [new Date(5), 5],
    [0, 0],
  ])("begins at %s", (start, ms) => {
    expect(virtualClock(start).now()).toBe(ms);
  });

  it.each<[by: string | number, ms: number]>([
    ["1m", 60_000],
    ["30 days", 2_592_000_000],
    [1, 1],
    [0, 0],
  ])("advances by %s", (by, ms) => {
    const clock = virtualClock(1000);
    clock.advance(by);
    expect(clock.now()).toBe(1000 + ms);
  });

  it("stands while real time passes, and is set to any moment", async () => {
    const clock = virtualClock();
    await new Promise((resolve) => setTimeout(resolve, 2));
    expect(clock.now()).toBe(1_767_225_600_000);
    clock.set("2030-01-01T00:00:00Z");
    expect(new Date(clock.now()).toISOString()).toBe("2030-01-01T00:00:00.000Z");
    clock.set("2026-06-01");
    expect(new Date(clock.now()).toISOString()).toBe("2026-06-01T00:00:00.000Z");
  });

  it.each<[by: unknown, shown: string]>([
    [-1, "-1"],
    [0.5, "0.5"],
    [Infinity, "Infinity"],
    ["soon", '"soon"'],
    ["-1m", '"-1m"'],
    [null, "null"],
    [undefined, "undefined"],
  ])("does not advance by %s", (by, shown) => {
    const clock = virtualClock(7);
    expect(() => clock.advance(by as number)).toThrow(
      expect.objectContaining({
        name: "ConfigError",
        code: "TIDEGATE_OPTION_INVALID",
        option: "clock.advance",
        value: by,
        message: `clock.advance: give whole milliseconds from 0 to ten years, or text such as "90s", "1m" or "1 day", got ${shown}.`,
      }),
    );
    expect(clock.now()).toBe(7);
  });

  it.each<[why: string, moment: unknown]>([
    ["it depends on the machine's time zone", "2026-01-01T00:00:00"],
    ["there is no such date", "2026-02-30"],
    ["there is no such hour", "2026-02-03T25:00:00Z"],
    ["it is no ISO text", "tomorrow"],
    ["it is before 1970", -1],
    ["it is too late for whole microseconds", "2300-01-01"],
    ["it is no whole number", 1.5],
    ["it is no date at all", new Date(Number.NaN)],
    ["it is nothing", null],
  ])("is not set to a moment when %s: %s", (_, moment) => {
    const refused = expect.objectContaining({ name: "ConfigError", code: "TIDEGATE_OPTION_INVALID" });
    expect(() => virtualClock(moment as string)).toThrow(refused);
    const clock = virtualClock(7);
    expect(() => clock.set(moment as string)).toThrow(refused);
    expect(clock.now()).toBe(7);
  });
});

function limiting(policy: Policy, start = "2026-01-01T00:00:00Z"): { store: TestStore; limiter: Limiter } {
  const store = testStore({ clock: virtualClock(start) });
  const limiter = createLimiter({ store, policies: { policy } });
  onTestFinished(() => limiter.close());
  return { store, limiter };
}

const admits = async (limiter: Limiter) => (await limiter.decide({ identity: "anna" })).allowed;

/** Spends all of it, and gives how many units that were. */
async function spend(limiter: Limiter): Promise<number> {
  for (let units = 0; ; units++) if (!(await admits(limiter))) return units;
}

describe("at the edge", () => {
  it.each<[name: string, policy: Policy, retryAfterMs: number]>([
    ["tokenBucket", tokenBucket({ capacity: 3, refillPerSecond: 0.5 }), 2000],
    ["gcra", gcra({ limit: 3, window: "1m" }), 20_000],
    // At 1:20 two thirds of the window before weigh: 2 units, and one more fits.
    ["slidingWindow", slidingWindow({ limit: 3, window: "1m" }), 80_000],
    ["slidingLog", slidingLog({ limit: 3, window: "1m" }), 60_000],
    ["fixedWindow", fixedWindow({ limit: 3, window: "1m" }), 60_000],
    ["fixedWindow of 30 days", fixedWindow({ limit: 3, window: "30 days" }), 2_592_000_000],
    ["slidingLog of 30 days", slidingLog({ limit: 3, window: "30 days" }), 2_592_000_000],
    ["gcra of 30 days", gcra({ limit: 3, window: "30 days" }), 864_000_000],
  ])("%s refuses until the last millisecond, and then admits", async (_, policy, retryAfterMs) => {
    const { store, limiter } = limiting(policy);
    expect(await spend(limiter)).toBe(3);
    expect((await limiter.decide({ identity: "anna" })).retryAfterMs).toBe(retryAfterMs);
    store.clock.advance(retryAfterMs - 1);
    expect((await limiter.decide({ identity: "anna" })).retryAfterMs).toBe(1);
    store.clock.advance(1);
    expect(await admits(limiter)).toBe(true);
  });

  it("a fixed window by the clock ends at whole minutes", async () => {
    const policy = fixedWindow({ limit: 3, window: "1m", align: "clock" });
    const { store, limiter } = limiting(policy, "2026-01-01T00:00:42.500Z");
    await spend(limiter);
    store.clock.advance(17_499);
    expect(await admits(limiter)).toBe(false);
    store.clock.advance(1);
    expect(await spend(limiter)).toBe(3);
  });

  it("a slot in flight ends with its lease, as that of a process that stands still", async () => {
    const { store, limiter } = limiting(concurrency({ limit: 3, leaseMs: 30_000 }));
    expect(await spend(limiter)).toBe(3);
    store.clock.advance(29_999);
    expect(await admits(limiter)).toBe(false);
    store.clock.advance(1);
    expect(await spend(limiter)).toBe(3);
  });

  it("a block ends when its time is over", async () => {
    const store = testStore();
    const limiter = createLimiter({ store, limit: 3, window: "1h", blocking: true });
    onTestFinished(() => limiter.close());
    await limiter.block("anna", 86_400_000, "test");
    store.clock.advance("23h");
    expect((await limiter.decide({ identity: "anna" })).retryAfterMs).toBe(3_600_000);
    store.clock.advance("1h");
    expect(await admits(limiter)).toBe(true);
  });

  it("an idempotency key is known for as long as it is kept", async () => {
    const store = testStore();
    const limiter = createLimiter({ store, limit: 3, window: "1h", idempotencyMs: 600_000 });
    onTestFinished(() => limiter.close());
    const replayed = async () =>
      (await limiter.decide({ identity: "anna", idempotencyKey: "order-1" })).replayed;
    expect(await replayed()).toBe(false);
    store.clock.advance(599_999);
    expect(await replayed()).toBe(true);
    store.clock.advance(1);
    expect(await replayed()).toBe(false);
  });
});

it("a clock that is set back keeps what was counted, and refuses for no longer than one window", async () => {
  const { store, limiter } = limiting(fixedWindow({ limit: 3, window: "1m" }));
  await spend(limiter);
  store.clock.set("2025-12-31T12:00:00Z");
  expect((await limiter.decide({ identity: "anna" })).retryAfterMs).toBe(60_000);
  store.clock.advance("1m");
  expect(await spend(limiter)).toBe(3);
});

describe("calendar windows", () => {
  it.each<[zone: string, window: string, at: string, end: string]>([
    // Clocks go forward at 2:00: the day has 23 hours.
    ["Europe/Berlin", "day", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"],
    // Clocks go back at 3:00: the day has 25 hours.
    ["Europe/Berlin", "day", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"],
    ["Europe/Berlin", "week", "2026-03-25T12:00:00+01:00", "2026-03-30T00:00:00+02:00"],
    ["Europe/Berlin", "month", "2026-10-01T00:00:00+02:00", "2026-11-01T00:00:00+01:00"],
    ["UTC", "month", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"],
  ])("in %s a %s with a request at %s ends at %s", async (timeZone, window, at, end) => {
    const { store, limiter } = limiting(fixedWindow({ limit: 3, window, timeZone }), at);
    expect(await spend(limiter)).toBe(3);
    const left = Date.parse(end) - Date.parse(at);
    expect((await limiter.decide({ identity: "anna" })).retryAfterMs).toBe(left);
    store.clock.advance(left - 1);
    expect(await admits(limiter)).toBe(false);
    store.clock.set(end);
    expect(await spend(limiter)).toBe(3);
  });

  it("a day of Berlin counts across the hour that comes twice", async () => {
    const policy = fixedWindow({ limit: 3, window: "day", timeZone: "Europe/Berlin" });
    const { store, limiter } = limiting(policy, "2026-10-25T02:30:00+02:00");
    expect(await admits(limiter)).toBe(true);
    store.clock.set("2026-10-25T02:30:00+01:00");
    expect(await spend(limiter)).toBe(2);
  });
});

it("a year of days goes by while every timer stands still", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { store, limiter } = limiting(fixedWindow({ limit: 3, window: "day", timeZone: "Europe/Berlin" }));
  let admitted = 0;
  for (let day = 0; day < 365; day++) {
    admitted += await spend(limiter);
    store.clock.advance("1 day");
  }
  expect(admitted).toBe(365 * 3);
});

describe("a store", () => {
  it("goes by a clock of one's own, such as Date", async () => {
    const store = testStore({ clock: Date });
    const limiter = createLimiter({ store, limit: 1, window: "1h" });
    onTestFinished(() => limiter.close());
    const before = Date.now();
    const { at } = await limiter.decide({ identity: "anna" });
    expect(at).toBeGreaterThanOrEqual(before);
    expect(at).toBeLessThanOrEqual(Date.now());
    expect(store.clock).toBe(Date);
  });

  it("shares a clock with another", async () => {
    const clock = virtualClock();
    const [one, other] = [testStore({ clock }), testStore({ clock })];
    clock.advance("1h");
    expect([one.clock.now(), other.clock.now()]).toEqual([clock.now(), clock.now()]);
  });

  it("moves what a process counts alone, and what it counts while the store fails", async () => {
    const store = testStore();
    const here = (limit: number) => fixedWindow({ limit, window: "1m", scope: "process" });
    const limiter = createLimiter({
      store,
      policies: { here: here(2), all: fixedWindow({ limit: 9, window: "1m" }) },
      onFailure: { local: { spare: fixedWindow({ limit: 1, window: "1m" }) } },
    });
    onTestFinished(() => limiter.close());
    const admits = async () => (await limiter.decide({ identity: "anna" })).allowed;
    expect([await admits(), await admits(), await admits()]).toEqual([true, true, false]);
    store.clock.advance("1m");
    store.fail("unavailable");
    expect([await admits(), await admits()]).toEqual([true, false]);
    store.clock.advance("1m");
    expect(await admits()).toBe(true);
  });

  it.each<[options: object, code: string, message: string]>([
    [
      { clock: 5 },
      "TIDEGATE_OPTION_INVALID",
      "testStore.clock: give virtualClock(), or Date for its time, got 5.",
    ],
    [
      { clock: null },
      "TIDEGATE_OPTION_INVALID",
      "testStore.clock: give virtualClock(), or Date for its time, got null.",
    ],
    [
      { time: virtualClock() },
      "TIDEGATE_OPTION_UNKNOWN",
      "testStore.time: there is no such option; known are clock, maxEntries, got an object (Object).",
    ],
    [
      { maxEntries: 0 },
      "TIDEGATE_OPTION_INVALID",
      "maxEntries: give a whole number from 1 to 16777215, got 0.",
    ],
  ])("is not made with %j", (options, code, message) => {
    expect(() => testStore(options)).toThrow(expect.objectContaining({ name: "ConfigError", code, message }));
  });
});
