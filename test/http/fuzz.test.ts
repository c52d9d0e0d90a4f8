/** Policies, costs, states and clocks as nobody would think of: every answer is sound all the same. */
import {
  type Decision,
  fixedWindow,
  perRequest,
  type Policy,
  rateLimit,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/express";
import express, { type RequestHandler } from "express";
import fc from "fast-check";
import { expect, it } from "vitest";
import { listening, LOCAL, PATIENT, serve, storeKinds, useRedis, visit, watching } from "../harness/http.ts";

const redis = useRedis();
const { clock } = redis;

const TEN_YEARS = 10 * 365.25 * 86_400_000;
/** Small numbers, where the corners are, as often as any. */
const upTo = (most: number) => fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: most }));
const window = fc.oneof(fc.integer({ min: 1, max: 2000 }), fc.integer({ min: 1, max: TEN_YEARS }));
const rate = fc.oneof(
  fc.double({ min: 1e-8, max: 1e6, noNaN: true }),
  fc.integer({ min: 1, max: 1000 }).map((seconds) => 1 / seconds),
);

/** The most that a number in a header may be. */
const MOST = 999_999_999_999_999;

const makers = { tokenBucket, slidingWindow, slidingLog, fixedWindow };
/** What to call with what: fast-check shows it as it is. */
type Recipe = [maker: keyof typeof makers, options: object];
const make = ([maker, options]: Recipe): Policy => makers[maker](options as never);
const inWindow = (maker: Recipe[0], most: number): fc.Arbitrary<Recipe> =>
  fc.tuple(fc.constant(maker), fc.record({ limit: upTo(most), window }));

const policy: fc.Arbitrary<Recipe> = fc.oneof(
  fc.tuple(
    fc.constant<Recipe[0]>("tokenBucket"),
    fc
      .record({ capacity: upTo(9_007_199_254), refillPerSecond: rate })
      .filter(({ capacity, refillPerSecond }) => (capacity / refillPerSecond) * 1000 <= TEN_YEARS),
  ),
  inWindow("slidingWindow", 2 ** 32 - 1),
  inWindow("slidingLog", 1000),
  inWindow("fixedWindow", MOST),
);

const name = fc.stringMatching(/^[A-Za-z][A-Za-z0-9_.-]{0,63}$/);
const named = fc.uniqueArray(name, { selector: (text) => text.toLowerCase(), minLength: 1, maxLength: 4 });
const cost = fc.oneof(fc.integer({ min: 0, max: 12 }), fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }));
const gapMs = fc.oneof(
  fc.constant(0),
  fc.integer({ min: -1000, max: 1000 }),
  fc.double({ min: -3_600_000, max: 3_600_000, noNaN: true }),
  fc.integer({ min: 0, max: TEN_YEARS / 100 }),
);
/** What a stranger may have left under one of our keys. */
const foreign = fc.option(
  fc.oneof(fc.string(), fc.constantFrom("NaN", "inf", "-1", "1e400", "007", "99999999999999999")),
  {
    freq: 6,
    nil: undefined,
  },
);

const scenario = fc.record({
  policies: named.chain((names) =>
    fc
      .tuple(...names.map(() => fc.tuple(policy, policy)))
      .map((pairs) => names.map((each, i) => [each, ...pairs[i]!] as const)),
  ),
  requests: fc.array(fc.record({ cost, gapMs, other: fc.boolean() }), { minLength: 1, maxLength: 5 }),
  foreign,
});

it.each(storeKinds)(
  "250 limiters on %s: no crash, no NaN, nothing negative, only whole fields",
  async (kind) => {
    const decisions: (Decision | undefined)[] = [];
    let limit: RequestHandler = (_, __, next) => next();
    const server = listening(serve(express, (req, res, next) => limit(req, res, next)));

    await fc.assert(
      fc.asyncProperty(scenario, async ({ policies, requests, foreign }) => {
        clock.set(1_795_910_400_250);
        await redis.client.flushall();
        if (foreign !== undefined) {
          const [first, base] = policies[0]!;
          await redis.client.set(`${LOCAL}:${first}:${make(base).algorithm.tag}`, foreign);
        }
        let asked = requests[0]!;
        const chosen = policies.map(([each, one, two]) => {
          const [base, other] = [make(one), make(two)];
          return [each, perRequest(base, () => (asked.other ? other : base))];
        });
        limit = watching(
          rateLimit({
            store: redis.storeOf(kind),
            ...PATIENT,
            policies: Object.fromEntries(chosen),
            cost: () => asked.cost,
            onEvent: () => {},
          }),
          decisions,
        );
        for (asked of requests) {
          clock.advance(asked.gapMs);
          expect((await visit(server)).status).toBeOneOf([200, 429]);
          const { verdicts, retryAfterMs, degraded } = decisions.at(-1)!;
          if (degraded) {
            expect(foreign).toBeDefined();
            expect(degraded.reason).toBeOneOf(["foreign", "broken"]);
          } else expect(verdicts).toHaveLength(policies.length);
          for (const n of [retryAfterMs, ...verdicts.flatMap((v) => [v.remaining, v.nextMs, v.fullMs])])
            if (n !== null) expect(n).toSatisfy((x: number) => Number.isSafeInteger(x) && x >= 0);
        }
      }),
      { numRuns: 250 },
    );
  },
);
