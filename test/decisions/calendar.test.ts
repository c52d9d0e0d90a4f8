import { createLimiter, type Decision, fixedWindow, ioredisClient, redisStore } from "@tidegate/core";
import { DateTime } from "luxon";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Bounds, calendar, type CalendarUnit } from "../../packages/core/src/algorithms/calendar.ts";
import { clockedClient, clockedScripts, fakeClock } from "../harness/clock.ts";
import { live } from "../harness/live.ts";
import { freshPrefix } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { calmZone } from "./algorithms.ts";

/** Not America/St_Johns, where until 2011 the clock went back at 0:01: one minute of the next day came too early. */
const ZONES = [
  "UTC",
  "Europe/Berlin",
  "Europe/London",
  "Europe/Lisbon",
  "America/New_York",
  "America/Los_Angeles",
  "America/Phoenix",
  "America/Sao_Paulo", // Days that begin at 1:00, until 2018.
  "America/Havana",
  "America/Asuncion",
  "America/Santiago", // Its clock changes at midnight.
  "America/Nuuk",
  "Atlantic/Azores",
  "Africa/Casablanca", // Its clock goes back for Ramadan.
  "Africa/Cairo",
  "Asia/Kolkata",
  "Asia/Kathmandu",
  "Asia/Beirut",
  "Asia/Tehran",
  "Asia/Gaza",
  "Asia/Pyongyang", // 23:30 to 0:00 did not exist on one day.
  "Australia/Lord_Howe", // Half an hour of summer time.
  "Pacific/Apia", // Had no 30 December 2011.
  "Pacific/Fakaofo",
  "Pacific/Chatham",
  "Pacific/Kiritimati",
  "Antarctica/Troll", // Two hours of summer time.
];
const UNITS: CalendarUnit[] = ["day", "week", "month"];
const HOUR = 3_600_000;

/** The same random numbers in every run. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

const FROM = Date.UTC(2000, 0, 1);
const UNTIL = Date.UTC(2036, 0, 1);

/** The window as luxon has it. */
function oracle(unit: CalendarUnit, zone: string, ms: number): Bounds {
  const start = DateTime.fromMillis(ms, { zone }).startOf(unit);
  // Not by adding a unit to its beginning: where a day begins at 1:00, the next does not.
  const next = start.plus({ [unit]: 1 }).startOf(unit);
  // Where the clock goes back from 1:00 to 0:00 a day begins with the first of its two midnights.
  const [begins, ends] = [start, next].map((midnight) => midnight.getPossibleOffsets()[0]!.toMillis());
  return { start: begins!, end: ends! };
}

/** An instant with luxon's opinion, for messages. */
const shown = (zone: string, ms: number) => `${DateTime.fromMillis(ms, { zone }).toISO()} ${zone}`;

