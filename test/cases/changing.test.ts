/**
 * P26: settings that change while state is there. A window or what is in flight remembers what was
 * used; a bucket remembers what is left (tokenBucket) or when it will be whole (gcra).
 */
import {
  concurrency,
  fixedWindow,
  gcra,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";
import { describe, expect, it } from "vitest";
import { type StoreKind, storeKinds, useRedis } from "../harness/http.ts";
import { admitted, everything, limiterOf } from "./asking.ts";

const redis = useRedis();
const { clock } = redis;
const HOUR = 3_600_000;
const MINUTE = 60_000;

/** Limiters that follow each other under one name, as after deployments. */
function deployed(kind: StoreKind) {
  const store = redis.storeOf(kind);
  return (policy: Policy) => limiterOf({ store, policies: { quota: policy } });
}

/** What was used counts on under any limit. */
const counting: [string, (limit: number) => Policy][] = [
  ["slidingWindow", (limit) => slidingWindow({ limit, window: HOUR })],
  ["slidingLog", (limit) => slidingLog({ limit, window: HOUR })],
  ["fixedWindow", (limit) => fixedWindow({ limit, window: HOUR })],
  ["fixedWindow by the clock", (limit) => fixedWindow({ limit, window: HOUR, align: "clock" })],
  ["fixedWindow by the calendar", (limit) => fixedWindow({ limit, window: "day" })],
  ["concurrency", (limit) => concurrency({ limit })],
];

const buckets: [string, (limit: number) => Policy][] = [
  ["tokenBucket", (limit) => tokenBucket({ capacity: limit, refillPerSecond: (limit * 1000) / HOUR })],
  ["gcra", (limit) => gcra({ limit, window: HOUR })],
];

const onBoth = <T extends readonly unknown[]>(rows: readonly T[]) =>
  storeKinds.flatMap((kind) => rows.map((row) => [kind, ...row] as const));

describe("P26 a limit that is raised", () => {
  it.each(onBoth(counting))(
    "P26 T1 %s, %s: 50 attempts at 10, raised to 20: ten more, and the 11th is refused",
    async (kind, _, make) => {
      const deploy = deployed(kind);
      expect(await admitted(deploy(make(10)), 50)).toBe(10);
      const raised = deploy(make(20));
      expect([await admitted(raised, 10), await admitted(raised, 1)]).toEqual([10, 0]);
    },
  );

  it.each(onBoth(buckets))(
    "P26 T1 %s, %s: an empty bucket stays empty when it becomes a larger one, and fills at the new rate at once",
    async (kind, _, make) => {
      const deploy = deployed(kind);
      expect(await admitted(deploy(make(10)), 50)).toBe(10);
      const raised = deploy(make(20));
      expect(await raised.decide({ identity: "x" })).toMatchObject({
        allowed: false,
        retryAfterMs: HOUR / 20,
      });
      clock.advance(HOUR / 2);
      expect(await admitted(raised, 50)).toBe(10);
      clock.advance(HOUR);
      expect(await admitted(raised, 50)).toBe(20);
    },
  );
});

describe("P26 a limit that is lowered", () => {
  it.each(onBoth(counting))(
    "P26 T2 %s, %s: from 20 to 5 with 8 used: refused, and nothing remains",
    async (kind, _, make) => {
      const deploy = deployed(kind);
      expect(await admitted(deploy(make(20)), 8)).toBe(8);
      const { allowed, verdicts, degraded } = await deploy(make(5)).decide({ identity: "x" });
      expect([allowed, verdicts[0]!.remaining, verdicts[0]!.limit, degraded]).toEqual([
        false,
        0,
        5,
        undefined,
      ]);
    },
  );

  it.each(onBoth(buckets))(
    "P26 T2 %s, %s: from 20 to 5 with 8 used: no more than the smaller bucket holds",
    async (kind, _, make) => {
      const deploy = deployed(kind);
      expect(await admitted(deploy(make(20)), 8)).toBe(8);
      const lowered = deploy(make(5));
      expect(await admitted(lowered, 20)).toBeLessThanOrEqual(5);
      expect((await lowered.decide({ identity: "x" })).verdicts[0]!.remaining).toBe(0);
    },
  );

  it.each(onBoth(everything(20)))(
    "P26 T2 %s, %s: spent, then lowered: refused, and let in again within one window of the old limit",
    async (kind, name, old) => {
      const deploy = deployed(kind);
      expect(await admitted(deploy(old), 25)).toBe(20);
      const lowered = deploy(new Map(everything(5)).get(name)!);
      expect(await admitted(lowered, 5)).toBe(0);
      // A log's stamps are 1 µs apart where several units came at once; the calendar's window is a day.
      clock.advance(
        (name === "fixedWindow by the calendar" ? 24 : name === "slidingWindow" ? 2 : 1) * HOUR + 1,
      );
      await redis.expire();
      expect(await admitted(lowered, 1)).toBe(1);
    },
  );
});

const byWindow: [string, (windowMs: number) => Policy][] = [
  ["tokenBucket", (ms) => tokenBucket({ capacity: 10, refillPerSecond: 10_000 / ms })],
  ["gcra", (window) => gcra({ limit: 10, window })],
  ["slidingWindow", (window) => slidingWindow({ limit: 10, window })],
  ["slidingLog", (window) => slidingLog({ limit: 10, window })],
  ["fixedWindow", (window) => fixedWindow({ limit: 10, window })],
  ["fixedWindow by the clock", (window) => fixedWindow({ limit: 10, window, align: "clock" })],
  ["concurrency", (leaseMs) => concurrency({ limit: 10, leaseMs })],
];

describe("P26 a window that is changed", () => {
  it.each(
    onBoth(byWindow).flatMap((row) => [
      [...row, "an hour", HOUR, "a minute", MINUTE] as const,
      [...row, "a minute", MINUTE, "an hour", HOUR] as const,
    ]),
  )(
    "P26 T3 %s, %s, from $3 to $5: no error, one fresh window at most, and nobody is locked out for longer than a new one",
    async (kind, name, make, _, before, __, after) => {
      const deploy = deployed(kind);
      expect(await admitted(deploy(make(before)), 12)).toBe(10);
      clock.advance(10);
      const changed = deploy(make(after));
      expect(await admitted(changed, 30)).toBeLessThanOrEqual(10);
      expect((await changed.decide({ identity: "x" })).allowed).toBe(false);
      // 1 ms is Redis's rounding. A unit of a sliding window comes back a tenth of it later.
      clock.advance(after * (name === "slidingWindow" ? 1.1 : 1) + 1);
      await redis.expire();
      expect(await admitted(changed, 1)).toBe(1);
    },
  );

  const calendar: [string, Policy][] = [
    ["a day", fixedWindow({ limit: 10, window: "day" })],
    ["a week", fixedWindow({ limit: 10, window: "week" })],
    ["a month", fixedWindow({ limit: 10, window: "month", timeZone: "Asia/Kathmandu" })],
    ["an hour from the first", fixedWindow({ limit: 10, window: HOUR })],
    ["an hour by the clock", fixedWindow({ limit: 10, window: HOUR, align: "clock" })],
    ["90 days from the first", fixedWindow({ limit: 10, window: "90d" })],
  ];
  it.each(onBoth(calendar.flatMap((a) => calendar.filter((b) => b !== a).map((b) => [...a, ...b] as const))))(
    "P26 T3 %s, fixedWindow from %s to $3: no error, and one fresh window at most",
    async (kind, _, a, __, b) => {
      const deploy = deployed(kind);
      expect(await admitted(deploy(a), 12)).toBe(10);
      clock.advance(10);
      expect(await admitted(deploy(b), 30)).toBeLessThanOrEqual(10);
      expect(await admitted(deploy(a), 30)).toBeLessThanOrEqual(10);
    },
  );
});

describe("P26 an algorithm that is changed", () => {
  const all = everything(10);
  it.each(onBoth(all.flatMap((a) => all.filter((b) => b !== a).map((b) => [...a, ...b] as const))))(
    "P26 T4 %s, from %s to $3: no error on the old state, and one fresh window at most",
    async (kind, _, before, __, after) => {
      const deploy = deployed(kind);
      expect(await admitted(deploy(before), 12)).toBe(10);
      const changed = deploy(after);
      expect(await admitted(changed, 30)).toBeLessThanOrEqual(10);
      expect((await changed.decide({ identity: "x" })).allowed).toBe(false);
      expect(changed.events).toEqual([]);
    },
  );
});
