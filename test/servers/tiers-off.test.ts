/** The contract of a store without what stands in front of it: each question is a command of its own. */
import { createLimiter } from "@tidegate/core";
import { storeContract } from "../contract/store.ts";
import { startRedis } from "../harness/redis.ts";

storeContract("without batches and without a memory of refusals", async () => {
  const server = await startRedis();
  return {
    limiter: (wanted) => createLimiter({ ...wanted, redis: server.url, coalesce: false, denyCache: false }),
    async lifetimes(prefix) {
      const keys = await server.client.keys(`${prefix}:*`);
      const left = await Promise.all(keys.map((key) => server.client.pttl(key)));
      return new Map(keys.map((key, i) => [key, left[i]!]));
    },
    forgetScripts: () => server.client.script("FLUSH"),
    stop: () => server.stop(),
  };
});
