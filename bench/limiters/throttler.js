/** The Redis storage of @nestjs/throttler, which decides; its guard answers. */
import { ThrottlerStorageRedisService } from "@nest-lab/throttler-storage-redis";
import { connected, verdict } from "./limiter.js";

/** @type {import("./limiter.js").Open} */
export async function open(_, target, { limit, windowMs }) {
  const client = await connected(target);
  const storage = new ThrottlerStorageRedisService(/** @type {import("ioredis").Redis} */ (client));
  return {
    ask: (identity) => storage.increment(identity, windowMs, limit, windowMs, "default"),
    read: ({ isBlocked }) => verdict(!isBlocked),
    close: () => client.disconnect(),
  };
}
