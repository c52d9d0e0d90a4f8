import { CliError } from "../errors.ts";
import { plain } from "../plain.ts";
import { anyTime } from "./logs/times.ts";

/**
 * `0.1%`, or `0.001`.
 *
 * @returns a share, 0 to 1
 * @throws CliError when it is none
 */
export function parseShare(text: string): number {
  const [, number, sign] = /^(\d{1,3}(?:\.\d{1,9})?)\s*(%?)$/.exec(text.trim()) ?? [];
  const share = number === undefined ? Number.NaN : Number(number) / (sign === "%" ? 100 : 1);
  if (share >= 0 && share <= 1) return share;
  throw wrong("--fail-above", "give a share such as 0.1% or 0.001", text);
}

/** @throws CliError when it is no time */
export function parseTime(option: string, text: string): number {
  const ms = anyTime(text);
  if (ms !== undefined) return ms;
  throw wrong(option, "give a time such as 2026-11-29T13:00:00Z, 2026-11-29 or seconds since 1970", text);
}

/** @throws CliError when it is none, or out of these bounds */
export function parseWhole(option: string, text: string, least: number, most: number): number {
  const number = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= least && number <= most) return number;
  throw wrong(option, `give a whole number from ${least} to ${most}`, text);
}

const wrong = (option: string, advice: string, text: string): CliError =>
  new CliError("TIDEGATE_CLI_OPTION", `${option}: ${advice}, got ${plain(text, 80)}.`);
