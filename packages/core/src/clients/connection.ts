import { ConfigError } from "../errors.ts";
import type { ClusterClient, ScriptClient } from "./client.ts";
import { ioredisCluster } from "./ioredis-cluster.ts";
import { ioredisClient, type IoredisOptions } from "./ioredis.ts";
import { type IoredisLike, isIoredis, isIoredisCluster } from "./ioredis-shape.ts";
import { nodeRedisClient } from "./node-redis.ts";
import { nodeRedisCluster } from "./node-redis-cluster.ts";
import {
  isNodeRedis,
  isNodeRedisCluster,
  isNodeRedisPool,
  isNodeRedisSentinel,
  type NodeRedisCluster,
  type NodeRedisLike,
} from "./node-redis-shape.ts";

/** What may be given as `redis`: a URL, a client of a library we know, or an implementation of our contract. */
export type RedisInput =
  | string
  | IoredisLike
  | NodeRedisLike
  | NodeRedisCluster
  | ScriptClient
  | ClusterClient;

/** How a limiter reaches its server, or its Cluster. */
export type Connection = { readonly client: ScriptClient } | { readonly cluster: ClusterClient };

/** @throws ConfigError when `redis` is nothing that we know */
export function connectionOf(redis: RedisInput, options: IoredisOptions): Connection {
  if (typeof redis === "string") return { client: ioredisClient(redis) };
  if (isIoredis(redis))
    return isIoredisCluster(redis)
      ? { cluster: ioredisCluster(redis, options) }
      : { client: ioredisClient(redis, options) };
  if (isNodeRedisCluster(redis)) return { cluster: nodeRedisCluster(redis, options) };
  if (isNodeRedis(redis)) return { client: nodeRedisClient(redis, options) };
  if (isScriptClient(redis)) return { client: redis };
  if (isClusterClient(redis)) return { cluster: redis };
  throw new ConfigError("TIDEGATE_CLIENT_UNKNOWN", "redis", redis, adviceFor(redis));
}

function adviceFor(redis: unknown): string {
  if (isNodeRedisPool(redis))
    return "a pool of node-redis is not used, as one connection is enough; give a client made by createClient";
  if (isNodeRedisSentinel(redis))
    return "a Sentinel client of node-redis is not used, as it sends commands twice; give one of ioredis, made with sentinels";
  return "give a URL such as redis://localhost:6379, a client of ioredis, iovalkey or node-redis 5 or 6, or your own ScriptClient or ClusterClient";
}

const has = (value: unknown, ...functions: string[]): boolean =>
  typeof value === "object" &&
  value !== null &&
  functions.every((name) => typeof (value as Record<string, unknown>)[name] === "function");

const isScriptClient = (value: unknown): value is ScriptClient => has(value, "send", "onState", "close");

const isClusterClient = (value: unknown): value is ClusterClient => has(value, "ownerOf", "node", "onChange");
