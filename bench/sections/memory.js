/** Bytes in Redis per identity: what its key and its share of Redis' tables take. */
import { ioredisClient, redisStore } from "@tidegate/core";
import { show, table } from "../lib/numbers.js";
import { ask, check, PLENTY } from "../subjects/tidegate.js";

/** @typedef {{ name: string, hits: number, identities: number, bytes: number }[]} Result */

const BATCH = 64;
const MUST = { gcra: 135, fixedWindow: 135, slidingWindow: 150, tokenBucket: 170 };

/** @type {import("./section.js").Section<Result>} */
export const memory = {
  title: "Bytes in Redis per identity",

  async measure({ redis, quick }) {
    // Both fill Redis' tables, which double, to the same degree.
    const identities = quick ? 12_500 : 100_000;
    const store = redisStore(ioredisClient(redis.url));
    /** @type {Result} */
    const result = [];
    /** @type {(name: keyof typeof PLENTY, hits: number, identities: number) => Promise<void>} */
    const row = async (name, hits, identities) => {
      await redis.control.flushall();
      await redis.control.memory("PURGE");
      const before = await redis.memory();
      for (let hit = 0; hit < hits; hit++) await touch(store, PLENTY[name], identities);
      result.push({ name, hits, identities, bytes: ((await redis.memory()) - before) / identities });
    };
    // Buffers grow on first use, and are no identity's.
    await touch(store, PLENTY.fixedWindow, BATCH);
    await row("tokenBucket", 1, identities);
    await row("slidingWindow", 1, identities);
    await row("fixedWindow", 1, identities);
    await row("gcra", 1, identities);
    await row("concurrency", 1, identities);
    await row("concurrency", 5, identities);
    await row("slidingLog", 1, identities);
    await row("slidingLog", 50, identities / 10);
    await store.close();
    await redis.control.flushall();
    return result;
  },

  show: (result) =>
    table(
      ["", "hits", "identities", "bytes per identity"],
      result.map(({ name, hits, identities, bytes }) => [name, `${hits}`, `${identities}`, show(bytes, 0)]),
    ),

  figures: (result) =>
    Object.entries(MUST).map(([name, must]) => ({
      what: `bytes per identity, ${name}`,
      measured: result.find((row) => row.name === name)?.bytes ?? NaN,
      must,
      goal: must,
    })),
};

/**
 * One decision on each identity.
 *
 * @param {import("@tidegate/core").Store} store
 * @param {import("@tidegate/core").Policy} policy
 * @param {number} identities
 */
async function touch(store, policy, identities) {
  for (let first = 0; first < identities; first += BATCH) {
    const length = Math.min(BATCH, identities - first);
    await ask(
      store,
      Array.from({ length }, (_, i) => check([policy], first + i)),
    );
  }
}
