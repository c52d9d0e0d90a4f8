import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { only, type Plan, play, policyOf, several, steps } from "../harness/twins.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

/** Histories per test. More with TIDEGATE_TWIN_RUNS. */
const RUNS = Number(process.env["TIDEGATE_TWIN_RUNS"] ?? 2000);

describe("the memory store and Redis give the same decisions", () => {
  const agree = (plans: fc.Arbitrary<Plan>) =>
    fc.assert(
      fc.asyncProperty(plans, steps, async (plan, history) => {
        expect(await play(server, plan, history)).toBeUndefined();
      }),
      { numRuns: RUNS },
    );

  it.each(Object.keys(policyOf) as (keyof typeof policyOf)[])("%s", { timeout: 600_000 }, (tag) =>
    agree(only(tag)),
  );

  it("several policies at once, all or nothing", { timeout: 600_000 }, () => agree(several));
});
