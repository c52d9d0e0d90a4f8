/** Limiters through any library, as subjects of the contract of every store. */
import { createLimiter } from "@tidegate/core";
import type { StoreSubject } from "../contract/store.ts";
import type { RedisServer } from "../harness/redis.ts";
import type { App } from "./libraries.ts";

/** @param makeApp makes a client as another process would have it */
export function storeSubject(servers: readonly RedisServer[], makeApp: () => App<unknown>): StoreSubject {
  return {
    limiter: (wanted) => createLimiter({ redis: makeApp().redis, ...wanted }),
    async lifetimes(prefix) {
      const found = await Promise.all(servers.map((server) => lifetimesOn(server, prefix)));
      return new Map(found.flat());
    },
    forgetScripts: () => Promise.all(servers.map(({ client }) => client.script("FLUSH"))),
    stop: async () => {}, // The servers are there for others as well.
  };
}

async function lifetimesOn({ client }: RedisServer, prefix: string): Promise<[key: string, ms: number][]> {
  const keys = await client.keys(`${prefix}:*`);
  return Promise.all(keys.map(async (key): Promise<[string, number]> => [key, await client.pttl(key)]));
}
