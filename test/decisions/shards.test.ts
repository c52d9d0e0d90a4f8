/** A policy whose limit is split over several keys, for an identity that is too much for one server. */
import {
  createLimiter,
  fixedWindow,
  ipOf,
  type Policy,
  slidingWindow,
  type Store,
  user,
} from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { slotOf } from "../harness/cluster.ts";
import { keysUnder, live } from "../harness/live.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { made, names, recipes } from "./algorithms.ts";

let server: RedisServer;
beforeAll(async () => void (server = await startRedis()));
afterAll(() => server.stop());

const split = (name: string, limit: number, shards: number): Policy => {
  const [maker, options] = recipes[name]!(limit);
  return made([maker, { ...options, shards }]);
};

/** Asks one after the other until nobody is let in for long: every shard has been tried. */
async function drain(admitted: (times: number) => Promise<number>): Promise<number> {
  let sum = 0;
  for (let dry = 0; dry < 5;) {
    const more = await admitted(50);
    sum += more;
    dry = more === 0 ? dry + 1 : 0;
  }
  return sum;
}

describe.each(names)("%s", (name) => {
  it("lets in exactly the limit, when it is asked long enough: the parts make the whole", async () => {
    const { limiter, admitted } = await live(server, { policies: { p: split(name, 30, 8) } });
    expect(await drain((times) => admitted(times))).toBe(30);
    await limiter.close();
  });

  it("counts each shard under a key of its own", async () => {
    const { limiter, prefix, admitted } = await live(server, { policies: { p: split(name, 16, 4) } });
    await drain((times) => admitted(times));
    const heads = (await keysUnder(server, prefix)).map((key) =>
      key.slice(prefix.length, key.indexOf("}") + 1),
    );
    const shards = ["063", "061", "062", "060"];
    expect(new Set(heads)).toEqual(new Set(shards.map((shard) => `:{id:somebody#${shard}}`)));
    await limiter.close();
  });

  it("forgets all of them when the identity is reset", async () => {
    const { limiter, prefix, admitted } = await live(server, { policies: { p: split(name, 16, 4) } });
    await drain((times) => admitted(times));
    await limiter.reset("somebody");
    expect(await keysUnder(server, prefix)).toEqual([]);
    expect(await drain((times) => admitted(times))).toBe(16);
    await limiter.close();
  });

  it("never says that more remains than there is, and gives back to the shard that was charged", async () => {
    const { limiter } = await live(server, { policies: { p: split(name, 20, 4) } });
    const decisions = [];
    for (let left = 20; left > 0;) {
      const decision = await limiter.decide({ identity: "somebody" });
      expect(decision.verdicts[0]!.limit).toBe(20);
      if (!decision.allowed) {
        expect(decision.verdicts[0]!.remaining).toBe(0);
        continue;
      }
      left--;
      expect(decision.verdicts[0]!.remaining).toBeLessThanOrEqual(left);
      decisions.push(decision);
    }
    for (const decision of decisions) await limiter.settle(decision, "giveBack");
    let again = 0;
    for (let i = 0; i < 300; i++) if ((await limiter.decide({ identity: "somebody" })).allowed) again++;
    expect(again).toBe(20);
    await limiter.close();
  });
});

it("of two shards nobody is refused before both are used up", async () => {
  const { limiter, admitted } = await live(server, {
    policies: { p: fixedWindow({ limit: 1000, window: "1h", shards: 2 }) },
  });
  // One of two has no room, then the other is asked: nobody is refused before both are used up.
  expect(await admitted(1000)).toBe(1000);
  expect(await admitted(100)).toBe(0);
  await limiter.close();
});

it("a burst of one turn is spread: none is refused while half of the limit is there", async () => {
  const { limiter, admitted } = await live(server, {
    policies: { p: fixedWindow({ limit: 4000, window: "1h", shards: 8 }) },
  });
  expect(await admitted(2000)).toBe(2000);
  await limiter.close();
});

it("neighbours that ask the same still go together", async () => {
  const { limiter, admitted } = await live(server, {
    policies: { p: fixedWindow({ limit: 1_000_000, window: "1h", shards: 8 }) },
  });
  await server.client.config("RESETSTAT");
  expect(await admitted(6400)).toBe(6400);
  const [, calls] = /cmdstat_evalsha:calls=(\d+)/.exec(await server.client.info("commandstats"))!;
  expect(Number(calls)).toBeLessThan(10);
  await limiter.close();
});

