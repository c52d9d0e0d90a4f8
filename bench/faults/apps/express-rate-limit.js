import { rateLimit } from "express-rate-limit";
import { RedisStore } from "rate-limit-redis";
import { connected, identityOf, PLENTY, RECOMMENDED, WINDOW_MS } from "../limits.js";
import { serveBehind } from "./express.js";

/** @type {import("../limits.js").Serve} */
export async function serve(url) {
  const client = connected(url, RECOMMENDED);
  const store = new RedisStore({
    sendCommand: (command, ...args) =>
      /** @type {Promise<import("rate-limit-redis").RedisReply>} */ (client.call(command, ...args)),
  });
  return serveBehind(
    rateLimit({
      limit: PLENTY,
      windowMs: WINDOW_MS,
      keyGenerator: identityOf,
      passOnStoreError: true,
      store,
      logger: { error() {}, warn() {} },
    }),
  );
}
