/** Calendar windows: days, ISO weeks (from Monday) and months of a time zone. */
export type CalendarUnit = "day" | "week" | "month";

/** From `start` until just before `end`, milliseconds since 1970. */
export interface Bounds {
  readonly start: number;
  readonly end: number;
}

const DAY_MS = 86_400_000;

/**
 * The calendar window that holds a moment. Right across changes of the clock: a day has 23, 24 or
 * 25 hours, and begins with the first moment of its date, which need not be midnight.
 *
 * @param zone an IANA time zone that `Intl` knows
 */
export function calendar(unit: CalendarUnit, zone: string): (ms: number) => Bounds {
  const parts = new Intl.DateTimeFormat("en-US", {
    timeZone: zone,
    calendar: "iso8601",
    numberingSystem: "latn",
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });

  /** The zone's wall clock at a moment, as if it were UTC. */
  function local(ms: number): number {
    const at: Record<string, number> = {};
    for (const { type, value } of parts.formatToParts(ms)) at[type] = Number(value);
    return Date.UTC(at["year"]!, at["month"]! - 1, at["day"], at["hour"], at["minute"], at["second"]);
  }

  /** The first moment whose date in the zone is that of `date` (midnight, as if it were UTC), or later. */
  function firstMomentOf(date: number): number {
    // No zone is further from UTC than this, so the date has not begun before and has begun after.
    let before = date - DAY_MS;
    let after = date + DAY_MS;
    while (after - before > 1000) {
      const middle = before + Math.floor((after - before) / 2000) * 1000;
      if (local(middle) >= date) after = middle;
      else before = middle;
    }
    return after;
  }

  let known: Bounds | undefined;
  return (ms) => {
    if (known && known.start <= ms && ms < known.end) return known;
    const wall = local(ms);
    const [first, next] = dates(unit, wall - (wall % DAY_MS));
    known = { start: firstMomentOf(first), end: firstMomentOf(next) };
    return known;
  };
}

/** The first date of the window that holds a date, and of the next one. All are midnights, as if in UTC. */
function dates(unit: CalendarUnit, date: number): [number, number] {
  if (unit === "day") return [date, date + DAY_MS];
  const on = new Date(date);
  if (unit === "month") {
    const [year, month] = [on.getUTCFullYear(), on.getUTCMonth()];
    return [Date.UTC(year, month), Date.UTC(year, month + 1)];
  }
  const monday = date - ((on.getUTCDay() + 6) % 7) * DAY_MS;
  return [monday, monday + 7 * DAY_MS];
}
