/** What is refused from memory is what Redis would refuse: by an oracle that asks it each time. */
import {
  type Check,
  concurrency,
  type Config,
  createLimiter,
  type Decision,
  fixedWindow,
  ioredisClient,
  type Limiter,
  memoryStore,
  type Move,
  type Outcome,
  type Policy,
  redisStore,
  type Store,
  tokenBucket,
} from "@tidegate/core";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { withDenyCache } from "../../packages/core/src/backends/deny-cache.ts";
import { oneStore } from "../../packages/core/src/backends/one-store.ts";
import { guardOf, ruling } from "../cases/asking.ts";
import { clockedClient, clockedScripts, type FakeClock, fakeClock } from "../harness/clock.ts";
import { eventually } from "../harness/eventually.ts";
import { callsOf, live, resetStats } from "../harness/live.ts";
import { EPOCH_MS, expireKeys, freshPrefix } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { policyOf, type Tag } from "../harness/twins.ts";

const quiet = { answered() {}, failed() {}, breaker() {}, asked() {} };

/** A process: its own cache in front of a store that several share. Its clock is the given one, in ms. */
function processOn(store: Store, clock: FakeClock, maxMs = 1000) {
  const options = { timeoutMs: 5000, coalesces: true, keepsStore: true, watcher: quiet };
  const asked = { count: 0 };
  const counting: Store = {
    ...store,
    decide(batch, done) {
      asked.count += batch.length;
      store.decide(batch, done);
    },
  };
  const backend = withDenyCache(oneStore(counting, options), { maxMs, clock: () => clock.now() / 1000 });
  const decide = (check: Check) =>
    new Promise<Outcome>((resolve, reject) =>
      backend.decide(
        check,
        (error, outcome) => (outcome ? resolve(outcome) : reject(error as Error)),
        () => {},
      ),
    );
  const done = (act: (done: () => void) => void) => new Promise<void>((resolve) => act(resolve));
  return {
    asked,
    decide,
    settle: (moves: Move[]) => done((end) => backend.settle(moves, end)),
    forget: (keys: string[]) => done((end) => backend.forget(keys, end)),
    block: (key: string, ms: number) => done((end) => backend.block(key, ms, "", end)),
  };
}

/** The same question, put to the store itself. */
const oracle = (store: Store, check: Check) =>
  new Promise<Outcome>((resolve, reject) =>
    store.decide([check], [(error, outcome) => (outcome ? resolve(outcome) : reject(error as Error))]),
  );

const TAGS: Tag[] = ["tb", "gc", "sw", "sl", "fw", "fk", "fd"];

const step = fc.record({
  after: fc.oneof(
    { weight: 12, arbitrary: fc.double({ min: 0, max: 5, noNaN: true }) },
    { weight: 2, arbitrary: fc.integer({ min: 0, max: 900 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 90_000 }) },
  ),
  act: fc.oneof(
    { weight: 30, arbitrary: fc.constant("decide" as const) },
    { weight: 1, arbitrary: fc.constantFrom("giveBack" as const, "reset" as const, "block" as const) },
  ),
  who: fc.constantFrom(0, 0, 0, 0, 1),
  cost: fc.oneof(
    { weight: 9, arbitrary: fc.constant(1) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 13 }) },
  ),
  numbers: fc.oneof({ weight: 20, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constant(1) }),
});

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** Policies of one request, and the same with other numbers: a limit that was changed. */
const policies = fc
  .uniqueArray(fc.constantFrom(...TAGS), { minLength: 1, maxLength: 3 })
  .chain((tags) =>
    fc.tuple(...tags.map((tag) => fc.tuple(policyOf[tag], policyOf[tag]) as fc.Arbitrary<[Policy, Policy]>)),
  );

let server: RedisServer;
beforeAll(async () => void (server = await startRedis()));
afterAll(() => server.stop());

