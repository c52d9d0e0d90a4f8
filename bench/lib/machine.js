/** Where and with what a run was made. */
import { readFileSync } from "node:fs";
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
    packages: MEASURED.map((name) => `${name} ${versionOf(name)}`).join(", "),
  };
}

/** What stands in a row of its own, and what it stands on. */
const MEASURED = [
  "ioredis",
  "express",
  "fastify",
  "koa",
  "@nestjs/core",
  "express-rate-limit",
  "rate-limit-redis",
  "@fastify/rate-limit",
  "koa-ratelimit",
  "rate-limiter-flexible",
  "@nestjs/throttler",
  "@nest-lab/throttler-storage-redis",
];

/** @param {string} name */
function versionOf(name) {
  const manifest = new URL(`../node_modules/${name}/package.json`, import.meta.url);
  return String(JSON.parse(readFileSync(manifest, "utf8")).version);
}
