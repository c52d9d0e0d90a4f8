/*
 * CommonJS on purpose: only `require` finds or misses an optional peer at the moment a limiter is
 * made, in both module formats, and a literal one is what bundlers follow.
 */

/** @returns {typeof import("ioredis") | undefined} ioredis, if it is installed */
module.exports = function loadIoredis() {
  try {
    return require("ioredis");
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "MODULE_NOT_FOUND") return undefined;
    throw error;
  }
};