function check(prefix: string, chosen: readonly Policy[], { who, cost }: Step): Check {
  const head = `${prefix}:{id:${who}}`;
  return {
    policies: chosen,
    keys: chosen.map(({ algorithm }) => `${head}:p:${algorithm.tag}`),
    costs: chosen.map(() => cost),
    deadline: performance.now() + 10_000,
    peek: false,
    blocks: [`${head}::b`],
    lease: undefined,
    nonce: undefined,
    varies: true,
  };
}

/** What a caller is told: who is refused by which policy for how long, and what is left. */
function told(chosen: readonly Policy[], { costs }: Check, outcome: Outcome) {
  if (outcome.blockedUs !== undefined) return { blocked: true };
  let at = 0;
  const verdicts = chosen.map(({ algorithm, numbers }, i) => {
    const now = outcome.nows?.[i] ?? outcome.now;
    const verdict = algorithm.explain(numbers, outcome.words, at, now, costs[i]!, outcome.granted);
    at += algorithm.words;
    return verdict;
  });
  return { granted: outcome.granted, verdicts };
}

interface World {
  readonly clock: FakeClock;
  readonly store: Store;
  readonly prefix: string;
  readonly tick: () => Promise<void>;
}

function redisWorld(): World {
  const clock = fakeClock(EPOCH_MS * 1000);
  const prefix = freshPrefix();
  const store = redisStore(clockedClient(ioredisClient(server.url), clock), { scripts: clockedScripts });
  return { clock, store, prefix, tick: () => expireKeys(server, prefix, clock) };
}

function memoryWorld(): World {
  const clock = fakeClock(EPOCH_MS * 1000);
  const store = memoryStore({ nowUs: clock.now });
  return { clock, store: { ...store, batches: true }, prefix: freshPrefix(), tick: async () => {} };
}

/** Walks through a history with one process that has a cache, and asks the store itself beside it, by a look. */
async function holds(world: World, chosen: readonly (readonly [Policy, Policy])[], steps: readonly Step[]) {
  const { clock, store, prefix, tick } = world;
  const one = processOn(store, clock);
  let cached = 0;
  let last: { check: Check; outcome: Outcome } | undefined;
  for (const each of steps) {
    clock.advance(each.after);
    await tick();
    const now = chosen.map((pair) => pair[each.numbers]!);
    const asked = check(prefix, now, each);
    if (each.act === "reset") await one.forget([...asked.keys]);
    else if (each.act === "block") await one.block(asked.blocks[0]!, 300);
    else if (each.act === "giveBack") {
      if (last) await one.settle(undo(last.check, last.outcome));
      last = undefined;
    } else {
      const truth = await oracle(store, { ...asked, peek: true });
      const outcome = await one.decide(asked);
      expect(outcome.granted).toBe(truth.granted);
      if (outcome.granted && each.cost > 0) last = { check: asked, outcome };
      // Who was asked is right, and may have mended what a look does not.
      if (!outcome.cached) continue;
      cached++;
      expect(told(now, asked, outcome)).toEqual(told(now, asked, truth));
    }
  }
  await store.close();
  return { cached, asked: one.asked.count };
}

function undo({ policies, keys, costs }: Check, { words, now }: Outcome): Move[] {
  let at = 0;
  return policies.map((policy, i) => {
    const { algorithm, numbers } = policy;
    const mark = algorithm.mark(numbers, words, at, now, costs[i]!);
    at += algorithm.words;
    return { kind: "credit", policy, key: keys[i]!, units: costs[i]!, mark, lease: undefined };
  });
}

