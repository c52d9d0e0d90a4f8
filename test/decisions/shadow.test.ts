import { type Decision, fixedWindow, type Policy, slidingLog } from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { keysUnder, live } from "../harness/live.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { made, names, recipes } from "./algorithms.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const identity = "somebody";
const window = "30m";

/** A policy on trial. */
function onTrial(name: string, limit: number): Policy {
  const [maker, options] = recipes[name]!(limit);
  return made([maker, { ...options, mode: "shadow" }]);
}

const used = ({ verdicts }: Decision) =>
  Object.fromEntries(verdicts.map(({ policy, limit, remaining }) => [policy, limit - remaining]));

describe.each(names)("a policy on trial: %s", (name) => {
  it("never refuses, says what it would have done, and is charged only for what fits it", async () => {
    const { limiter } = await live(server, {
      policies: { trial: onTrial(name, 3), enforced: fixedWindow({ limit: 5, window }) },
    });
    const decisions = [];
    for (let i = 0; i < 7; i++) decisions.push(await limiter.decide({ identity }));
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, true, true, true, false, false]);
    expect(decisions.map(({ verdicts }) => verdicts[0]!.allowed)).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
      false,
    ]);
    expect(decisions.map(({ verdicts }) => verdicts.map(({ shadow }) => shadow))).toEqual(
      decisions.map(() => [true, false]),
    );
    expect(used(await limiter.peek({ identity }))).toEqual({ trial: 3, enforced: 5 });
    const charged = decisions.map(({ receipt }) => receipt?.charges.map(({ policy }) => policy) ?? []);
    expect(charged.map(({ length }) => length)).toEqual([2, 2, 2, 1, 1, 0, 0]);
    expect(charged[4]).toEqual(["enforced"]);
    await limiter.close();
  });

  it("is not charged when an enforced one refuses", async () => {
    const { limiter, prefix } = await live(server, {
      policies: { trial: onTrial(name, 50), none: fixedWindow({ limit: 0, window }) },
    });
    expect(await limiter.decide({ identity })).toMatchObject({
      allowed: false,
      verdicts: [{ allowed: true, remaining: 50 }, {}],
    });
    expect(await keysUnder(server, prefix)).toEqual([]);
    await limiter.close();
  });

  it("has no part in retryAfterMs, though its own wait is longer", async () => {
    const { limiter } = await live(server, {
      policies: { trial: onTrial(name, 1), enforced: fixedWindow({ limit: 1, window: "1s" }) },
    });
    await limiter.decide({ identity });
    const { retryAfterMs, verdicts } = await limiter.decide({ identity });
    expect(retryAfterMs).toBeGreaterThan(0);
    expect(retryAfterMs).toBeLessThanOrEqual(1000);
    if (name !== "cc") expect(verdicts[0]!.nextMs).toBeGreaterThan(1000);
    expect(verdicts[0]).toMatchObject({ allowed: false, shadow: true });
    await limiter.close();
  });

  it("lets pass a cost that it would never have allowed", async () => {
    const { limiter } = await live(server, {
      policies: { trial: onTrial(name, 3), enforced: fixedWindow({ limit: 50, window }) },
    });
    const decision = await limiter.decide({ identity, cost: 4 });
    expect(decision).toMatchObject({
      allowed: true,
      retryAfterMs: 0,
      verdicts: [{ reason: "never", nextMs: null, remaining: 3 }, { reason: "ok" }],
    });
    expect(used(decision)).toEqual({ trial: 0, enforced: 4 });
    await limiter.close();
  });

  it("alone lets everything pass", async () => {
    const { limiter, admitted } = await live(server, { policies: { trial: onTrial(name, 3) } });
    expect(await admitted(100)).toBe(100);
    expect(used(await limiter.peek({ identity }))).toEqual({ trial: 3 });
    await limiter.close();
  });

  it("gets back what it was charged, and not what it was not", async () => {
    const { limiter } = await live(server, {
      policies: { trial: onTrial(name, 3), enforced: slidingLog({ limit: 50, window }) },
    });
    const decisions = [];
    for (let i = 0; i < 4; i++) decisions.push(await limiter.decide({ identity }));
    await limiter.settle(decisions[3]!, "giveBack");
    expect(used(await limiter.peek({ identity }))).toEqual({ trial: 3, enforced: 3 });
    await limiter.settle(decisions[0]!, "giveBack");
    expect(used(await limiter.peek({ identity }))).toEqual({ trial: 2, enforced: 2 });
    await limiter.close();
  });
});
