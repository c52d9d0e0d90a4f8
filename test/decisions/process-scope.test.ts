/** Policies of the scope `process`: counted by this process alone, without asking anybody. */
import {
  concurrency,
  createLimiter,
  fixedWindow,
  globally,
  type Limiter,
  slidingWindow,
} from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callsOf, keysUnder, live, resetStats } from "../harness/live.ts";
import { freshPrefix } from "../harness/pair.ts";
import { freePort, type RedisServer, startRedis } from "../harness/redis.ts";
import { made, names, recipes } from "./algorithms.ts";

let server: RedisServer;
beforeAll(async () => void (server = await startRedis()));
afterAll(() => server.stop());

const mine = (name: string, limit: number) => {
  const [maker, options] = recipes[name]!(limit);
  return made([maker, { ...options, scope: "process" }]);
};

const remaining = async (limiter: Limiter, identity = "somebody") =>
  Object.fromEntries(
    (await limiter.peek({ identity })).verdicts.map(({ policy, remaining }) => [policy, remaining]),
  );

describe.each(names)("%s", (name) => {
  it("lets in its limit in each process, and leaves no key behind", async () => {
    const prefix = freshPrefix();
    const policies = { mine: mine(name, 5) };
    const [one, other] = [await live(server, { policies, prefix }), await live(server, { policies, prefix })];
    expect([await one.admitted(20), await other.admitted(20)]).toEqual([5, 5]);
    expect(await keysUnder(server, prefix)).toEqual([]);
    await one.limiter.close();
    await other.limiter.close();
  });

  it("is charged together with the shared ones, or not at all", async () => {
    const { limiter, admitted } = await live(server, {
      policies: { mine: mine(name, 10), shared: slidingWindow({ limit: 4, window: "1h" }) },
    });
    expect(await admitted(20)).toBe(4);
    expect(await remaining(limiter)).toEqual({ mine: 6, shared: 0 });
    await limiter.close();
  });

  it("refuses without asking Redis, and charges nothing there", async () => {
    const { limiter, admitted } = await live(server, {
      policies: { shared: slidingWindow({ limit: 100, window: "1h" }), mine: mine(name, 3) },
    });
    expect(await admitted(3)).toBe(3);
    await resetStats(server);
    const decision = await limiter.decide({ identity: "somebody" });
    expect(decision).toMatchObject({ allowed: false, verdicts: [{ policy: "mine", allowed: false }] });
    expect(decision.verdicts).toHaveLength(1);
    expect(await admitted(500)).toBe(0);
    expect(await callsOf(server, "evalsha")).toBe(0);
    expect((await limiter.peek({ identity: "somebody" })).verdicts[0]).toMatchObject({ policy: "mine" });
    await limiter.close();
  });

  it("is given back by settling, beside the shared ones", async () => {
    const { limiter } = await live(server, {
      policies: { mine: mine(name, 5), shared: fixedWindow({ limit: 9, window: "1h" }) },
    });
    const decision = await limiter.decide({ identity: "somebody" });
    expect(await remaining(limiter)).toEqual({ mine: 4, shared: 8 });
    await limiter.settle(decision, "giveBack");
    expect(await remaining(limiter)).toEqual({ mine: 5, shared: 9 });
    await limiter.close();
  });

  it("is forgotten by a reset", async () => {
    const { limiter, admitted } = await live(server, {
      policies: { mine: mine(name, 5), shared: fixedWindow({ limit: 9, window: "1h" }) },
    });
    await admitted(5);
    await limiter.reset("somebody");
    expect(await remaining(limiter)).toEqual({ mine: 5, shared: 9 });
    await limiter.close();
  });
});

it("takes its share of the limit where the configuration says how many processes there are", async () => {
  const { limiter, admitted } = await live(server, {
    policies: { mine: fixedWindow({ limit: 100, window: "1h", scope: "process" }) },
    instances: 4,
  });
  expect((await limiter.peek({ identity: "a" })).verdicts[0]!.limit).toBe(25);
  expect(await admitted(60)).toBe(25);
  await limiter.close();
});

it("is a cap for everybody together that shares no slot with anybody", async () => {
  const { limiter } = await live(server, {
    policies: {
      each: slidingWindow({ limit: 5, window: "1h" }),
      all: fixedWindow({ limit: 50, window: "1h", by: globally(), scope: "process" }),
    },
  });
  const decisions = await Promise.all(
    Array.from({ length: 200 }, (_, i) => limiter.decide({ identity: `user-${i}` })),
  );
  expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(50);
  await limiter.close();
});

it("a request that Redis refuses leaves its slot in flight free", async () => {
  const { limiter } = await live(server, {
    policies: {
      inFlight: concurrency({ limit: 1, scope: "process" }),
      shared: fixedWindow({ limit: 1, window: "1h" }),
    },
  });
  const first = await limiter.decide({ identity: "a" });
  await limiter.settle(first, "keep");
  for (let i = 0; i < 3; i++)
    expect((await limiter.decide({ identity: "a" })).verdicts.find(({ allowed }) => !allowed)?.policy).toBe(
      "shared",
    );
  await limiter.close();
});

it("heeds blocks, also where every policy is this process's own", async () => {
  const { limiter, admitted } = await live(server, {
    policies: { mine: fixedWindow({ limit: 5, window: "1h", scope: "process" }) },
    blocking: true,
  });
  await limiter.block("bad", "1h");
  expect(await limiter.decide({ identity: "bad" })).toMatchObject({ allowed: false, blocked: true });
  await limiter.unblock("bad");
  expect(await admitted(9, "bad")).toBe(5);
  await limiter.close();
});

describe("when Redis is away", () => {
  const away = async (onFailure: "open" | "closed") =>
    createLimiter({
      redis: `redis://127.0.0.1:${await freePort()}`,
      policies: {
        mine: fixedWindow({ limit: 5, window: "1h", scope: "process" }),
        shared: fixedWindow({ limit: 100, window: "1h" }),
      },
      onFailure,
    });

  it("holds under the rule open: it needs nobody", async () => {
    const limiter = await away("open");
    const allowed = [];
    for (let i = 0; i < 8; i++) allowed.push((await limiter.decide({ identity: "a" })).allowed);
    expect(allowed).toEqual([true, true, true, true, true, false, false, false]);
    await limiter.close();
  });

  it("is not used up by what the rule closed refuses", async () => {
    const limiter = await away("closed");
    for (let i = 0; i < 8; i++)
      expect(await limiter.decide({ identity: "a" })).toMatchObject({
        allowed: false,
        degraded: { rule: "closed" },
      });
    await limiter.close();
  });
});
