/** All three stores on a Cluster, where a script may touch keys of one slot only. */
import { slidingWindow } from "@tidegate/core";
import { tidegateStore as expressStore } from "@tidegate/compat/express-rate-limit";
import { tidegateStore as fastifyStore } from "@tidegate/compat/fastify-rate-limit";
import { tidegateStore as nestStorage } from "@tidegate/compat/nestjs-throttler";
import { Cluster } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { startLoneCluster } from "../clients-contract/lone-cluster.ts";
import type { RedisServer } from "../harness/redis.ts";

let server: RedisServer;
let cluster: Cluster;
beforeAll(async () => {
  server = await startLoneCluster();
  cluster = new Cluster([{ host: "127.0.0.1", port: server.port }]);
});
beforeEach(() => server.client.flushall());
afterAll(async () => {
  cluster.disconnect();
  await server.stop();
});

/** The rule closed: no failure passes for a decision. */
const options = () => ({ redis: cluster, timeoutMs: 10_000, onFailure: "closed" }) as const;

const KEYS = ["203.0.113.7", "}", "{}", "{x}y", "a b", "ключ", "x".repeat(200)];

describe("on a Cluster", () => {
  it.each(KEYS)("express-rate-limit counts, gives back and forgets %j", async (key) => {
    const store = expressStore(options());
    onTestFinished(() => store.shutdown());
    store.init({ windowMs: 60_000, limit: 2, skipFailedRequests: true });
    await store.increment(key);
    expect((await store.increment(key)).totalHits).toBe(2);
    await store.decrement(key);
    expect((await store.get(key))!.totalHits).toBe(1);
    await store.resetKey(key);
    expect(await store.get(key)).toBeUndefined();
  });

  it.each(KEYS)("@fastify/rate-limit counts, and keeps %j away", async (key) => {
    const Store = fastifyStore(options());
    onTestFinished(() => Store.close());
    const count = (store: InstanceType<typeof Store>) =>
      new Promise<number>((resolve, reject) =>
        store.incr(key, (error, count) => (error ? reject(error) : resolve(count!.current)), 60_000, 1),
      );
    const plain = new Store({});
    const penal = plain.child({ continueExceeding: true, routeInfo: { method: "GET", url: "/" } });
    for (const store of [plain, penal]) {
      const seen = [];
      for (let i = 0; i < 4; i++) seen.push(await count(store));
      expect(seen).toEqual([1, 2, 3, 4]);
    }
  });

  it.each([undefined, slidingWindow])(
    "@nestjs/throttler limits and blocks, algorithm %o",
    async (algorithm) => {
      const storage = nestStorage({ ...options(), ...(algorithm && { algorithm }) });
      onTestFinished(() => storage.onApplicationShutdown());
      for (const key of KEYS) {
        const asked = () => storage.increment(key, 60_000, 1, 600_000, "default");
        const told = [await asked(), await asked(), await asked()];
        expect(told.map(({ isBlocked }) => isBlocked)).toEqual([false, true, true]);
        expect(told[2]!.timeToBlockExpire).toBeGreaterThan(540);
      }
    },
  );
});
