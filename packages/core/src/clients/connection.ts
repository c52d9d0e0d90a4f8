import { ConfigError } from "../errors.ts";
import type { ClusterClient, ScriptClient } from "./client.ts";
import { ioredisCluster } from "./ioredis-cluster.ts";
import { ioredisClient, type IoredisOptions } from "./ioredis.ts";
import { type IoredisLike, isIoredis, isIoredisCluster } from "./ioredis-shape.ts";

/** What may be given as `redis`: a URL, a client of a library we know, or an implementation of our contract. */
export type RedisInput = string | IoredisLike | ScriptClient | ClusterClient;

/** How a limiter reaches its server, or its Cluster. */
export type Connection = { readonly client: ScriptClient } | { readonly cluster: ClusterClient };

/** @throws ConfigError when `redis` is nothing that we know */
export function connectionOf(redis: RedisInput, options: IoredisOptions): Connection {
  if (typeof redis === "string") return { client: ioredisClient(redis) };
  if (isIoredis(redis))
    return isIoredisCluster(redis)
      ? { cluster: ioredisCluster(redis, options) }
      : { client: ioredisClient(redis, options) };
  if (isScriptClient(redis)) return { client: redis };
  if (isClusterClient(redis)) return { cluster: redis };
  const advice =
    "give a URL such as redis://localhost:6379, a client of ioredis, iovalkey or node-redis, or a ScriptClient of your own";
  throw new ConfigError("TIDEGATE_CLIENT_UNKNOWN", "redis", redis, advice);
}

const has = (value: unknown, ...functions: string[]): boolean =>
  typeof value === "object" &&
  value !== null &&
  functions.every((name) => typeof (value as Record<string, unknown>)[name] === "function");

const isScriptClient = (value: unknown): value is ScriptClient => has(value, "send", "onState", "close");

const isClusterClient = (value: unknown): value is ClusterClient => has(value, "ownerOf", "node", "onChange");
