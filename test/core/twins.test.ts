import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { only, type Plan, play, policyOf, several, steps, type Tag } from "../harness/twins.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

/** How long to go on per test, ms: set by `npm run test:soak`. */
const SOAK_MS = Number(process.env["TIDEGATE_SOAK_MS"] ?? 0);

/** Histories per test. */
const limits = SOAK_MS > 0 ? { numRuns: 1e9, interruptAfterTimeLimit: SOAK_MS } : { numRuns: 2000 };

describe("the memory store and Redis give the same decisions", { timeout: SOAK_MS + 600_000 }, () => {
  const agree = (plans: fc.Arbitrary<Plan>) =>
    fc.assert(
      fc.asyncProperty(plans, steps, async (plan, history) => {
        expect(await play(server, plan, history)).toBeUndefined();
      }),
      limits,
    );

  it.each(Object.keys(policyOf) as Tag[])("%s", (tag) => agree(only(tag)));

  it("several policies at once, all or nothing", () => agree(several));
});
