import {
  type Check,
  ioredisClient,
  memoryStore,
  type Outcome,
  type Policy,
  redisStore,
  type Store,
  type StoreError,
} from "@tidegate/core";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { clockedClient, clockedScripts, fakeClock } from "../harness/clock.ts";
import { EPOCH_MS, expireKeys, freshPrefix } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { policyOf, type Tag } from "../harness/twins.ts";

let server: RedisServer;
let client: ReturnType<typeof ioredisClient>;
beforeAll(async () => {
  server = await startRedis();
  client = ioredisClient(server.url);
});
afterAll(async () => {
  await client.close();
  await server.stop();
});

/** What is asked of a batch: whose, which of the policies, at which cost, and whether only to look. */
interface Asked {
  readonly who: number;
  readonly which: readonly number[];
  readonly cost: number;
  readonly peek: boolean;
}

const asked: fc.Arbitrary<Asked> = fc.record({
  who: fc.nat(2),
  which: fc.uniqueArray(fc.nat(3), { minLength: 1, maxLength: 4 }),
  cost: fc.nat(4),
  peek: fc.boolean(),
});

const policies = fc
  .tuple(...Array.from({ length: 4 }, () => fc.constantFrom(...(Object.keys(policyOf) as Tag[]))))
  .chain((tags) => fc.tuple(...tags.map((tag): fc.Arbitrary<Policy> => policyOf[tag])));

/** The last policy counts everybody together. */
const checkOf = (
  prefix: string,
  all: readonly Policy[],
  { who, which, cost, peek }: Asked,
  i: number,
): Check => ({
  policies: which.map((p) => all[p]!),
  keys: which.map((p) => `${prefix}:{${p === 3 ? "all:-" : `id:${who}`}}:p${p}:${all[p]!.algorithm.tag}`),
  costs: which.map(() => cost),
  deadline: Infinity,
  peek,
  blocks: [],
  lease: `lease-${i}`,
  nonce: undefined,
});

type Answer = [StoreError | undefined, Outcome | undefined];

describe("a batch", () => {
  it(
    "is decided as its checks would be one by one: mixed policies, costs and identities, one of them everybody's",
    { timeout: 120_000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(
          policies,
          fc.array(fc.array(asked, { minLength: 1, maxLength: 64 }), { maxLength: 4 }),
          fc.array(fc.nat(900)),
          async (all, batches, gaps) => {
            await server.client.flushdb();
            const clock = fakeClock(EPOCH_MS * 1000);
            const prefix = freshPrefix();
            const memory = memoryStore({ nowUs: clock.now });
            const redis = redisStore(clockedClient(client, clock), { scripts: clockedScripts });
            for (const [i, batch] of batches.entries()) {
              clock.advance(gaps[i] ?? 0);
              await expireKeys(server, prefix, clock);
              const checks = batch.map((one, j) => checkOf(prefix, all, one, 100 * i + j));
              const whole = await answersOf(redis, checks);
              const single = await Promise.all(
                checks.map((check) => answersOf(memory, [check]).then(([answer]) => answer)),
              );
              expect(whole).toEqual(single);
            }
            await memory.close();
          },
        ),
        { numRuns: 1000 },
      );
    },
  );
});

/** Every check's answer to one batch. */
const answersOf = (store: Store, batch: readonly Check[]): Promise<Answer[]> =>
  new Promise((resolve) => {
    const answers: Answer[] = [];
    let missing = batch.length;
    const done = batch.map((_, i) => (...answer: Answer) => {
      answers[i] = answer;
      if (--missing === 0) resolve(answers);
    });
    store.decide(batch, done);
  });