describe("in one process the answers are those of Redis, whatever happens in between", () => {
  it.each([
    ["memory", memoryWorld, 1500],
    ["Redis", redisWorld, 60],
  ] as const)("in %s", async (_, world, numRuns) => {
    const sum = { cached: 0, asked: 0 };
    const histories = fc.array(step, { minLength: 5, maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(policies, histories, async (chosen, steps) => {
        const { cached, asked } = await holds(world(), chosen, steps);
        sum.cached += cached;
        sum.asked += asked;
      }),
      { numRuns },
    );
    // Or this would hold for a cache that remembers nothing.
    expect(sum.cached).toBeGreaterThan(sum.asked / 20);
  });
});

/** Two processes on one store. The second gives back, resets and blocks; the first only asks. */
async function between(world: World, chosen: readonly Policy[], steps: readonly Step[], maxMs: number) {
  const { clock, store, prefix } = world;
  const [one, other] = [processOn(store, clock, maxMs), processOn(store, clock, maxMs)];
  /** When somebody's wait became shorter, by identity. */
  const eased = new Map<number, number>();
  let stricter = 0;
  let last: { check: Check; outcome: Outcome; who: number } | undefined;
  for (const each of steps) {
    clock.advance(each.after);
    const asked = check(prefix, chosen, each);
    if (each.act === "reset") await other.forget([...asked.keys]);
    else if (each.act === "giveBack" && last) await other.settle(undo(last.check, last.outcome));
    if (each.act !== "decide") {
      eased.set(each.act === "giveBack" ? (last?.who ?? each.who) : each.who, clock.now());
      continue;
    }
    const truth = await oracle(store, { ...asked, peek: true });
    const outcome = await one.decide(asked);
    if (outcome.granted) {
      expect(truth.granted).toBe(true);
      if (each.cost > 0) last = { check: asked, outcome, who: each.who };
    } else if (truth.granted) {
      stricter++;
      expect(outcome.cached).toBe(true);
      expect(clock.now() - eased.get(each.who)!).toBeLessThan(maxMs * 1000);
    }
  }
  await store.close();
  return stricter;
}

describe("across processes", () => {
  const histories = fc.array(step, { minLength: 5, maxLength: 60 });

  it("it is stricter for the cap at most, after another process gave back or reset, and never looser", async () => {
    let stricter = 0;
    await fc.assert(
      fc.asyncProperty(policies, histories, fc.constantFrom(50, 1000), async (chosen, steps, maxMs) => {
        stricter += await between(
          memoryWorld(),
          chosen.map(([policy]) => policy),
          steps,
          maxMs,
        );
      }),
      { numRuns: 1500 },
    );
    expect(stricter).toBeGreaterThan(0);
  });
});

describe("a limiter with its default configuration", () => {
  const flood = async (limiter: Limiter, times: number) => {
    const decisions = await Promise.all(
      Array.from({ length: times }, () => limiter.decide({ identity: "a" })),
    );
    return decisions.filter(({ allowed }) => allowed).length;
  };

  it("asks Redis a few times for a flood of 20,000, and lets in exactly the limit", async () => {
    const { limiter } = await live(server, { policies: { p: fixedWindow({ limit: 100, window: "1h" }) } });
    await resetStats(server);
    let admitted = 0;
    for (let i = 0; i < 40; i++) admitted += await flood(limiter, 500);
    expect(admitted).toBe(100);
    expect(await callsOf(server, "evalsha")).toBeLessThanOrEqual(20);
    expect(await limiter.decide({ identity: "a" })).toMatchObject({ allowed: false, cached: true });
    await limiter.close();
  });

  it("who asks again at once, and again, keeps nobody else from running", async () => {
    const { limiter } = await live(server, { policies: { p: fixedWindow({ limit: 1, window: "1h" }) } });
    await flood(limiter, 10);
    let ticks = 0;
    const timer = setInterval(() => ticks++, 5);
    const end = performance.now() + 300;
    while (performance.now() < end) await limiter.decide({ identity: "a" });
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(10);
    await limiter.close();
  });

  it("lets in on time: the first request after the wait is asked, and passes", async () => {
    const { limiter } = await live(server, {
      policies: { p: tokenBucket({ capacity: 1, refillPerSecond: 5 }) },
    });
    await limiter.decide({ identity: "a" });
    const end = performance.now() + 1100;
    const passed: number[] = [];
    while (performance.now() < end) {
      if ((await limiter.decide({ identity: "a" })).allowed) passed.push(performance.now());
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    expect(passed.length).toBeGreaterThanOrEqual(4);
    expect(passed.length).toBeLessThanOrEqual(6);
    await limiter.close();
  });

  it.each([
    ["settle", async (limiter: Limiter, decision: Decision) => limiter.settle(decision, "giveBack")],
    ["reset", async (limiter: Limiter) => limiter.reset("a")],
  ])("what this process does by %s is seen at once", async (_, act) => {
    const { limiter } = await live(server, { policies: { p: fixedWindow({ limit: 1, window: "1h" }) } });
    const decision = await limiter.decide({ identity: "a" });
    expect(await flood(limiter, 100)).toBe(0);
    await act(limiter, decision);
    expect((await limiter.decide({ identity: "a" })).allowed).toBe(true);
    await limiter.close();
  });

  it("a block is told as a block", async () => {
    const { limiter } = await live(server, {
      policies: { p: fixedWindow({ limit: 1, window: "1h" }) },
      blocking: true,
    });
    await flood(limiter, 100);
    await limiter.block("a", "1h");
    expect((await limiter.decide({ identity: "a" })).blocked).toBe(true);
    await limiter.close();
  });

  it.each([
    ["a slot in flight", { policies: { p: concurrency({ limit: 1 }) } }],
    [
      "a limit on trial beside",
      {
        policies: {
          p: fixedWindow({ limit: 1, window: "1h" }),
          q: fixedWindow({ limit: 1, window: "1h", mode: "shadow" }),
        },
      },
    ],
    ["denyCache: false", { policies: { p: fixedWindow({ limit: 1, window: "1h" }) }, denyCache: false }],
  ] as [string, Config][])("asks each time: %s", async (_, config) => {
    const { limiter } = await live(server, config);
    await limiter.decide({ identity: "a" });
    await resetStats(server);
    for (let i = 0; i < 10; i++)
      expect(await limiter.decide({ identity: "a" })).toMatchObject({ allowed: false, cached: false });
    expect(await callsOf(server, "evalsha")).toBe(10);
    await limiter.close();
  });

  it("asks each time where units are given back after the response", async () => {
    const policies = { p: fixedWindow({ limit: 1, window: "1h" }) };
    const guard = guardOf({ redis: server.url, policies, giveBackOn: "failure" });
    await eventually("Redis decides", async () => (await ruling(guard)).kind === "pass");
    await resetStats(server);
    for (let i = 0; i < 10; i++) expect((await ruling(guard)).kind).toBe("refuse");
    expect(await callsOf(server, "evalsha")).toBe(10);
  });

  it("without coalesce, each question is a command of its own", async () => {
    const { limiter } = await live(server, {
      policies: { p: fixedWindow({ limit: 100, window: "1h" }) },
      coalesce: false,
      denyCache: false,
    });
    await resetStats(server);
    expect(await flood(limiter, 150)).toBe(100);
    expect(await callsOf(server, "evalsha")).toBe(150);
    await limiter.close();
  });

  it("maxMs says how long a refusal is believed", async () => {
    const { limiter, prefix } = await live(server, {
      policies: { p: fixedWindow({ limit: 1, window: "1h" }) },
      denyCache: { maxMs: 40 },
    });
    const another = createLimiter({
      redis: server.url,
      prefix,
      policies: { p: fixedWindow({ limit: 1, window: "1h" }) },
    });
    await flood(limiter, 10);
    await another.reset("a");
    await eventually(
      "it is asked again",
      async () => (await limiter.decide({ identity: "a" })).allowed,
      2000,
    );
    await another.close();
    await limiter.close();
  });
});
