/** Samples in, one readable number out. */

/** @param {number[]} samples */
export const least = (samples) => Math.min(...samples);

/** @param {number[]} samples */
export const median = (samples) => percentile(samples, 50);

/**
 * @param {number[]} samples
 * @param {number} percent
 */
export function percentile(samples, percent) {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)] ?? NaN;
}

/**
 * Median (least–most).
 *
 * @param {number[]} samples
 * @param {number} digits
 */
export function spread(samples, digits) {
  const most = Math.max(...samples);
  return `${show(median(samples), digits)} (${show(least(samples), digits)}–${show(most, digits)})`;
}

/**
 * @param {number} number
 * @param {number} digits
 */
export const show = (number, digits) => (Number.isFinite(number) ? number.toFixed(digits) : "–");

/**
 * A Markdown table; every column but the first holds numbers.
 *
 * @param {string[]} head
 * @param {string[][]} rows
 */
export function table(head, rows) {
  const line = (/** @type {string[]} */ cells) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map((_, i) => (i === 0 ? "---" : "---:"))), ...rows.map(line)].join("\n");
}

/**
 * The list, beginning at another place in every round: a slow moment meets another each time.
 *
 * @template T
 * @param {T[]} list
 * @param {number} round
 */
export function rotated(list, round) {
  const first = list.length === 0 ? 0 : round % list.length;
  return [...list.slice(first), ...list.slice(0, first)];
}
