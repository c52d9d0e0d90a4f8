import {
  type Decision,
  fixedWindow,
  gcra,
  slidingLog,
  slidingWindow,
  tokenBucket,
  type Policy,
} from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { keysUnder, live } from "../harness/live.ts";
import { EPOCH_MS, pairOf, SOMEBODY } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { names, policyOf, rates } from "./algorithms.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const LIMIT = 50;
const identity = "somebody";

/** A limiter of one policy, its key and what it says is left. */
async function one(name: string, limit = LIMIT) {
  const it = await live(server, { policies: { p: policyOf(name, limit) } });
  return {
    ...it,
    ask: (cost = 1) => it.limiter.decide({ identity, cost }),
    left: async () => (await it.limiter.peek({ identity })).verdicts[0]!.remaining,
    key: async () => {
      const [key, ...more] = await keysUnder(server, it.prefix);
      expect(more).toEqual([]);
      return key!;
    },
  };
}

describe.each(rates)("settling on Redis: %s", (name) => {
  it("gives all of it back, once", async () => {
    const { limiter, ask, left } = await one(name);
    const [first] = [await ask(20), await ask(20)];
    expect(await left()).toBe(10);
    await limiter.settle(first!, "giveBack");
    expect(await left()).toBe(30);
    await Promise.all([limiter.settle(first!, "giveBack"), limiter.settle(first!, 0)]);
    expect(await left()).toBe(30);
    await limiter.close();
  });

  it("gives back what was not needed, charges what was needed more, and keeps what is to be kept", async () => {
    const { limiter, ask, left } = await one(name);
    const [less, more, same, record] = [await ask(10), await ask(10), await ask(10), await ask(10)];
    await limiter.settle(less!, 4);
    expect(await left()).toBe(16);
    await limiter.settle(more!, 13);
    expect(await left()).toBe(13);
    await limiter.settle(same!, "keep");
    await limiter.settle(record!, { p: 7 });
    expect(await left()).toBe(16);
    // A second opinion comes too late.
    await limiter.settle(more!, 1);
    await limiter.settle(same!, "giveBack");
    expect(await left()).toBe(16);
    await limiter.close();
  });

  it("is exact for 50 at once", async () => {
    const { limiter, ask, left } = await one(name);
    const decisions = await Promise.all(Array.from({ length: 50 }, () => ask()));
    expect(await left()).toBe(0);
    await Promise.all(
      decisions.map((decision, i) => limiter.settle(decision, i % 3 === 0 ? "keep" : "giveBack")),
    );
    expect(await left()).toBe(33);
    await Promise.all(decisions.map((decision) => limiter.settle(decision, "giveBack")));
    expect(await left()).toBe(33);
    await limiter.close();
  });

  it("goes into debt by no more than the limit, and a debt is as long a wait or longer", async () => {
    const { limiter, ask, left } = await one(name);
    const wait = async () => (await limiter.peek({ identity })).retryAfterMs!;
    await ask(LIMIT - 1);
    const reservation = await limiter.reserve({ identity });
    expect(await left()).toBe(0);
    const without = await wait();
    await reservation.commit(1_000_000);
    expect(await left()).toBe(0);
    const indebted = await wait();
    expect(indebted).toBeGreaterThanOrEqual(without - 1000);
    // In debt by the limit: twice what it takes to be whole again from empty.
    const perUnitMs = 1_000_000;
    if (name === "tb" || name === "gc") {
      expect(Math.abs(indebted - (LIMIT + 1) * perUnitMs)).toBeLessThan(5000);
    }
    await limiter.close();
  });

  it("a reservation is committed or cancelled, once; never settled, it stays charged", async () => {
    const { limiter, left } = await one(name);
    const reserve = () => limiter.reserve({ identity, cost: 10 });
    const [committed, cancelled, forgotten] = [await reserve(), await reserve(), await reserve()];
    expect([committed, cancelled, forgotten].map(({ decision }) => decision.allowed)).toEqual([
      true,
      true,
      true,
    ]);
    await committed.commit(4);
    await cancelled.cancel();
    expect(await left()).toBe(36);
    await Promise.all([committed.cancel(), committed.commit(0), cancelled.commit(40), cancelled.cancel()]);
    expect(await left()).toBe(36);
    const refused = await limiter.reserve({ identity, cost: 40 });
    expect(refused.decision.allowed).toBe(false);
    await refused.cancel();
    await refused.commit(3);
    expect(await left()).toBe(36);
    await limiter.close();
  });

  it("a give-back leaves the expiry as it was", async () => {
    const { limiter, ask, key } = await one(name);
    const [first] = [await ask(20), await ask(20)];
    const ends = await server.client.pexpiretime(await key());
    expect(ends).toBeGreaterThan(0);
    await limiter.settle(first!, "giveBack");
    expect(await server.client.pexpiretime(await key())).toBe(ends);
    await limiter.close();
  });

  it("a give-back makes no key, not even where it was forgotten meanwhile", async () => {
    const { limiter, prefix, ask } = await one(name);
    const charged = await ask(20);
    await limiter.reset(identity);
    await limiter.settle(charged, "giveBack");
    expect(await keysUnder(server, prefix)).toEqual([]);
    await limiter.close();
  });

  it("a give-back never exceeds the limit", async () => {
    const { limiter, ask, left } = await one(name);
    const charged = await ask(20);
    await limiter.reset(identity);
    await ask(5);
    await limiter.settle(charged, "giveBack");
    expect(await left()).toBeLessThanOrEqual(LIMIT);
    const admitted = (await Promise.all(Array.from({ length: 2 * LIMIT }, () => ask()))).filter(
      ({ allowed }) => allowed,
    );
    expect(admitted.length).toBeLessThanOrEqual(LIMIT);
    await limiter.close();
  });
});

