/** Checks of one turn of the event loop travel together, in order, each in its own context. */
import { AsyncLocalStorage } from "node:async_hooks";
import { createLimiter, fixedWindow } from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { coalesce } from "../../packages/core/src/tiers/coalesce.ts";
import type { Check, Done, Store } from "../../packages/core/src/stores/store.ts";
import { askedOf, guardOf, ruling } from "../cases/asking.ts";
import { eventually } from "../harness/eventually.ts";
import { callsOf, live, resetStats } from "../harness/live.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";

const policy = fixedWindow({ limit: 5, window: "1m" });

const named = (name: string): Check => ({
  policies: [policy],
  keys: [name],
  costs: [1],
  deadline: Infinity,
  peek: false,
  blocks: [],
  lease: undefined,
  nonce: undefined,
});

/** A store that notes its batches, and answers when it is told to. */
function noting() {
  const batches: string[][] = [];
  const told: number[] = [];
  let waiting: Done[] = [];
  const store = {
    decide(batch, done) {
      batches.push(batch.map(({ keys }) => keys[0]!));
      waiting.push(...done);
    },
  } as Pick<Store, "decide"> as Store;
  const answer = () => {
    const all = waiting;
    waiting = [];
    for (const each of all) each(undefined, undefined);
  };
  return { batches, answer, tier: coalesce(store, (decisions) => told.push(decisions)), told };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe("The checks of a turn", () => {
  it("go out as the first alone and the others together, in their order", async () => {
    const { batches, answer, tier, told } = noting();
    for (const name of ["a", "b", "c", "d"]) tier.decide(named(name), () => {});
    expect(batches).toEqual([["a"]]);
    await turn();
    expect(batches).toEqual([["a"], ["b", "c", "d"]]);
    expect(told).toEqual([1, 3]);
    answer();
    tier.decide(named("e"), () => {});
    expect(batches.at(-1)).toEqual(["e"]);
  });

  it("all wait for its end while others are under way", async () => {
    const { batches, tier } = noting();
    tier.decide(named("a"), () => {});
    await turn();
    for (const name of ["b", "c"]) tier.decide(named(name), () => {});
    expect(batches).toEqual([["a"]]);
    await turn();
    expect(batches).toEqual([["a"], ["b", "c"]]);
  });

  it("are 64 at most in a batch, and what is beyond does not wait for the turn's end", async () => {
    const { batches, tier } = noting();
    for (let i = 0; i < 130; i++) tier.decide(named(String(i)), () => {});
    expect(batches.map(({ length }) => length)).toEqual([1, 64, 64]);
    await turn();
    expect(batches.map(({ length }) => length)).toEqual([1, 64, 64, 1]);
    expect(batches.flat()).toEqual(Array.from({ length: 130 }, (_, i) => String(i)));
  });
});

describe("With Redis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  it("requests of one turn are decided one after the other, by two scripts", async () => {
    const { limiter } = await live(server, { policies: { p: fixedWindow({ limit: 5, window: "1h" }) } });
    await resetStats(server);
    const decisions = await Promise.all(
      Array.from({ length: 12 }, () => limiter.decide({ identity: "anna" })),
    );
    expect(decisions.map(({ allowed }) => allowed)).toEqual([
      ...Array(5).fill(true),
      ...Array(7).fill(false),
    ]);
    expect(await callsOf(server, "evalsha")).toBe(2);
    await limiter.close();
  });

  it("each goes on in the context that asked", async () => {
    const context = new AsyncLocalStorage<number>();
    const policies = { p: fixedWindow({ limit: 99, window: "1h" }) };
    const guard = guardOf({ redis: server.url, policies });
    await eventually("Redis decides", async () => (await ruling(guard)).kind === "pass");
    const seen = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        context.run(
          i,
          () =>
            new Promise((resolve) => {
              guard.rule(askedOf({}), () => resolve(context.getStore()));
            }),
        ),
      ),
    );
    expect(seen).toEqual(Array.from({ length: 20 }, (_, i) => i));
  });

  it("this process's memory answers at once: nothing is gathered", async () => {
    const limiter = createLimiter({ policies: { p: fixedWindow({ limit: 9, window: "1h" }) } });
    let answered = 0;
    const asked = [1, 2, 3].map(() => limiter.decide({ identity: "anna" }).then(() => answered++));
    await Promise.resolve()
      .then(() => {})
      .then(() => {})
      .then(() => {});
    expect(answered).toBe(3);
    await Promise.all(asked);
    await limiter.close();
  });
});
