import ms from "ms";
import { ConfigError, type ConfigErrorCode } from "./errors.ts";

/** A span of time: milliseconds, or text such as `"90s"`, `"1m"`, `"1 day"` (a year is 365.25 days). */
export type Duration = number | string;

/** Ten years, milliseconds: no window and no refill is longer. */
export const LONGEST_MS = 10 * 365.25 * 24 * 60 * 60 * 1000;

const fail = (
  option: string,
  value: unknown,
  advice: string,
  code: ConfigErrorCode = "TIDEGATE_OPTION_INVALID",
) => new ConfigError(code, option, value, advice);

/** Options given as a plain object, none of them unknown. */
export function onlyKnown(where: string, options: unknown, known: readonly string[]): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw fail(where, options, "give an object of options");
  }
  for (const [name, value] of Object.entries(options)) {
    if (known.includes(name)) continue;
    const option = where === "config" ? name : `${where}.${name}`;
    throw fail(
      option,
      value,
      `there is no such option; known are ${known.join(", ")}`,
      "TIDEGATE_OPTION_UNKNOWN",
    );
  }
}

/** A whole number from `least` to `most`. */
export function wholeNumber(option: string, value: unknown, least: number, most: number, hint = ""): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < least || value > most) {
    throw fail(option, value, `give a whole number from ${least} to ${most}${hint}`);
  }
  return value;
}

/** A finite number above 0. */
export function positiveNumber(option: string, value: unknown): number {
  if (typeof value !== "number" || !Number.isFinite(value) || value <= 0)
    throw fail(option, value, "give a number above 0");
  return value;
}

/** Whole milliseconds from `least` to ten years. */
export function duration(option: string, value: unknown, least = 1): number {
  const given = typeof value === "string" ? parse(value) : value;
  if (typeof given !== "number" || !Number.isInteger(given) || given < least || given > LONGEST_MS) {
    throw fail(
      option,
      value,
      `give whole milliseconds from ${least} to ten years, or text such as "90s", "1m" or "1 day"`,
    );
  }
  return given;
}

function parse(text: string): number | undefined {
  // `ms` reads a bare number as milliseconds and throws on text that is empty or too long.
  try {
    return ms(text as ms.StringValue);
  } catch {
    return undefined;
  }
}

/** A function, or nothing. */
export function optionalFunction(option: string, value: unknown): void {
  if (value !== undefined && typeof value !== "function")
    throw fail(option, value, "give a function, or leave it out");
}

/** True or false, and nothing that only looks like it. */
export function flag(option: string, value: unknown): boolean {
  if (typeof value !== "boolean") throw fail(option, value, "give true or false");
  return value;
}

/** One of some words. */
export function oneOf<T extends string>(option: string, value: unknown, words: readonly T[]): T {
  if (!words.includes(value as T))
    throw fail(option, value, `give ${words.map((word) => `"${word}"`).join(" or ")}`);
  return value as T;
}

/** Whether a value is a number of units: no cost is worth more than the largest exact number. */
export const isCost = (cost: unknown): cost is number => Number.isSafeInteger(cost) && (cost as number) >= 0;

/** The name of an option within others; `at` is empty at the top. */
export const under = (at: string, option: string): string => (at === "" ? option : `${at}.${option}`);
