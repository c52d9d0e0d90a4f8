/** Neighbours that ask the same are asked as one, and answered as if each had come alone. */
import {
  type Decision,
  fixedWindow,
  type Limiter,
  type Policy,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callsOf, live, resetStats } from "../harness/live.ts";
import { EPOCH_MS, pairOf } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { policyOf } from "../harness/twins.ts";

let server: RedisServer;
beforeAll(async () => void (server = await startRedis()));
afterAll(() => server.stop());

/** A turn of the event loop: runs of equal requests, and how long after the turn before it (ms). */
const turn = fc.record({
  after: fc.oneof(fc.integer({ min: 0, max: 400 }), fc.integer({ min: 0, max: 60_000 })),
  runs: fc.array(
    fc.record({
      identity: fc.constantFrom("anna", "anna", "ben"),
      cost: fc.oneof(fc.constantFrom(1, 1, 0), fc.integer({ min: 0, max: 13 })),
      times: fc.integer({ min: 1, max: 9 }),
      peek: fc.oneof(
        { weight: 5, arbitrary: fc.constant(false) },
        { weight: 1, arbitrary: fc.constant(true) },
      ),
    }),
    { minLength: 1, maxLength: 6 },
  ),
});

type Turn = typeof turn extends fc.Arbitrary<infer T> ? T : never;

const asksOf = ({ runs }: Turn) =>
  runs.flatMap(({ identity, cost, times, peek }) =>
    Array.from({ length: times }, () => ({ identity, cost, peek })),
  );

const ask = (limiter: Limiter, { peek, ...request }: { peek: boolean; identity: string; cost: number }) =>
  peek ? limiter.peek(request) : limiter.decide(request);

const seen = ({ receipt, ...decision }: Decision) => ({ ...decision, charges: receipt?.charges });

async function holds(policies: Record<string, Policy>, turns: readonly Turn[]): Promise<void> {
  const { clock, memory, redis, expire, close } = pairOf(server, policies);
  let at = EPOCH_MS;
  for (const each of turns) {
    clock.set((at += each.after));
    await expire();
    const asks = asksOf(each);
    const together = await Promise.all(asks.map((one) => ask(redis, one)));
    const alone = [];
    for (const one of asks) alone.push(await ask(memory, one));
    expect(together.map(seen)).toEqual(alone.map(seen));
  }
  await close();
}

describe("merged checks are decided as they would be one by one", () => {
  const turns = fc.array(turn, { minLength: 1, maxLength: 6 });

  it.each(Object.entries(policyOf))("%s", async (_, policy) => {
    await fc.assert(
      fc.asyncProperty(policy as fc.Arbitrary<Policy>, turns, (p, turns) => holds({ p }, turns)),
      { numRuns: 80 },
    );
  });

  it("several policies at once", async () => {
    const several = fc.tuple(policyOf.tb, policyOf.sw, policyOf.sl, policyOf.gc);
    await fc.assert(
      fc.asyncProperty(several, turns, ([a, b, c, d], turns) => holds({ a, b, c, d }, turns)),
      { numRuns: 80 },
    );
  });

  it("a policy on trial beside one that is enforced", async () => {
    const two = fc.tuple(policyOf.fw, policyOf.tb);
    await fc.assert(
      fc.asyncProperty(two, turns, ([a, b], turns) =>
        holds({ a, b: Object.freeze({ ...b, mode: "shadow" }) }, turns),
      ),
      { numRuns: 80 },
    );
  });
});

/** Checks that a script was told of, by the commands that the server saw. */
async function scripts(act: () => Promise<unknown>): Promise<number> {
  await resetStats(server);
  await act();
  return callsOf(server, "evalsha");
}

describe("what is merged", () => {
  it("a hot key: 2,000 requests of one turn are two scripts, and exactly the limit is let in", async () => {
    const { limiter, admitted } = await live(server, {
      policies: { p: slidingWindow({ limit: 500, window: "1h" }) },
    });
    let let_in = 0;
    expect(await scripts(async () => (let_in = await admitted(2000)))).toBe(2);
    expect(let_in).toBe(500);
    await limiter.close();
  });

  it("not what brings an idempotency key, nor other costs, identities or policies", async () => {
    const { limiter } = await live(server, {
      policies: { p: tokenBucket({ capacity: 1000, refillPerSecond: 1 }) },
    });
    const decisions = await Promise.all([
      ...[1, 2, 3].map(() => limiter.decide({ identity: "a", idempotencyKey: "same" })),
      ...[1, 2, 1, 2].map((cost) => limiter.decide({ identity: "a", cost })),
      ...["b", "a", "b"].map((identity) => limiter.decide({ identity })),
    ]);
    expect(decisions.map(({ replayed }) => replayed)).toEqual([false, true, true, ...Array(7).fill(false)]);
    const left = async (identity: string) => (await limiter.peek({ identity })).verdicts[0]!.remaining;
    expect([await left("a"), await left("b")]).toEqual([1000 - 1 - 6 - 1, 998]);
    await limiter.close();
  });

  it("each member settles what it was charged itself", async () => {
    const { limiter } = await live(server, { policies: { p: fixedWindow({ limit: 50, window: "1h" }) } });
    const decisions = await Promise.all(Array.from({ length: 60 }, () => limiter.decide({ identity: "a" })));
    await Promise.all(decisions.slice(0, 20).map((decision) => limiter.settle(decision, "giveBack")));
    expect((await limiter.peek({ identity: "a" })).verdicts[0]!.remaining).toBe(20);
    await limiter.close();
  });
});