describe("calendar windows", () => {
  it.each(ZONES)("of %s are luxon's, at random moments and around changes of the clock", (zone) => {
    const next = random(zone.length * 7919 + zone.charCodeAt(zone.length - 1));
    const moments = Array.from({ length: 80 }, () => Math.floor(FROM + next() * (UNTIL - FROM)));
    for (const change of changesOf(zone))
      moments.push(change - 12 * HOUR, change - 1, change, change + 12 * HOUR);
    for (const unit of UNITS) {
      const boundsOf = calendar(unit, zone);
      for (const ms of moments) {
        const expected = oracle(unit, zone, ms);
        // Where a whole date is missing, luxon's next day is the same day.
        if (expected.end <= ms) continue;
        expect(boundsOf(ms), `${unit} of ${shown(zone, ms)}`).toEqual(expected);
      }
    }
  });

  it.each(ZONES)("of %s join without gap or overlap, and hold the moment they are of", (zone) => {
    const next = random(zone.length * 104_729);
    for (const unit of UNITS) {
      const starts = Array.from({ length: 3 }, () => Math.floor(FROM + next() * (UNTIL - FROM)));
      if (unit !== "month") starts.push(Date.UTC(2011, 11, 28));
      // Each asked about other windows in between: nothing is remembered from the one before.
      const [boundsOf, again] = [calendar(unit, zone), calendar(unit, zone)];
      for (const start of starts) {
        let at = start;
        for (let i = 0; i < 12; i++) {
          const { start: begins, end } = boundsOf(at);
          expect(begins, shown(zone, at)).toBeLessThanOrEqual(at);
          expect(end, shown(zone, at)).toBeGreaterThan(at);
          expect(again(end).start).toBe(end);
          expect(again(end - 1)).toEqual({ start: begins, end });
          at = end;
        }
      }
    }
  });

  it.each(ZONES)("of %s hold the moment they are of, also while the clock changes", (zone) => {
    for (const change of changesOf(zone)) {
      for (const ms of [-HOUR, -60_000, -1, 0, 1, 60_000, HOUR].map((by) => change + by)) {
        const { start, end } = calendar("day", zone)(ms);
        expect(start <= ms && ms < end, shown(zone, ms)).toBe(true);
      }
    }
  });

  it.each([
    ["Europe/Berlin", "2026-03-29", 23],
    ["Europe/Berlin", "2026-10-25", 25],
    ["America/New_York", "2027-03-14", 23],
    ["America/New_York", "2027-11-07", 25],
    ["America/Havana", "2026-03-08", 23],
    ["America/Havana", "2026-11-01", 25],
    ["America/Sao_Paulo", "2018-11-04", 23],
    ["America/Sao_Paulo", "2018-02-17", 25],
    ["Asia/Beirut", "2026-03-29", 23],
    ["Australia/Lord_Howe", "2026-10-04", 23.5],
    ["Australia/Lord_Howe", "2026-04-05", 24.5],
    ["Pacific/Apia", "2011-12-29", 24],
    ["Pacific/Apia", "2011-12-31", 24],
    ["Asia/Kolkata", "2026-03-29", 24],
  ])("%s: %s has %d hours", (zone, date, hours) => {
    const { start, end } = calendar("day", zone)(DateTime.fromISO(`${date}T12:00`, { zone }).toMillis());
    expect((end - start) / HOUR).toBe(hours);
  });

  it("Pacific/Apia: the 29th of December 2011 ends where the 31st begins", () => {
    const at = (text: string) => DateTime.fromISO(text, { zone: "Pacific/Apia" }).toMillis();
    expect(calendar("day", "Pacific/Apia")(at("2011-12-29T12:00")).end).toBe(at("2011-12-31T00:00"));
  });

  it.each([
    ["2024-12-31", "2024-12-30", "2025-01-06"],
    ["2025-01-01", "2024-12-30", "2025-01-06"],
    ["2026-12-31", "2026-12-28", "2027-01-04"],
    ["2027-01-03", "2026-12-28", "2027-01-04"],
    ["2028-02-29", "2028-02-28", "2028-03-06"],
  ])("the week of %s is from Monday %s until %s", (date, monday, next) => {
    const zone = "Europe/Berlin";
    const at = (text: string) => DateTime.fromISO(text, { zone }).toMillis();
    expect(calendar("week", zone)(at(`${date}T15:00`))).toEqual({ start: at(monday), end: at(next) });
  });
});

const known = new Map<string, number[]>();

/** When a zone's offset changes, 2000 to 2035, to the second. */
function changesOf(zone: string): number[] {
  const changes = known.get(zone) ?? findChanges(zone);
  known.set(zone, changes);
  return changes;
}

function findChanges(zone: string): number[] {
  const offset = (ms: number) => DateTime.fromMillis(ms, { zone }).offset;
  const changes = [];
  const step = 10 * 24 * HOUR;
  for (let at = FROM; at < UNTIL; at += step) {
    if (offset(at) === offset(at + step)) continue;
    let [before, after] = [at, at + step];
    while (after - before > 1000) {
      const middle = before + Math.floor((after - before) / 2000) * 1000;
      if (offset(middle) === offset(before)) before = middle;
      else after = middle;
    }
    changes.push(after);
  }
  return changes;
}

