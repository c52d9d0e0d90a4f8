/** Numbers as people read them, the same in the terminal and on the page. */

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** `1,234,567` */
export const whole = (value: number): string => WHOLE.format(value);

/** A share as `12.3 %`: three digits at most, and never 0 or 100 for what is not quite. */
export function percent(share: number): string {
  const value = share * 100;
  if (value === 0 || value === 100) return `${value} %`;
  if (value < 0.001) return "< 0.001 %";
  if (value > 99.9 && value < 100) return "> 99.9 %";
  const digits = value >= 10 ? 1 : value >= 1 ? 2 : 3;
  return `${Number(value.toFixed(digits))} %`;
}

/** Of nothing, nothing. */
export const shareOf = (part: number, all: number): number => (all === 0 ? 0 : part / all);

/** `2026-11-29 13:55:36`, UTC. */
export const moment = (ms: number): string => new Date(ms).toISOString().slice(0, 19).replace("T", " ");

const UNITS: readonly (readonly [ms: number, name: string])[] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1000, "s"],
];

/** A span that was chosen: `90 s`, `1 h`, in the largest unit that is exact; `250 ms`. */
export function span(ms: number): string {
  const unit = UNITS.find(([size]) => ms >= size && ms % size === 0);
  return unit ? `${whole(ms / unit[0])} ${unit[1]}` : `${whole(ms)} ms`;
}

/** A span that came about: `3 h 12 min`, in the two largest units. */
export function lasting(ms: number): string {
  const at = UNITS.findIndex(([size]) => ms >= size);
  if (at < 0) return `${whole(ms)} ms`;
  const [size, name] = UNITS[at]!;
  const small = UNITS[at + 1];
  const rest = small ? Math.floor((ms % size) / small[0]) : 0;
  return `${whole(Math.floor(ms / size))} ${name}${rest > 0 ? ` ${rest} ${small![1]}` : ""}`;
}
