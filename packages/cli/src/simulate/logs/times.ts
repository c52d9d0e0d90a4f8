/** Reads the times that logs are written with, by hand: `Date.parse` takes too much, and too long. All in ms since 1970. */

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** `29/Nov/2026:13:55:36 +0100`, as Apache and nginx write it: always 26 characters. */
export const CLF_TIME_LENGTH = 26;

/** A reader of {@link CLF_TIME_LENGTH} characters that remembers the last time it read: lines of one second stand together. */
export function clfTimes(): (text: string) => number | undefined {
  let last = "";
  let ms: number | undefined;
  return (text) => {
    if (text !== last) {
      last = text;
      ms = clfTime(text);
    }
    return ms;
  };
}

/** @returns undefined when it is no such time */
function clfTime(text: string): number | undefined {
  if (text.length !== CLF_TIME_LENGTH || text[2] !== "/" || text[6] !== "/" || text[20] !== " ")
    return undefined;
  if (text[11] !== ":" || text[14] !== ":" || text[17] !== ":") return undefined;
  const month = MONTHS.indexOf(text.slice(3, 6));
  const offset = zoneMs(text.slice(21));
  if (month < 0 || offset === undefined) return undefined;
  const parts = [number(text, 7, 11), month, number(text, 0, 2)] as const;
  const clock = [number(text, 12, 14), number(text, 15, 17), number(text, 18, 20)] as const;
  const utc = utcOf(...parts, ...clock);
  return utc === undefined ? undefined : utc - offset;
}

/**
 * `2026-11-29T13:55:36.123+01:00`; also with a space or slashes, without seconds' fractions, and without a zone, which
 * is UTC then. A date alone is its first moment.
 *
 * @returns undefined when it is no such time
 */
function isoTime(text: string): number | undefined {
  const [, year, month, day, hour = "0", minute = "0", second = "0", fraction = "0", zone = "Z"] =
    ISO.exec(text) ?? [];
  const offset = zoneMs(zone);
  if (year === undefined || offset === undefined) return undefined;
  const numbers = [year, month, day, hour, minute, second].map(Number);
  const [y = 0, m = 0, d = 0, h = 0, min = 0, s = 0] = numbers;
  const utc = utcOf(y, m - 1, d, h, min, s);
  return utc === undefined ? undefined : utc - offset + Number(`0.${fraction}`) * 1000;
}

// Each part has a fixed length, so that there is one way only to read a text.
const ISO =
  /^(\d{4})[-/](\d\d)[-/](\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?: ?(Z|UTC|[+-]\d\d:?\d\d))?)?$/;

/** Seconds, milliseconds, microseconds or nanoseconds since 1970, told apart by their size: from 1973 to 5138. */
function epochTime(value: number): number | undefined {
  if (!Number.isFinite(value) || value <= 0) return undefined;
  // In whole microseconds: a number of seconds has no exact thousandths.
  if (value < 1e11) return Math.round(value * 1e6) / 1000;
  if (value < 1e14) return value;
  if (value < 1e17) return value / 1000;
  return value < 1e20 ? value / 1e6 : undefined;
}

/** A time in any of these forms. */
export function anyTime(value: unknown): number | undefined {
  if (typeof value === "number") return epochTime(value);
  if (typeof value !== "string" || value.length > LONGEST) return undefined;
  const text = value.trim();
  if (/^\d+(\.\d+)?$/.test(text)) return epochTime(Number(text));
  return isoTime(text) ?? clfTime(text.startsWith("[") ? text.slice(1, -1) : text);
}

const LONGEST = 64;

function utcOf(
  year: number,
  month: number,
  day: number,
  hour: number,
  minute: number,
  second: number,
): number | undefined {
  // A minute may have 61 seconds. NaN fails each of these.
  if (!(month >= 0 && month <= 11 && day >= 1 && hour <= 23 && minute <= 59 && second <= 60))
    return undefined;
  const ms = Date.UTC(year, month, day, hour, minute, second);
  // A 31st of February would be one of March.
  return day <= 28 || new Date(Date.UTC(year, month, day)).getUTCDate() === day ? ms : undefined;
}

/** `+0100`, `+01:00`, `Z`. */
function zoneMs(text: string): number | undefined {
  if (text === "Z" || text === "UTC" || text === "+0000") return 0;
  const digits = text.replace(":", "");
  const minutes = number(digits, 1, 3) * 60 + number(digits, 3, 5);
  if (digits.length !== 5 || !(minutes <= 24 * 60)) return undefined;
  if (digits[0] === "+") return minutes * 60_000;
  return digits[0] === "-" ? -minutes * 60_000 : undefined;
}

/** The digits from `start` to `end`; NaN when something else stands there. */
function number(text: string, start: number, end: number): number {
  let value = 0;
  for (let i = start; i < end; i++) {
    const digit = text.charCodeAt(i) - 48;
    if (!(digit >= 0 && digit <= 9)) return Number.NaN;
    value = value * 10 + digit;
  }
  return value;
}
