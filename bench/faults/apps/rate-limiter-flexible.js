import { RateLimiterMemory, RateLimiterRedis } from "rate-limiter-flexible";
import { connected, identityOf, PLENTY, WINDOW_MS } from "../limits.js";
import { serveBehind } from "./express.js";

/** @type {import("../limits.js").Serve} */
export async function serve(url) {
  const size = { points: PLENTY, duration: WINDOW_MS / 1000 };
  const limiter = new RateLimiterRedis({
    ...size,
    storeClient: connected(url, { enableOfflineQueue: false }),
    insuranceLimiter: new RateLimiterMemory(size),
    rejectIfRedisNotReady: true,
    inMemoryBlockOnConsumed: PLENTY + 1,
  });
  // It brings no middleware; its README shows this one.
  return serveBehind((req, res, next) => {
    limiter.consume(identityOf(req)).then(
      () => next(),
      (reason) => (reason instanceof Error ? next(reason) : void res.status(429).end()),
    );
  });
}
