/** P38: units given back after the response, once, however it ended. Through Express: test/http/settling.test.ts. */
import {
  type Config,
  type Decision,
  fixedWindow,
  gcra,
  type Ruling,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";
import { describe, expect, it } from "vitest";
import { useRedis, watchingSettlements } from "../harness/http.ts";
import { everything, guardOf, limiterOf, ruling, used, windows } from "./asking.ts";

const redis = useRedis();
const MANY = 20_000;

/** How a response may end, and what giving back on failure makes of it. */
const ends: [string, { status: number | undefined; aborted: boolean }, back: number][] = [
  ["abort before the end", { status: 200, aborted: true }, 1],
  ["abort before the beginning", { status: undefined, aborted: true }, 1],
  ["200", { status: 200, aborted: false }, 0],
  ["304", { status: 304, aborted: false }, 0],
  ["404", { status: 404, aborted: false }, 1],
  ["500", { status: 500, aborted: false }, 1],
  ["a handler that threw before any response", { status: undefined, aborted: false }, 1],
];

type Passed = Extract<Ruling, { kind: "pass" }>;

/** A request that is let in. */
async function entered(guard: ReturnType<typeof guardOf>): Promise<Passed> {
  const ruled = await ruling(guard);
  if (ruled.kind !== "pass") throw new Error(`the request was not let in: ${ruled.kind}`);
  return ruled;
}

const WHO = { kind: "ip", value: "203.0.113.7" };

describe.each(windows(100, 3_600_000))("P38 on failure, %s", (_, policy) => {
  const guard = () => {
    const { store, through } = watchingSettlements(redis.store);
    return Object.assign(guardOf({ store, policies: { policy }, giveBackOn: "failure" }), { through });
  };

  it.each(ends)("P38 T1 %s", async (_, end, back) => {
    const asked = guard();
    await entered(asked); // One that stays.
    const { settle } = await entered(asked);
    settle!(end);
    await asked.through();
    expect(await used(asked.limiter, WHO)).toEqual([2 - back]);
  });

  it("P38 T2 finish, close and error one after the other: one refund", async () => {
    const asked = guard();
    for (let i = 0; i < 3; i++) await entered(asked);
    const { settle } = await entered(asked);
    settle!({ status: 500, aborted: false });
    settle!({ status: 500, aborted: true });
    settle!({ status: undefined, aborted: true });
    await asked.through();
    expect(await used(asked.limiter, WHO)).toEqual([3]);
  });

  it("P38 T3 a refusal has nothing to give back", async () => {
    const asked = guard();
    for (let i = 0; i < 100; i++) await entered(asked);
    const refused = await ruling(asked);
    expect(refused).toMatchObject({ kind: "refuse", decision: { receipt: undefined } });
    expect(refused).not.toHaveProperty("settle");
    await asked.limiter.settle((refused as { decision: Decision }).decision, "giveBack");
    expect(await used(asked.limiter, WHO)).toEqual([100]);
  });
});

describe.each(everything(5))("P38 %s, without HTTP", (_, policy) => {
  it("P38 T4 a decision settled twice, at once or later, is given back once", async () => {
    const limiter = limiterOf({ store: redis.store, policies: { policy } });
    const [, decision] = [await limiter.decide({ identity: "x" }), await limiter.decide({ identity: "x" })];
    await Promise.all([1, 2, 3].map(() => limiter.settle(decision, "giveBack")));
    await limiter.settle(decision, "giveBack");
    expect(await used(limiter)).toEqual([1]);
  });

  it("P38 T4 nothing is given back twice by cancel and commit", async () => {
    const limiter = limiterOf({ store: redis.store, policies: { policy } });
    await limiter.decide({ identity: "x" });
    const reserved = await limiter.reserve({ identity: "x", cost: 3 });
    await reserved.cancel();
    await reserved.cancel();
    await reserved.commit(3);
    expect(await used(limiter)).toEqual([1]);
  });
});

/** The same numbers each time. */
function dice(seed: number): (sides: number) => number {
  let state = seed;
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * sides);
  };
}

describe("P38 ten thousand mixed requests", () => {
  const settles = (name: string, config: Partial<Config>, keeps: (end: (typeof ends)[number]) => boolean) =>
    [name, config, keeps] as const;
  it.each([
    settles("failure", { giveBackOn: "failure" }, ([, , back]) => back === 0),
    settles("success", { giveBackOn: "success" }, ([, , back]) => back === 1),
    settles(
      "settle",
      { settle: ({ status }) => (status === 404 ? "giveBack" : "keep") },
      ([name]) => name !== "404",
    ),
  ])("P38 T5 on %s: the sum is exact", async (_, config, keeps) => {
    const roll = dice(42);
    const { store, through } = watchingSettlements(redis.store);
    const guard = guardOf({
      store,
      policies: {
        fixed: fixedWindow({ limit: MANY, window: "1h" }),
        sliding: slidingWindow({ limit: MANY, window: "1h" }),
        even: gcra({ limit: MANY, window: "1h" }),
        bucket: tokenBucket({ capacity: MANY, refillPerSecond: 1 }),
      },
      ...config,
    });
    let stays = 0;
    const open: (() => void)[] = [];
    for (let batch = 0; batch < 20; batch++) {
      const rulings = await Promise.all(Array.from({ length: 500 }, () => entered(guard)));
      for (const { settle: tell } of rulings) {
        const end = ends[roll(ends.length)]!;
        if (keeps(end)) stays++;
        const ended = () => tell!(end[1]);
        open.push(ended);
        if (roll(4) === 0) open.push(ended); // finish, then close
      }
      // About half of what is open ends now, in any order.
      for (let i = open.length >> 1; i > 0; i--) open.splice(roll(open.length), 1)[0]!();
    }
    for (const ended of open) ended();
    await through();
    expect(await used(guard.limiter, WHO)).toEqual([stays, stays, stays, stays]);
    expect(guard.events).toEqual([]);
  });
});
