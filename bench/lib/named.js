/** What `--only` means. */

/**
 * Those that are always measured, and those that were asked for; all when nothing was asked for.
 *
 * @template {{ name: string, baseline?: boolean }} T
 * @param {T[]} all
 * @param {string[]} only names, with or without their variant
 */
export const picked = (all, only) =>
  all.filter(
    ({ baseline, name }) => baseline || only.length === 0 || only.some((given) => isCalled(name, given)),
  );

/**
 * @param {string} full
 * @param {string} given
 */
export function isCalled(full, given) {
  const name = full.replace("@beside", "");
  return name === given || name.split(":")[0] === given;
}
