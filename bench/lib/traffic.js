/** Who asks, and in which order: the same in every run. */

/**
 * - `uniform`: each as often as any other
 * - `zipf`: the k-th of them as often as 1/k says, as names, pages and tenants are asked for
 * - `one`: always the same one
 *
 * @typedef {"uniform" | "zipf" | "one"} Traffic
 */

export const IDENTITIES = 20_000;

/** After so many asks the order begins again. */
const ASKS = 1 << 17;

const SEED = 20_261_129;

/** Whose requests are a flood. */
export const FLOODED = "flooded";

/** Their names, the one that `zipf` asks for most first. */
export const identities = () =>
  Array.from({ length: IDENTITIES }, (_, i) => `u${String(i).padStart(6, "0")}`);

/**
 * Which identity each ask is for.
 *
 * @param {Traffic} traffic
 * @returns {Uint32Array}
 */
export function order(traffic) {
  const random = randomNumbers(SEED);
  if (traffic === "one") return new Uint32Array(1);
  if (traffic === "uniform") return new Uint32Array(ASKS).map(() => Math.floor(random() * IDENTITIES));
  const shares = zipfShares(IDENTITIES);
  return new Uint32Array(ASKS).map(() => firstAbove(shares, random()));
}

/**
 * Of the exponent 1: how much of all is for the first, the first two, and so on to 1.
 *
 * @param {number} length
 */
export function zipfShares(length) {
  const shares = new Float64Array(length);
  let sum = 0;
  for (let i = 0; i < length; i++) shares[i] = sum += 1 / (i + 1);
  return shares.map((share) => share / sum);
}

/**
 * The first place whose number is above `value`; the numbers grow.
 *
 * @param {Float64Array} numbers
 * @param {number} value below the last number
 */
function firstAbove(numbers, value) {
  let low = 0;
  let high = numbers.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (/** @type {number} */ (numbers[middle]) > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * Numbers from 0 to 1, exclusively, which are the same for the same seed: mulberry32.
 *
 * @param {number} seed
 */
export function randomNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
