import type { Policy } from "@tidegate/core";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EPOCH_MS, pairOf, SOMEBODY } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { policyOf } from "../harness/twins.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const history = fc.array(fc.tuple(fc.integer({ min: 0, max: 400 }), fc.integer({ min: 0, max: 5 })), {
  minLength: 1,
  maxLength: 12,
});

describe("a refusal's wait is true: that long lets the same cost in, one millisecond less does not", () => {
  // When a slot in flight comes free, nobody knows.
  const waiting = Object.entries(policyOf).filter(([tag]) => tag !== "cc");

  it.each(waiting)("%s", { timeout: 120_000 }, async (_, policy) => {
    let refusals = 0;
    await fc.assert(
      fc.asyncProperty(policy, history, fc.integer({ min: 1, max: 5 }), async (only, used, cost) => {
        refusals += await refusalKeepsItsWord({ only }, used, cost);
      }),
      { numRuns: 200 },
    );
    expect(refusals).toBeGreaterThan(50);
  });

  it("the longest of several policies", { timeout: 120_000 }, async () => {
    const several = fc.record({
      first: policyOf.tb,
      second: policyOf.sl,
      third: policyOf.fw,
      fourth: policyOf.sw,
    });
    let refusals = 0;
    await fc.assert(
      fc.asyncProperty(several, history, fc.integer({ min: 1, max: 5 }), async (policies, used, cost) => {
        refusals += await refusalKeepsItsWord(policies, used, cost);
      }),
      { numRuns: 500 },
    );
    expect(refusals).toBeGreaterThan(30);
  });
});

/** Uses some, asks, and if refused asks again when told to. Gives 1 when there was such a refusal. */
async function refusalKeepsItsWord(
  policies: Record<string, Policy>,
  used: readonly (readonly [number, number])[],
  cost: number,
): Promise<number> {
  const { clock, redis, expire } = pairOf(server, policies);
  const ask = async () => {
    await expire();
    return redis.decide({ identity: SOMEBODY, cost });
  };
  let at = EPOCH_MS;
  for (const [after, spent] of used) {
    clock.set((at += after));
    await expire();
    await redis.decide({ identity: SOMEBODY, cost: spent });
  }
  const { allowed, retryAfterMs } = await ask();
  if (allowed || retryAfterMs === null) return 0;
  expect(retryAfterMs).toBeGreaterThan(0);
  clock.set(at + retryAfterMs - 1);
  expect((await ask()).allowed).toBe(false);
  clock.set(at + retryAfterMs);
  expect((await ask()).allowed).toBe(true);
  return 1;
}
