/*
 * CommonJS on purpose: only `require` finds or misses an optional peer at the moment a limiter is
 * made, in both module formats, and a literal one is what bundlers follow.
 */

/** @returns {{ Redis: new (url: string, options: object) => import("./ioredis-shape.js").IoredisServer } | undefined} ioredis, if it is installed */
module.exports = function loadIoredis() {
  try {
    return /** @type {any} */ (require("ioredis"));
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "MODULE_NOT_FOUND") return undefined;
    throw error;
  }
};
