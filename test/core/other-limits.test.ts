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

const MAKERS: Record<string, (limit: number) => Policy> = {
  fixedWindow: (limit) => fixedWindow({ limit, window: "1m" }),
  "fixedWindow by the clock": (limit) => fixedWindow({ limit, window: "1m", align: "clock" }),
  "fixedWindow of a calendar": (limit) => fixedWindow({ limit, window: "month", timeZone: "Europe/Berlin" }),
  slidingWindow: (limit) => slidingWindow({ limit, window: "1m" }),
  slidingLog: (limit) => slidingLog({ limit, window: "1m" }),
  tokenBucket: (limit) => tokenBucket({ capacity: limit, refillPerSecond: limit / 4 }),
  gcra: (limit) => gcra({ limit, window: "1m" }),
  concurrency: (limit) => concurrency({ limit, leaseMs: 5000 }),
};

describe.each(Object.entries(MAKERS))("%s with another limit", (_, make) => {
  it.each([1, 7, 20, 200])("counts as if it had been made with %d", (limit) => {
    const other = make(20).ofLimit(limit);
    const meant = make(limit);
    expect(other).toMatchObject({ limit, windowMs: meant.windowMs, calendar: meant.calendar });
    const at = 1_790_000_000_000;
    expect(other.numbersAt?.(at) ?? other.numbers).toEqual(meant.numbersAt?.(at) ?? meant.numbers);
  });

  it("can be none, and some again", () => {
    const none = make(20).ofLimit(0);
    expect(none.limit).toBe(0);
    expect(none.ofLimit(3).limit).toBe(3);
  });
});

describe("a burst", () => {
  it("keeps its span when the limit changes", () => {
    const smooth = gcra({ limit: 60, window: "1m", burst: 10 });
    expect(smooth.windowMs).toBe(10_000);
    expect(smooth.ofLimit(20)).toMatchObject({ limit: 20, windowMs: 10_000 });
  });
});
