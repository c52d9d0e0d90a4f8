import { type CalendarUnit, createLimiter, fixedWindow, memoryStore } from "@tidegate/core";
import { expect, it } from "vitest";
import { fakeClock } from "../harness/clock.ts";
import { read, sectionOf, tablesOf } from "./markdown.ts";

const rows = tablesOf(sectionOf(read("docs/calendar-quotas.md"), "Days of 23 and 25 hours"))[0]!;

/** When the window of a request ends, ms since 1970. */
async function endOf(timeZone: string, window: CalendarUnit, at: number): Promise<number> {
  const limiter = createLimiter({
    store: memoryStore({ nowUs: fakeClock(at * 1000).now }),
    policies: { policy: fixedWindow({ limit: 5, window, timeZone }) },
  });
  const { verdicts } = await limiter.decide({ identity: "somebody" });
  await limiter.close();
  return at + verdicts[0]!.fullMs;
}

it.each(rows)("docs/calendar-quotas.md: the $window of $zone that ends at $the window ends", async (row) => {
  const [zone, window] = [row.zone!, row.window as CalendarUnit];
  const ends = Date.parse(row["the window ends"]!);
  const begins = ends - Number(row["hours of the window"]) * 3_600_000;
  expect(await endOf(zone, window, Date.parse(row["a request at"]!))).toBe(ends);
  expect(await endOf(zone, window, begins)).toBe(ends);
  expect(await endOf(zone, window, begins - 1)).toBe(begins);
});
