/** The Redis server that tests and the demo start for themselves. */
import { run } from "./run.js";
import { ensureProgram } from "./system-package.js";

/** Scripts that declare their flags came with Redis 7. */
const OLDEST = 7;

/**
 * The path of a redis-server that is new enough, installed first when there is none.
 *
 * @returns {string}
 */
export function ensureRedisServer() {
  const path = ensureProgram("redis-server", {
    "apt-get": "redis-server",
    apk: "redis",
    dnf: "redis",
    brew: "redis",
  });
  const { output } = run(path, ["--version"]);
  const version = output.match(/v=(\d+)\.[\d.]+/);
  if (Number(version?.[1]) >= OLDEST) return path;
  throw new Error(
    `${path} must be Redis ${OLDEST}.0 or newer, but it says "${output}": put a newer redis-server first on PATH.`,
  );
}
