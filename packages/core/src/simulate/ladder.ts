/** About so many limits are tried. */
const RUNGS = 24;

/** Round numbers up to the next power of ten, the most of them first. */
const ROUND = [
  [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8],
  [1, 1.5, 2, 3, 5, 7],
  [1, 2, 3, 5],
  [1, 2, 5],
  [1, 3],
  [1],
];

/**
 * Limits to try: round numbers, in about equal proportions, from `lowest` to the first that is no less than `highest`;
 * and `own` among them. All of them where there are few.
 */
export function ladder(lowest: number, highest: number, own: number): number[] {
  const tries = ROUND.map((digits) => rungs(digits, lowest, highest));
  const few = tries.find((limits) => limits.length <= RUNGS) ?? tries.at(-1)!;
  return [...new Set([...few, own])].sort((a, b) => a - b);
}

function rungs(digits: readonly number[], lowest: number, highest: number): number[] {
  if (highest <= RUNGS) return Array.from({ length: Math.max(1, highest) }, (_, i) => i + 1);
  const limits: number[] = [];
  for (let power = 1; ; power *= 10) {
    for (const digit of digits) {
      const limit = Math.round(digit * power);
      if (limit !== digit * power) continue;
      // One that lets nobody in shows where the curve begins.
      if (limit <= lowest) limits.length = 0;
      limits.push(limit);
      if (limit >= highest) return limits;
    }
  }
}
