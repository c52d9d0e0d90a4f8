/** The store of express-rate-limit, which counts; its middleware compares. */
import { RedisStore } from "rate-limit-redis";
import { connected, verdict } from "./limiter.js";

/** @type {import("./limiter.js").Open} */
export async function open(_, target, { limit, windowMs }) {
  const client = await connected(target);
  const store = new RedisStore({
    prefix: "rate-limit-redis:",
    sendCommand: (command, ...args) =>
      /** @type {Promise<import("rate-limit-redis").RedisReply>} */ (client.call(command, ...args)),
  });
  await store.init(/** @type {import("express-rate-limit").Options} */ ({ windowMs }));
  return {
    ask: (identity) => store.increment(identity),
    read: ({ totalHits }) => verdict(totalHits <= limit),
    close: () => client.disconnect(),
  };
}
