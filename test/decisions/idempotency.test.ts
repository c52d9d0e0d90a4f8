import { setTimeout as sleep } from "node:timers/promises";
import { type Config, fixedWindow, type Policy, slidingLog, tokenBucket } from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { keysUnder, live } from "../harness/live.ts";
import { freshPrefix } from "../harness/pair.ts";
import { startCrew } from "../harness/processes.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { policyOf, rates, recipes } from "./algorithms.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const identity = "somebody";
const idempotencyKey = "order-17";

async function one(policies: Record<string, Policy>, more: Config = {}) {
  const { limiter, prefix } = await live(server, { policies, ...more });
  return {
    limiter,
    prefix,
    ask: (request: object = {}) => limiter.decide({ identity, idempotencyKey, ...request }),
    used: async (of: string = identity) =>
      (await limiter.peek({ identity: of })).verdicts.map(({ limit, remaining }) => limit - remaining),
  };
}

describe("the same question with the same key", () => {
  it.each(rates)("ten times at once, %s: one charge and three replays, then charged again", async (name) => {
    const { limiter, ask, used } = await one({ p: policyOf(name, 50) });
    const decisions = await Promise.all(Array.from({ length: 10 }, () => ask({ cost: 2 })));
    expect(decisions.every(({ allowed }) => allowed)).toBe(true);
    // One grant and three replays, and so on.
    expect(decisions.map(({ replayed }) => replayed)).toEqual(decisions.map((_, i) => i % 4 !== 0));
    expect(await used()).toEqual([6]);
    const first = decisions.slice(0, 4).map((decision) => ({ ...decision, receipt: null, replayed: null }));
    expect(first).toEqual(Array(4).fill(first[0]));
    expect(decisions.map(({ receipt }) => receipt !== undefined)).toEqual(
      decisions.map((_, i) => i % 4 === 0),
    );
    await limiter.close();
  });

  it("takes another slot each time: two in flight are two", async () => {
    const { limiter, ask, used } = await one({ p: policyOf("cc", 2), q: policyOf("tb", 50) });
    const decisions = [await ask(), await ask(), await ask()];
    expect(decisions.map(({ allowed, replayed }) => [allowed, replayed])).toEqual([
      [true, false],
      [true, false],
      [false, false],
    ]);
    expect(await used()).toEqual([2, 2]);
    await limiter.close();
  });

  it("is charged again after its units were given back", async () => {
    const { limiter, ask, used } = await one({ p: policyOf("tb", 50) });
    await limiter.settle(await ask(), "giveBack");
    expect(await ask()).toMatchObject({ allowed: true, replayed: false });
    expect(await used()).toEqual([1]);
    await limiter.close();
  });

  it("of two processes: one charge among four", async () => {
    const crew = startCrew(server.url, 2);
    const prefix = freshPrefix();
    const contest = { prefix, policies: { p: recipes["fw first"]!(50) }, times: 2, idempotencyKey };
    expect(await crew.contest(contest)).toEqual({ admitted: 4, replayed: 3 });
    const { limiter, used } = await one({ p: policyOf("fw first", 50) }, { prefix });
    expect(await used()).toEqual([1]);
    crew.end();
    await limiter.close();
  });

  it("is charged again when its time is over", async () => {
    const { limiter, prefix, ask } = await one({ p: policyOf("sl", 50) }, { idempotencyMs: 150 });
    expect((await ask()).replayed).toBe(false);
    const [nonce] = (await keysUnder(server, prefix)).filter((key) => key.includes("::n:"));
    const left = await server.client.pttl(nonce!);
    expect(left).toBeGreaterThan(50);
    expect(left).toBeLessThanOrEqual(150);
    expect((await ask()).replayed).toBe(true);
    // A replay does not prolong it.
    expect(await server.client.pttl(nonce!)).toBeLessThanOrEqual(left);
    await sleep(160);
    expect((await ask()).replayed).toBe(false);
    await limiter.close();
  });

  it("that was refused is asked anew", async () => {
    const { limiter, prefix, ask } = await one({ p: policyOf("fw first", 1) });
    await limiter.decide({ identity });
    expect(await ask()).toMatchObject({ allowed: false, replayed: false });
    expect((await keysUnder(server, prefix)).filter((key) => key.includes("::n:"))).toEqual([]);
    await limiter.reset(identity);
    expect(await ask()).toMatchObject({ allowed: true, replayed: false });
    expect(await ask()).toMatchObject({ allowed: true, replayed: true });
    await limiter.close();
  });

  it("is replayed also when nothing is left, and not to whoever is blocked", async () => {
    const { limiter, ask } = await one({ p: policyOf("gc", 1) }, { blocking: true });
    await ask();
    expect(await ask()).toMatchObject({ allowed: true, replayed: true });
    await limiter.block(identity, 60_000);
    expect(await ask()).toMatchObject({ allowed: false, blocked: true, replayed: false });
    await limiter.close();
  });

  it("settled as a replay does nothing: what was charged once comes back once", async () => {
    const { limiter, ask, used } = await one({ p: policyOf("tb", 50) });
    const [first, again] = [await ask(), await ask()];
    await limiter.settle(again!, "giveBack");
    expect(await used()).toEqual([1]);
    await limiter.settle(first!, "giveBack");
    await limiter.settle(again!, "giveBack");
    expect(await used()).toEqual([0]);
    await limiter.close();
  });

  it("is told by looking, and not used up by it", async () => {
    const { limiter, prefix, ask } = await one({ p: policyOf("tb", 50) });
    expect(await limiter.peek({ identity, idempotencyKey })).toMatchObject({ replayed: false });
    expect((await keysUnder(server, prefix)).filter((key) => key.includes("::n:"))).toEqual([]);
    await ask();
    for (let i = 0; i < 5; i++)
      expect(await limiter.peek({ identity, idempotencyKey })).toMatchObject({ replayed: true });
    for (let i = 0; i < 3; i++) expect((await ask()).replayed).toBe(true);
    expect(await limiter.peek({ identity, idempotencyKey })).toMatchObject({ replayed: false });
    await limiter.close();
  });
});