describe("settling several policies", () => {
  it("gives back to each what it took, and a number is for those without a cost of their own", async () => {
    const policies = {
      requests: fixedWindow({ limit: 50, window: "30m", cost: 1 }),
      tokens: tokenBucket({ capacity: 50, refillPerSecond: 0.001 }),
      slots: policyOf("cc", 50),
    };
    const { limiter } = await live(server, { policies });
    const left = async () => (await limiter.peek({ identity })).verdicts.map(({ remaining }) => remaining);
    const reservation = await limiter.reserve({ identity, cost: 20 });
    expect(await left()).toEqual([49, 30, 30]);
    await reservation.commit(5);
    expect(await left()).toEqual([49, 45, 50]);
    const other = await limiter.reserve({ identity, cost: { requests: 2, tokens: 10 } });
    await other.commit({ tokens: 1, requests: 0 });
    expect(await left()).toEqual([49, 44, 50]);
    await limiter.close();
  });
});

describe("a give-back that comes late", () => {
  const window = 1000;
  const rollers: [string, Policy][] = [
    ["tb", tokenBucket({ capacity: 10, refillPerSecond: 10 })],
    ["gc", gcra({ limit: 10, window })],
    ["sw", slidingWindow({ limit: 10, window })],
    ["sl", slidingLog({ limit: 10, window })],
    ["fw first", fixedWindow({ limit: 10, window })],
    ["fw clock", fixedWindow({ limit: 10, window, align: "clock" })],
    ["fw day", fixedWindow({ limit: 10, window: "day" })],
  ];

  it.each(rollers)(
    "touches no newer window, and units that came back by themselves do not come back twice: %s",
    async (_, policy) => {
      const { clock, redis, memory, expire } = pairOf(server, { policy });
      const both = [redis, memory];
      const step = policy.windowMs! * 2;
      clock.set(EPOCH_MS);
      const ask = (cost: number) =>
        Promise.all(both.map((limiter) => limiter.decide({ identity: SOMEBODY, cost })));
      const left = (decisions: Decision[]) => decisions.map(({ verdicts }) => verdicts[0]!.remaining);
      const early = await ask(4);
      clock.advance(step);
      await expire();
      expect(left(await ask(6))).toEqual([4, 4]);
      await Promise.all(both.map((limiter, i) => limiter.settle(early[i]!, "giveBack")));
      expect(left(await ask(0))).toEqual([4, 4]);
    },
  );
});

describe("settling a decision that charged nothing", () => {
  it.each(names)("does nothing: %s", async (name) => {
    const { limiter, ask } = await one(name, 5);
    await ask(5);
    const [refused, looked, peeked] = [await ask(), await ask(0), await limiter.peek({ identity })];
    for (const decision of [refused, looked, peeked]) {
      expect(decision!.receipt).toBeUndefined();
      await limiter.settle(decision!, "giveBack");
      await limiter.settle(decision!, 100);
    }
    expect((await ask()).allowed).toBe(false);
    await limiter.close();
  });
});