describe("a calendar window on Redis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  it.each(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Chatham", calmZone()])(
    "goes exactly at the end of the day, the week and the month in %s",
    async (timeZone) => {
      const { limiter, prefix } = await live(server, {
        policies: Object.fromEntries(
          UNITS.map((window) => [window, fixedWindow({ limit: 9, window, timeZone })]),
        ),
      });
      const { receipt } = await limiter.decide({ identity: "somebody" });
      const ends = await Promise.all(
        UNITS.map((unit) => server.client.pexpiretime(`${prefix}:{id:somebody}:${unit}:fw`)),
      );
      const decidedAt = DateTime.fromMillis(receipt!.at / 1000, { zone: timeZone });
      expect(ends).toEqual(UNITS.map((unit) => decidedAt.endOf(unit).toMillis() + 1));
      await limiter.close();
    },
  );

  /** A limiter whose server's clock is the test's, while its own notion of that clock stands still. */
  function stale(policies: Parameters<typeof createLimiter>[0]["policies"]) {
    const clock = fakeClock();
    const events: unknown[] = [];
    const prefix = freshPrefix();
    const asked = { decide: 0, settle: 0 };
    const client = clockedClient(ioredisClient(server.url), clock);
    const counting = {
      ...client,
      onState: (listener: () => void) => client.onState(listener),
      get state() {
        return client.state;
      },
      get trouble() {
        return client.trouble;
      },
      send: (...[command, args, done]: Parameters<typeof client.send>) => {
        if (args[0] === clockedScripts.decide.sha) asked.decide++;
        if (args[0] === clockedScripts.settle.sha) asked.settle++;
        client.send(command, args, done);
      },
    };
    const store = redisStore(counting, { scripts: clockedScripts });
    const limiter = createLimiter({
      store,
      prefix,
      policies: policies!,
      timeoutMs: 5000,
      onEvent: (event) => events.push(event),
    });
    return { clock, events, prefix, asked, limiter, close: () => store.close() };
  }
  const berlin = (text: string) => DateTime.fromISO(text, { zone: "Europe/Berlin" }).toMillis();
  const used = ({ verdicts }: Decision) => verdicts.map(({ limit, remaining }) => limit - remaining);

  it("that changed since the store last heard the server's clock is asked about once more", async () => {
    const policies = {
      day: fixedWindow({ limit: 3, window: "day", timeZone: "Europe/Berlin" }),
      month: fixedWindow({ limit: 9, window: "month", timeZone: "Europe/Berlin" }),
    };
    const { clock, events, asked, limiter, prefix, close } = stale(policies);
    const ask = (cost = 1) => limiter.decide({ identity: "somebody", cost });
    clock.set(berlin("2026-10-24T23:00"));
    await ask(0);
    for (const count of [1, 2, 3]) expect(used(await ask())).toEqual([count, count]);
    expect(await ask()).toMatchObject({ allowed: false, retryAfterMs: HOUR });

    asked.decide = 0;
    clock.advance(HOUR);
    const next = await ask();
    expect(next).toMatchObject({ allowed: true, degraded: undefined });
    expect(used(next)).toEqual([1, 4]);
    expect(asked.decide).toBe(2);
    // The day on which the clock goes back has 25 hours.
    expect(next.verdicts[0]!.nextMs).toBe(25 * HOUR);
    expect(await server.client.get(`${prefix}:{id:somebody}:day:fw:kept`)).toBe(
      String(berlin("2026-10-26") * 1000),
    );

    clock.set(berlin("2026-10-25T23:59:59.999"));
    expect(used(await ask())).toEqual([2, 5]);
    clock.set(berlin("2026-11-01"));
    expect(used(await ask())).toEqual([1, 1]);
    expect(events).toEqual([]);
    await close();
  });

  it("is asked about once more in each of two zones", async () => {
    const { clock, events, limiter, close } = stale({
      kolkata: fixedWindow({ limit: 3, window: "day", timeZone: "Asia/Kolkata" }),
      kathmandu: fixedWindow({ limit: 3, window: "day", timeZone: "Asia/Kathmandu" }),
    });
    const ask = () => limiter.decide({ identity: "somebody" });
    clock.set(Date.UTC(2026, 5, 1, 18, 0));
    expect(used(await ask())).toEqual([1, 1]);
    clock.set(Date.UTC(2026, 5, 1, 18, 20)); // Midnight in Kathmandu was 18:15.
    expect(used(await ask())).toEqual([2, 1]);
    clock.set(Date.UTC(2026, 5, 1, 18, 40)); // In Kolkata it was 18:30.
    expect(used(await ask())).toEqual([1, 2]);
    expect(events).toEqual([]);
    await close();
  });

  it("that changed before a settlement: nothing comes back, and more is charged to the new one", async () => {
    const { clock, events, asked, limiter, close } = stale({
      day: fixedWindow({ limit: 9, window: "day", timeZone: "Europe/Berlin" }),
    });
    const ask = (cost: number) => limiter.decide({ identity: "somebody", cost });
    clock.set(berlin("2026-06-01T23:59"));
    await ask(0);
    const [back, more] = [await ask(2), await ask(2)];
    clock.set(berlin("2026-06-02T00:01"));
    await limiter.settle(back, "giveBack");
    await limiter.settle(more, 5);
    expect(asked.settle).toBe(4);
    expect(used(await ask(0))).toEqual([3]);
    expect(events).toEqual([]);
    await close();
  });
});