describe("the same key is another question", () => {
  it.each([
    ["with another cost", { cost: 2 }],
    ["of another identity", { identity: "somebody else" }],
    ["with another key", { idempotencyKey: "order-18" }],
    ["with another cost of one policy", { cost: { second: 3 } }],
    ["of other identities", { identity: { first: "somebody", second: "somebody else" } }],
  ])("%s", async (_, request) => {
    const { limiter, ask } = await one({ first: policyOf("fw first", 50), second: policyOf("tb", 50) });
    expect((await ask()).replayed).toBe(false);
    expect((await ask(request)).replayed).toBe(false);
    expect((await ask()).replayed).toBe(true);
    await limiter.close();
  });

  const window = "30m";
  it.each([
    ["limit", { p: fixedWindow({ limit: 5, window }) }, { p: fixedWindow({ limit: 6, window }) }],
    ["window", { p: fixedWindow({ limit: 5, window }) }, { p: fixedWindow({ limit: 5, window: "31m" }) }],
    ["algorithm", { p: fixedWindow({ limit: 5, window }) }, { p: slidingLog({ limit: 5, window }) }],
    [
      "rate",
      { p: tokenBucket({ capacity: 5, refillPerSecond: 1 }) },
      { p: tokenBucket({ capacity: 5, refillPerSecond: 2 }) },
    ],
    ["name", { p: fixedWindow({ limit: 5, window }) }, { q: fixedWindow({ limit: 5, window }) }],
    [
      "alignment",
      { p: fixedWindow({ limit: 5, window }) },
      { p: fixedWindow({ limit: 5, window, align: "clock" }) },
    ],
    [
      "part of the calendar",
      { p: fixedWindow({ limit: 5, window: "day" }) },
      { p: fixedWindow({ limit: 5, window: "month" }) },
    ],
    [
      "mode",
      { p: policyOf("tb", 5), q: policyOf("sl", 5) },
      { p: { ...policyOf("tb", 5), mode: "shadow" }, q: policyOf("sl", 5) },
    ],
    ["company", { p: policyOf("tb", 5) }, { p: policyOf("tb", 5), q: policyOf("sl", 5) }],
  ] as [string, Record<string, Policy>, Record<string, Policy>][])(
    "for a policy of another %s",
    async (_, before, after) => {
      const prefix = freshPrefix();
      const [a, b] = [await one(before, { prefix }), await one(after, { prefix })];
      expect(await a.ask()).toMatchObject({ allowed: true, replayed: false, degraded: undefined });
      expect(await b.ask()).toMatchObject({ allowed: true, replayed: false, degraded: undefined });
      await Promise.all([a.limiter.close(), b.limiter.close()]);
    },
  );
});
