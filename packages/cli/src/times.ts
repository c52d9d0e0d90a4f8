/** How times stand in what people read. */

const UNITS: readonly (readonly [ms: number, name: string])[] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1000, "s"],
];

/** `450 ms`, `1.5 s`, `3 min 20 s`, `2 d 4 h`: two units at most, and never less than it is. */
export function spanText(ms: number): string {
  if (ms < 1000) return `${Math.ceil(ms)} ms`;
  if (ms < 10_000) return `${Math.ceil(ms / 100) / 10} s`;
  const first = UNITS.findIndex(([unit]) => ms >= unit);
  const [unit, name] = UNITS[first]!;
  const [lesser, lesserName] = UNITS[first + 1] ?? [unit, ""];
  const whole = Math.ceil(ms / lesser) * lesser;
  // What was rounded up may be a whole of the larger unit.
  if (whole >= (UNITS[first - 1]?.[0] ?? Infinity)) return spanText(whole);
  const [large, small] = [Math.floor(whole / unit), Math.round((whole % unit) / lesser)];
  return small === 0 || lesserName === "" ? `${large} ${name}` : `${large} ${name} ${small} ${lesserName}`;
}

/** `2026-11-29 22:10:03`, by this machine's time zone. @param at ms since 1970 */
export const timeText = (at: number): string => new Date(at).toLocaleString("sv-SE");

/** A number as people write it. */
export const numberText = (n: number): string => n.toLocaleString("en-US", { maximumFractionDigits: 2 });
