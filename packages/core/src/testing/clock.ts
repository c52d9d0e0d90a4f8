import { ConfigError } from "../errors.ts";
import { duration, type Duration } from "../options.ts";

/** What tells a store the time: milliseconds since 1970. `Date` is one. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
}

/** A moment: ISO text with its offset (`"2026-03-29T01:30:00+01:00"`, `"2026-01-01"`), a Date, or milliseconds since 1970. */
export type Moment = string | number | Date;

/** A clock that stands until a test moves it. */
export interface VirtualClock extends Clock {
  /** Milliseconds since 1970. Needs no `this`. */
  now(): number;
  /**
   * Moves it on. Nothing sleeps and no timer runs.
   *
   * @param by `"1m"`, `"30 days"`, or whole milliseconds from 0; ten years at most
   * @throws ConfigError `TIDEGATE_OPTION_INVALID`
   */
  advance(by: Duration): void;
  /**
   * Sets it to a moment. One before now is what a store sees when its server's clock steps back: what was counted stays.
   *
   * @throws ConfigError `TIDEGATE_OPTION_INVALID`
   */
  set(to: Moment): void;
}

/** So that a test shows the same on every day. */
const START = "2026-01-01T00:00:00Z";

/** Stores count whole microseconds, and doubles hold those exactly until 2255. */
const LAST_MS = Date.UTC(2250, 0, 1);

/**
 * A clock for tests: it stands at `start` until it is moved. Give it to {@link testStore}.
 *
 * @param start 2026-01-01T00:00:00Z by default
 * @throws ConfigError `TIDEGATE_OPTION_INVALID` for what is no moment between 1970 and 2250
 */
export function virtualClock(start: Moment = START): VirtualClock {
  let now = momentOf("virtualClock.start", start);
  return {
    now: () => now,
    advance(by) {
      now = momentOf("clock.advance", now + duration("clock.advance", by, 0));
    },
    set(to) {
      now = momentOf("clock.set", to);
    },
  };
}

/** @throws ConfigError for what tells no time */
export function clockOf(option: string, given: unknown): Clock {
  if (typeof (given as Clock | null)?.now === "function") return given as Clock;
  throw new ConfigError(
    "TIDEGATE_OPTION_INVALID",
    option,
    given,
    "give virtualClock(), or Date for its time",
  );
}

/** A date, or a date and a time with its offset: without one, a test would show another thing on another machine. */
const ISO = /^(\d{4}-\d\d-\d\d)(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/;

function momentOf(option: string, given: unknown): number {
  const ms = given instanceof Date ? given.getTime() : typeof given === "string" ? parse(given) : given;
  if (typeof ms === "number" && Number.isInteger(ms) && ms >= 0 && ms <= LAST_MS) return ms;
  const value = given instanceof Date ? String(given) : given;
  const advice =
    'give a moment between 1970 and 2250: "2026-01-01", "2026-01-01T12:00:00Z", a Date, or whole milliseconds since 1970';
  throw new ConfigError("TIDEGATE_OPTION_INVALID", option, value, advice);
}

/** `Date` takes the 30th of February for the 2nd of March. */
function parse(text: string): number | undefined {
  const date = ISO.exec(text)?.[1];
  if (date === undefined || !isDate(date)) return undefined;
  return Date.parse(text);
}

function isDate(date: string): boolean {
  const midnight = new Date(`${date}T00:00:00Z`);
  return !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(date);
}
