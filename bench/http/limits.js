/** What every limiter of the HTTP section is set to: it counts by `x-id`, and refuses nobody. */
import { tokenBucket } from "@tidegate/core";

/** @typedef {"none" | "slidingWindow" | "tokenBucket" | "peer" | "other"} Limiter `peer`: the one most used there; `other`: another */
/** @typedef {import("@tidegate/core").EventListener} EventListener */

/**
 * An application on a free port of 127.0.0.1, which says `ok` to `GET /`.
 *
 * @typedef {(limiter: Limiter, redis: string, onEvent: EventListener) => Promise<import("node:http").Server>} Serve
 */

/** More than one identity asks for within a window. */
export const PLENTY = 1_000_000;
export const WINDOW_MS = 60_000;

/** @param {{ headers: import("node:http").IncomingHttpHeaders }} request */
export const identityOf = ({ headers }) => String(headers["x-id"]);

/**
 * As in the README: what is not said here is as it is by default.
 *
 * @param {Limiter} limiter
 * @param {string} redis
 * @param {EventListener} onEvent
 * @returns {import("@tidegate/core").Config}
 */
export function tidegate(limiter, redis, onEvent) {
  const config = { redis, onEvent, by: identityOf };
  if (limiter === "slidingWindow") return { ...config, limit: PLENTY, window: WINDOW_MS };
  if (limiter !== "tokenBucket") throw new Error(`there is no ${limiter} for this framework`);
  // Slower than it is asked: a bucket that is full again is a key that goes.
  return { ...config, policies: { default: tokenBucket({ capacity: PLENTY, refillPerSecond: 1 }) } };
}
