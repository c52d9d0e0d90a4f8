/** Random policies and histories for the memory store and Redis to agree on. */
import {
  type Decision,
  fixedWindow,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";
import fc from "fast-check";
import { clockedScript } from "./clock.ts";
import { pairOf, type Script, SOMEBODY } from "./pair.ts";
import type { RedisServer } from "./redis.ts";

const limit = fc.integer({ min: 0, max: 12 });
const window = fc.oneof(fc.constantFrom(1, 7, 100, 1000, 60_000), fc.integer({ min: 1, max: 90_000 }));
const rate = fc.oneof(
  fc.constantFrom(1, 2, 5, 1 / 3, 1000),
  fc.double({ min: 0.001, max: 1000, noNaN: true, noDefaultInfinity: true }),
);

/** A policy of each algorithm, by tag. */
export const policyOf = {
  tb: fc.record({ capacity: limit, refillPerSecond: rate }).map(tokenBucket),
  sw: fc.record({ limit, window }).map(slidingWindow),
  sl: fc.record({ limit, window }).map(slidingLog),
  fw: fc.record({ limit, window }).map(fixedWindow),
} satisfies Record<string, fc.Arbitrary<Policy>>;

/** One request: how long after the one before (ms, fewer than 0: the server's clock steps back), and its cost. */
export interface Step {
  readonly after: number;
  readonly cost: number;
  /** Redis is late to expire what it may. Never early. */
  readonly late: boolean;
  /** The request is decided by the other numbers. */
  readonly changed: boolean;
}

const after = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 400 }) },
  { weight: 3, arbitrary: fc.double({ min: 0, max: 3, noNaN: true }) },
  { weight: 2, arbitrary: fc.integer({ min: 0, max: 120_000 }) },
  { weight: 1, arbitrary: fc.constantFrom(-5_000, -3_600_000, -1, -0.004, 3_600_000) },
);

const cost = fc.oneof(fc.constantFrom(0, 1, 1), fc.integer({ min: 0, max: 13 }));

const stepsWith = (late: fc.Arbitrary<boolean>, changed: fc.Arbitrary<boolean>): fc.Arbitrary<Step[]> =>
  fc.array(fc.record({ after, cost, late, changed }), { minLength: 1, maxLength: 25 });

/** A late expiry changes no answer under the numbers that set it; so histories have either those or other numbers. */
export const steps: fc.Arbitrary<Step[]> = fc.oneof(
  stepsWith(fc.boolean(), fc.constant(false)),
  stepsWith(fc.constant(false), fc.boolean()),
);

/** A set of policies, and the same names and algorithms with other numbers. */
export interface Plan {
  readonly policies: Record<string, Policy>;
  readonly changed: Record<string, Policy>;
}

const planOf = (...numbers: fc.Arbitrary<Policy>[]): fc.Arbitrary<Plan> =>
  fc.tuple(...numbers.map((policy) => fc.tuple(policy, policy))).map((pairs) => ({
    policies: Object.fromEntries(pairs.map(([policy], i) => [`p${i}`, policy])),
    changed: Object.fromEntries(pairs.map(([, policy], i) => [`p${i}`, policy])),
  }));

const tags = Object.keys(policyOf) as (keyof typeof policyOf)[];

/** One to four policies, of any algorithms. */
export const several: fc.Arbitrary<Plan> = fc
  .array(fc.constantFrom(...tags), { minLength: 1, maxLength: 4 })
  .chain((chosen) => planOf(...chosen.map((tag) => policyOf[tag])));

export const only = (tag: keyof typeof policyOf): fc.Arbitrary<Plan> => planOf(policyOf[tag]);

export interface Disagreement {
  readonly step: number;
  readonly memory: Decision;
  readonly redis: Decision;
}

/** Plays a history on both stores, and gives the first step at which they differ. */
export async function play(
  server: RedisServer,
  { policies, changed }: Plan,
  history: readonly Step[],
  script: Script = clockedScript,
): Promise<Disagreement | undefined> {
  const pair = pairOf(server, policies, script, changed);
  try {
    for (const [step, { after, cost, late, changed }] of history.entries()) {
      // What has ended is forgotten before the clock steps back: a lifetime is a promise about time going on.
      if (after < 0) await pair.expire();
      pair.clock.advance(after);
      await pair.expire(late);
      const limiters = changed ? pair.changed : pair;
      const [memory, redis] = await Promise.all([
        limiters.memory.decide({ identity: SOMEBODY, cost }),
        limiters.redis.decide({ identity: SOMEBODY, cost }),
      ]);
      if (JSON.stringify(memory) !== JSON.stringify(redis)) return { step, memory, redis };
    }
    return undefined;
  } finally {
    await pair.close();
  }
}
