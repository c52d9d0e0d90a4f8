/** One server of any kind as a subject of the store contract, through a user of its own where one is given. */
import { createLimiter } from "@tidegate/core";
import type { StoreSubject } from "../contract/store.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import type { ServerName } from "../harness/servers.ts";

/** @param userOf makes a user on the server and says how a URL names it */
export async function serverSubject(
  name: ServerName,
  userOf: (server: RedisServer) => Promise<string> = async () => "",
): Promise<StoreSubject & { server: RedisServer }> {
  const server = await startRedis({ server: name });
  const login = await userOf(server);
  return {
    server,
    limiter: (wanted) => createLimiter({ redis: `redis://${login}127.0.0.1:${server.port}`, ...wanted }),
    async lifetimes(prefix) {
      const keys = await server.client.keys(`${prefix}:*`);
      const ms = await Promise.all(keys.map((key) => server.client.pttl(key)));
      return new Map(keys.map((key, i) => [key, ms[i]!]));
    },
    forgetScripts: () => server.client.script("FLUSH"),
    stop: () => server.stop(),
  };
}