describe("the shards of one identity are spread over the servers of a Cluster", () => {
  /** The largest part of the shards on one of so many servers, each with its equal range of slots. */
  async function largest(servers: number, shards: number): Promise<number> {
    const keys = new Set<string>();
    const limiter = createLimiter({
      store: {
        decide(batch, done) {
          for (const { keys: names } of batch) keys.add(names[0]!);
          const outcome = { granted: true, now: 1, words: [1, 1], blockedUs: undefined, replayed: false };
          for (const each of done) each(undefined, outcome);
        },
      } as Store,
      policies: { p: fixedWindow({ limit: 1_000_000, window: "1h", shards }) },
    });
    let worst = 0;
    for (let who = 0; who < 40; who++) {
      keys.clear();
      while (keys.size < shards) {
        await limiter.decide({ identity: `user-${who}` });
        await new Promise((resolve) => setImmediate(resolve));
      }
      const counts = Array<number>(servers).fill(0);
      for (const key of keys) counts[Math.floor(slotOf(key) / (16_384 / servers))]!++;
      worst = Math.max(worst, Math.max(...counts) / shards);
    }
    return worst;
  }

  it.each([
    [3, 8, 3 / 8],
    [3, 4, 2 / 4],
    [4, 8, 2 / 8],
    [6, 16, 3 / 16],
  ])("%i servers, %i shards: %f on the busiest at most", async (servers, shards, most) => {
    expect(await largest(servers, shards)).toBeLessThanOrEqual(most);
  });
});

it("another policy's refusal is no reason to try again", async () => {
  const { limiter, admitted } = await live(server, {
    policies: {
      p: fixedWindow({ limit: 100, window: "1h", shards: 4 }),
      q: slidingWindow({ limit: 3, window: "1h" }),
    },
    denyCache: false,
  });
  expect(await admitted(20)).toBe(3);
  await server.client.config("RESETSTAT");
  expect(await admitted(1)).toBe(0);
  expect(String(await server.client.info("commandstats"))).toMatch(/cmdstat_evalsha:calls=1,/);
  await limiter.close();
});

it("a cost that fits into no shard never passes, and is not tried again", async () => {
  const { limiter } = await live(server, {
    policies: { p: fixedWindow({ limit: 100, window: "1h", shards: 4 }) },
  });
  const decision = await limiter.decide({ identity: user("a"), cost: 26 });
  expect(decision).toMatchObject({ allowed: false, retryAfterMs: null, verdicts: [{ reason: "never" }] });
  await limiter.close();
});

it("the same idempotency key meets the same shard", async () => {
  const { limiter } = await live(server, {
    policies: { p: fixedWindow({ limit: 64, window: "1h", shards: 64 }) },
  });
  for (let i = 0; i < 20; i++) {
    const question = { identity: ipOf("192.0.2.1"), idempotencyKey: `order-${i}` };
    const first = await limiter.decide(question);
    if (first.allowed) expect((await limiter.decide(question)).replayed).toBe(true);
  }
  await limiter.close();
});

it("a blocked identity is blocked in every shard", async () => {
  const { limiter } = await live(server, {
    policies: { p: fixedWindow({ limit: 64, window: "1h", shards: 8 }) },
    blocking: true,
  });
  await limiter.block("bad", "1h");
  for (let i = 0; i < 20; i++) expect((await limiter.decide({ identity: "bad" })).blocked).toBe(true);
  await limiter.close();
});

it("a policy on trial stays on trial in its shards", async () => {
  const { limiter } = await live(server, {
    policies: { p: fixedWindow({ limit: 4, window: "1h", shards: 4 }) },
    mode: "shadow",
  });
  const seen = [];
  for (let i = 0; i < 60; i++) seen.push(await limiter.decide({ identity: "somebody" }));
  expect(seen.every(({ allowed }) => allowed)).toBe(true);
  expect(seen.some(({ verdicts: [verdict] }) => !verdict!.allowed && verdict!.shadow)).toBe(true);
  await limiter.close();
});

describe("is refused when it cannot work", () => {
  it.each([
    ["one shard", { limit: 10, window: "1m", shards: 1 }, "fixedWindow.shards"],
    ["too many", { limit: 1000, window: "1m", shards: 65 }, "fixedWindow.shards"],
    ["more shards than units", { limit: 3, window: "1m", shards: 4 }, "fixedWindow.shards"],
    ["a cost above a shard's part", { limit: 10, window: "1m", shards: 4, cost: 3 }, "fixedWindow.shards"],
    ["in this process alone", { limit: 10, window: "1m", shards: 2, scope: "process" }, "fixedWindow.shards"],
    ["another scope", { limit: 10, window: "1m", scope: "host" }, "fixedWindow.scope"],
  ])("%s", (_, options, option) => {
    expect(() => fixedWindow(options as never)).toThrow(
      expect.objectContaining({ name: "ConfigError", code: "TIDEGATE_OPTION_INVALID", option }),
    );
  });
});

it("works in this process's memory too", async () => {
  const limiter = createLimiter({ policies: { p: fixedWindow({ limit: 30, window: "1h", shards: 8 }) } });
  let admitted = 0;
  for (let i = 0; i < 1000; i++) if ((await limiter.decide({ identity: "a" })).allowed) admitted++;
  expect(admitted).toBe(30);
  await limiter.close();
});
