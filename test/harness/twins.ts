/** Random policies and histories for the memory store and Redis to agree on. */
import {
  concurrency,
  type Decision,
  fixedWindow,
  gcra,
  type Limiter,
  type Policy,
  type Settlement,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";
import fc from "fast-check";
import { clockedScripts } from "./clock.ts";
import { pairOf, type Scripts, SOMEBODY } from "./pair.ts";
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
  fk: fc
    .record({ limit, window: fc.integer({ min: 1000, max: 90_000 }) })
    .map((options) => fixedWindow({ ...options, align: "clock" })),
  fd: fc
    .record({ limit, window: fc.constantFrom("day" as const, "week" as const, "month" as const) })
    .map((options) => fixedWindow({ ...options, timeZone: "Europe/Berlin" })),
  gc: fc.record({ limit, window: fc.integer({ min: 1, max: 90_000 }), burst: limit }).map(gcra),
  // Long leases: a heartbeat is of real time, and would renew one store's between two given moments.
  cc: fc.record({ limit, leaseMs: fc.integer({ min: 60_000, max: 300_000 }) }).map(concurrency),
} satisfies Record<string, fc.Arbitrary<Policy>>;

/** What happens next: how long after the one before (ms, fewer than 0: the server's clock steps back), and what. */
export interface Step {
  readonly after: number;
  readonly act: Act;
  /** Redis is late to expire what it may. Never early. */
  readonly late: boolean;
  /** The limiter with the other numbers does it. */
  readonly changed: boolean;
}

type Act =
  | { readonly kind: "decide" | "peek"; readonly cost: number; readonly key?: string | undefined }
  /** Of the decisions not yet settled, the nth. */
  | { readonly kind: "settle"; readonly nth: number; readonly outcome: Settlement }
  | { readonly kind: "reset" | "unblock" }
  | { readonly kind: "block"; readonly ms: number | "forever" };

const after = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 400 }) },
  { weight: 3, arbitrary: fc.double({ min: 0, max: 3, noNaN: true }) },
  { weight: 2, arbitrary: fc.integer({ min: 0, max: 200_000 }) },
  { weight: 1, arbitrary: fc.constantFrom(-5_000, -3_600_000, -1, -0.004, 3_600_000) },
);

const cost = fc.oneof(fc.constantFrom(0, 1, 1), fc.integer({ min: 0, max: 13 }));

const decide = fc.record({ kind: fc.constant("decide" as const), cost });
const settle = fc.record({
  kind: fc.constant("settle" as const),
  nth: fc.nat(3),
  outcome: fc.oneof(fc.constantFrom("giveBack" as const, "keep" as const), fc.nat(20)),
});

const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 12, arbitrary: decide },
  { weight: 4, arbitrary: settle },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("peek" as const), cost }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("decide" as const), cost, key: fc.constantFrom("a", "b") }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom("reset" as const, "unblock" as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("block" as const),
      ms: fc.constantFrom(1, 50, 5000, "forever" as const),
    }),
  },
);

const stepsWith = (late: fc.Arbitrary<boolean>, changed: fc.Arbitrary<boolean>): fc.Arbitrary<Step[]> =>
  fc.array(fc.record({ after, act, late, changed }), { minLength: 1, maxLength: 30 });

/** A late expiry changes no answer under the numbers that set it; so histories have either those or other numbers. */
export const steps: fc.Arbitrary<Step[]> = fc.oneof(
  stepsWith(fc.boolean(), fc.constant(false)),
  stepsWith(fc.constant(false), fc.boolean()),
);

/** Limits on trial and enforced ones. */
const anyMode = fc.constantFrom<Policy["mode"]>("enforce", "enforce", "enforce", "shadow");

/** A set of policies, and the same names and algorithms with other numbers. */
export interface Plan {
  readonly policies: Record<string, Policy>;
  readonly changed: Record<string, Policy>;
}

const planOf = (...numbers: fc.Arbitrary<Policy>[]): fc.Arbitrary<Plan> =>
  fc
    .tuple(
      ...numbers.map((policy) =>
        fc.tuple(policy, policy, anyMode).map(
          ([a, b, mode]) =>
            [
              { ...a, mode },
              { ...b, mode },
            ] as const,
        ),
      ),
    )
    .map((pairs) => ({
      policies: Object.fromEntries(pairs.map(([policy], i) => [`p${i}`, policy])),
      changed: Object.fromEntries(pairs.map(([, policy], i) => [`p${i}`, policy])),
      [fc.toStringMethod]: () => JSON.stringify(pairs.map((pair) => pair.map(briefly))),
    }));

/** What a counterexample has to say of a policy. */
const briefly = ({ algorithm, numbers, mode }: Policy) => ({ tag: algorithm.tag, mode, ...numbers });

export type Tag = keyof typeof policyOf;

const tags = Object.keys(policyOf) as Tag[];

/** One to four policies, of any algorithms. */
export const several: fc.Arbitrary<Plan> = fc
  .array(fc.constantFrom(...tags), { minLength: 1, maxLength: 4 })
  .chain((chosen) => planOf(...chosen.map((tag) => policyOf[tag])));

export const only = (tag: Tag): fc.Arbitrary<Plan> => planOf(policyOf[tag]);

/** What an act came to, but for the ids of leases, which are never the same. */
const told = (result: unknown): string =>
  JSON.stringify(result, (name, value: unknown) => (name === "lease" ? undefined : value)) ?? "";

export interface Disagreement {
  readonly step: number;
  readonly memory: unknown;
  readonly redis: unknown;
}

/** Plays a history on both stores, and gives the first step at which they differ. */
export async function play(
  server: RedisServer,
  { policies, changed }: Plan,
  history: readonly Step[],
  scripts: Scripts = clockedScripts,
): Promise<Disagreement | undefined> {
  await server.client.flushdb();
  const pair = pairOf(server, policies, scripts, changed);
  const open = { memory: [] as Settled[], redis: [] as Settled[] };
  try {
    for (const [step, { after, act, late, changed }] of history.entries()) {
      // What has ended is forgotten before the clock steps back: a lifetime is a promise about time going on.
      if (after < 0) await pair.expire();
      pair.clock.advance(after);
      await pair.expire(late);
      const limiters = changed ? pair.changed : pair;
      const [memory, redis] = await Promise.all([
        perform(act, limiters.memory, open.memory),
        perform(act, limiters.redis, open.redis),
      ]);
      if (told(memory) !== told(redis)) return { step, memory, redis };
    }
    return undefined;
  } finally {
    await pair.close();
  }
}

interface Settled {
  readonly decision: Decision;
  /** Whoever decided settles. */
  readonly limiter: Limiter;
}

/** Does one thing, and shows what it came to: a decision, or a look afterwards. */
async function perform(act: Act, limiter: Limiter, open: Settled[]): Promise<unknown> {
  const identity = SOMEBODY;
  if (act.kind === "peek") return limiter.peek({ identity, cost: act.cost });
  if (act.kind === "decide") {
    const decision = await limiter.decide({
      identity,
      cost: act.cost,
      ...(act.key && { idempotencyKey: act.key }),
    });
    if (decision.receipt) open.push({ decision, limiter });
    return decision;
  }
  if (act.kind === "settle") {
    const [chosen] = open.splice(act.nth, 1);
    await chosen?.limiter.settle(chosen.decision, act.outcome);
  } else if (act.kind === "block") await limiter.block(identity, act.ms);
  else await limiter[act.kind](identity);
  return limiter.peek({ identity });
}
