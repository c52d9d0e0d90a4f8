import { RateLimiterRedis } from "rate-limiter-flexible";
import { connected } from "./limiter.js";

/** @type {import("./limiter.js").Open} */
export async function open(name, target, { limit, windowMs }) {
  const client = await connected(target);
  const limiter = new RateLimiterRedis({
    keyPrefix: name,
    points: limit,
    duration: windowMs / 1000,
    storeClient: client,
    ...(name.endsWith(":block") && { inMemoryBlockOnConsumed: limit + 1 }),
  });
  return {
    ask: (identity) => limiter.consume(identity),
    read: () => "allowed",
    failed(reason) {
      if (reason instanceof Error) throw reason;
      return "refused";
    },
    close: () => client.disconnect(),
  };
}
