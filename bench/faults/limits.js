/** What all applications have in common: they count by `x-id`, refuse nobody, and say `ok`. */
import { Redis } from "ioredis";

/** @typedef {(redis: string) => Promise<import("node:http").Server>} Serve */

/** More than anybody asks for. */
export const PLENTY = 1_000_000;
/** Longer than a run: no count ends in it. */
export const WINDOW_MS = 3_600_000;

/** @param {{ headers: import("node:http").IncomingHttpHeaders }} request */
export const identityOf = ({ headers }) => String(headers["x-id"]);

/** What the READMEs of several limiters show for the client. */
export const RECOMMENDED = { connectTimeout: 500, maxRetriesPerRequest: 1 };

/**
 * @param {string} url
 * @param {Pick<import("ioredis").RedisOptions, "connectTimeout" | "maxRetriesPerRequest" | "enableOfflineQueue">} options
 */
export function connected(url, options) {
  const client = new Redis(url, options);
  // Without a listener ioredis writes each attempt that failed to the log.
  client.on("error", () => {});
  return client;
}
