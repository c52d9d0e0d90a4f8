/** Where and with what a run was made. */
import { cpus, loadavg, release, type } from "node:os";
import { pinned } from "./pin.js";

/** @typedef {Awaited<ReturnType<typeof facts>>} Facts */

/**
 * @param {import("./redis.js").Server} redis
 * @param {boolean} quick
 */
export async function facts(redis, quick) {
  return {
    date: new Date().toISOString(),
    quick,
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: cpus().length,
    system: `${type()} ${release()}`,
    node: process.version,
    redis: await redis.version(),
    pinned,
    load: (loadavg()[0] ?? 0).toFixed(2),
  };
}
