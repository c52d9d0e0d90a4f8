/** How numbers stand in what the doctor says. */

/** `10,000`; a fraction with one digit behind the point, and with two below 1. */
export const numberText = (n: number): string =>
  n.toLocaleString("en-US", { maximumFractionDigits: Math.abs(n) < 1 ? 2 : 1 });

export const msText = (ms: number): string => `${numberText(ms)} ms`;

const UNITS = ["bytes", "KB", "MB", "GB", "TB"];

/** Bytes in the largest unit, of 1024 each, that leaves 1 or more. */
export function bytesText(bytes: number): string {
  const unit = bytes < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10));
  return `${numberText(bytes / 1024 ** unit)} ${UNITS[unit]}`;
}

/** `1 key`, `2 keys`. */
export const countText = (n: number, noun: string): string => `${numberText(n)} ${noun}${n === 1 ? "" : "s"}`;

/** `a`, `a and b`, `a, b and c`. */
export function listText(words: readonly string[]): string {
  const [last, ...before] = words.toReversed();
  return before.length === 0 ? (last ?? "") : `${before.toReversed().join(", ")} and ${last}`;
}
