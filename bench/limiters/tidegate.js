/** Ours, as it is by default, but for a deadline that stalls of a busy machine do not meet. */
import { createLimiter, fixedWindow, slidingWindow, tokenBucket } from "@tidegate/core";
import { connected, SLOW_S, verdict } from "./limiter.js";

/** @typedef {import("@tidegate/core").Config} Config */
/** @typedef {import("@tidegate/core").Limiter} Limiter */
/** @typedef {import("./limiter.js").Limit} Limit */

/** With the usual 50 ms a stall is answered without Redis, and an open breaker answers at any rate. */
const TIMEOUT_MS = 1000;

/** @type {import("./limiter.js").Open} */
export async function open(name, target, limit) {
  const [, how = ""] = name.split(":");
  const redis = "url" in target ? target.url : await connected(target);
  const limiters = configs(how, limit).map((config) =>
    createLimiter({ redis, prefix: name, timeoutMs: TIMEOUT_MS, ...config }),
  );
  return {
    ask: asking(how, limiters),
    read: ({ allowed, degraded }) => (degraded ? "degraded" : verdict(allowed)),
    async close() {
      for (const limiter of limiters) await limiter.close();
      if (typeof redis !== "string") redis.disconnect();
    },
  };
}

/**
 * Of each limiter that a decision asks.
 *
 * @param {string} how
 * @param {Limit} size
 * @returns {Config[]}
 */
function configs(how, { limit, windowMs: window }) {
  const bucket = tokenBucket({ capacity: limit, refillPerSecond: limit / SLOW_S });
  const sliding = slidingWindow({ limit, window });
  const fixed = fixedWindow({ limit, window });
  if (how === "tokenBucket") return [{ policies: { bucket } }];
  if (how === "three") return [{ policies: { bucket, sliding, fixed } }];
  if (how === "three-calls")
    return [{ policies: { bucket } }, { policies: { sliding } }, { policies: { fixed } }];
  if (how.endsWith("shards")) return [{ policies: { sliding: slidingWindow({ limit, window, shards: 8 }) } }];
  return [{ limit, window }];
}

/**
 * @param {string} how
 * @param {Limiter[]} limiters
 * @returns {import("./limiter.js").Opened["ask"]}
 */
function asking(how, limiters) {
  const [only] = limiters;
  if (limiters.length > 1 || !only) return inTurn(limiters);
  if (!how.startsWith("unlike")) return (identity) => only.decide({ identity });
  // Neighbours that differ in their cost may go together, but not as one.
  let asked = 0;
  return (identity) => only.decide({ identity, cost: 1 + (asked++ % 2) });
}

/**
 * One after the other, as middleware in a row does.
 *
 * @param {Limiter[]} limiters
 */
function inTurn(limiters) {
  return async (/** @type {string} */ identity) => {
    let decision;
    for (const limiter of limiters) {
      decision = await limiter.decide({ identity });
      if (!decision.allowed || decision.degraded) break;
    }
    return decision;
  };
}
