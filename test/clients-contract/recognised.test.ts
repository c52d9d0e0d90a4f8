/** What applications have is what `redis` takes, without a cast: this file is type-checked. */
import { type Config, createLimiter } from "@tidegate/core";
import { Cluster, Redis } from "ioredis";
import { Cluster as Cluster5, Redis as Redis5 } from "ioredis5";
import { Cluster as ValkeyCluster, Redis as Valkey } from "iovalkey";
import { createClient, createClientPool, createCluster, createSentinel } from "redis";
import {
  createClient as createClient5,
  createClientPool as createClientPool5,
  createCluster as createCluster5,
  createSentinel as createSentinel5,
} from "redis5";
import { describe, expect, it } from "vitest";

const nodes = [{ host: "127.0.0.1", port: 1 }];
const rootNodes = [{ url: "redis://127.0.0.1:1" }];
const lazy = { lazyConnect: true };

const clients: [name: string, redis: NonNullable<Config["redis"]>][] = [
  ["ioredis 6", new Redis(lazy)],
  ["ioredis 6, a Cluster", new Cluster(nodes, lazy)],
  ["ioredis 5", new Redis5(lazy)],
  ["ioredis 5, a Cluster", new Cluster5(nodes, lazy)],
  ["iovalkey", new Valkey(lazy)],
  ["iovalkey, a Cluster", new ValkeyCluster(nodes, lazy)],
  ["node-redis 6", createClient()],
  ["node-redis 6 with RESP2", createClient({ RESP: 2, name: "orders" })],
  ["node-redis 6, a Cluster", createCluster({ rootNodes })],
  ["node-redis 5", createClient5()],
  ["node-redis 5, a Cluster", createCluster5({ rootNodes })],
];

it.each(clients)("takes a client of %s", async (_, redis) => {
  const limiter = createLimiter({ redis, limit: 1, window: "1s", timeoutMs: 5 });
  expect((await limiter.decide({ identity: "somebody" })).degraded?.rule).toBe("open");
  await limiter.close();
});

const sentinels = { name: "main", sentinelRootNodes: [{ host: "127.0.0.1", port: 1 }] };

describe.each([
  ["a pool of node-redis 6", () => createClientPool(), /^redis: a pool of node-redis is not used/],
  ["a pool of node-redis 5", () => createClientPool5(), /^redis: a pool of node-redis is not used/],
  ["a Sentinel client of node-redis 6", () => createSentinel(sentinels), /^redis: a Sentinel client/],
  ["a Sentinel client of node-redis 5", () => createSentinel5(sentinels), /^redis: a Sentinel client/],
  ["something else", () => ({ get: () => {} }), /your own ScriptClient or ClusterClient/],
])("%s", (_, make, message) => {
  it.each([true, false])(
    "is refused, and it is said what to give instead (shared: %s)",
    (shareConnection) => {
      const redis = make() as unknown as NonNullable<Config["redis"]>;
      expect(() => createLimiter({ redis, shareConnection, limit: 1, window: "1s" })).toThrow(
        expect.objectContaining({
          code: "TIDEGATE_CLIENT_UNKNOWN",
          message: expect.stringMatching(message),
        }),
      );
    },
  );
});

it.each([
  ["node-redis 6", createCluster({ rootNodes, keyPrefix: "{app}:" })],
  ["ioredis 6", new Cluster(nodes, { ...lazy, keyPrefix: "{app}:" })],
])("a Cluster client of %s whose keyPrefix has braces is refused", (_, redis) => {
  for (const shareConnection of [true, false])
    expect(() => createLimiter({ redis, shareConnection, limit: 1, window: "1s" })).toThrow(
      expect.objectContaining({ code: "TIDEGATE_OPTION_INVALID", value: "{app}:" }),
    );
});
