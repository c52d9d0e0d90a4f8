/** A store that fails on command, under a limiter as it runs in production. */
import {
  concurrency,
  type Config,
  createLimiter,
  fixedWindow,
  type FailureRule,
  type StoreErrorClass,
  type TidegateEvent,
} from "@tidegate/core";
import { expectAdmitted, expectUnavailable, type TestStore, testStore } from "@tidegate/core/testing";
import { rateLimit } from "@tidegate/express";
import express from "express";
import request from "supertest";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";

const policies = { hourly: fixedWindow({ limit: 3, window: "1h" }) };

/** A limiter and what it told. `ask` resolves at once, unless the store hangs. */
function limiting(config: Partial<Config> = {}) {
  const store = testStore();
  const events: TidegateEvent[] = [];
  const onEvent = (event: TidegateEvent) => void events.push(event);
  const limiter = createLimiter({ store, policies, onEvent, ...config });
  onTestFinished(() => limiter.close());
  const ask = () => limiter.decide({ identity: "anna" });
  return { store, limiter, events, ask };
}

const typesOf = (events: readonly TidegateEvent[]) => events.map(({ type }) => type);
const kindsOf = ({ calls }: TestStore) => calls.map(({ kind, answer }) => `${kind} ${answer}`);

const CLASSES: StoreErrorClass[] = [
  "timeout",
  "late",
  "connection",
  "unavailable",
  "moving",
  "readonly",
  "foreign",
  "broken",
  "denied",
  "server",
  "overload",
  "unknown",
];

/** Faults of one key: the store is well. */
const OF_ONE_KEY: StoreErrorClass[] = ["moving", "foreign", "broken"];

describe.each(CLASSES)("fail(%j)", (reason) => {
  const isOfOneKey = OF_ONE_KEY.includes(reason);

  it.each<[rule: "open" | "closed" | "local", allowed: boolean]>([
    ["open", true],
    ["closed", false],
    ["local", true],
  ])("is answered by the rule %s, and nothing is charged", async (rule, allowed) => {
    const { store, ask } = limiting({ onFailure: rule, instances: 1 });
    store.fail(reason);
    expect(await ask()).toMatchObject({ allowed, degraded: { rule, reason } });
    expect(store.size).toBe(0);
    store.heal();
    expect((await ask()).verdicts[0]!.remaining).toBe(2);
  });

  it(
    isOfOneKey ? "is no outage" : "is one outage, which opens the breaker after five and is over at heal()",
    async () => {
      const { store, limiter, events, ask } = limiting();
      store.fail(reason);
      for (let i = 0; i < 7; i++) await ask();
      expect(limiter.health()).toMatchObject({
        state: isOfOneKey ? "ok" : "degraded",
        breaker: isOfOneKey ? "closed" : "open",
        lastError: reason,
      });
      const degraded = Array(7).fill({ type: "degraded", rule: "open", reason });
      const storeError = {
        type: "storeError",
        reason,
        message: expect.stringMatching(/^(Redis|[a-z]).+[^.]$/),
      };
      expect(events).toEqual(isOfOneKey ? degraded : [storeError, ...degraded]);
      const asked = store.calls.filter(({ kind }) => kind === "decide");
      expect(asked).toHaveLength(isOfOneKey ? 7 : 5);

      events.length = 0;
      store.heal();
      expect(limiter.health()).toMatchObject({ state: "ok", breaker: "closed", lastError: reason });
      expect(typesOf(events)).toEqual(isOfOneKey ? [] : ["recovered"]);
      expect((await ask()).degraded).toBeUndefined();
    },
  );

  it("is what the other methods reject with", async () => {
    const { store, limiter } = limiting({ blocking: true });
    const reserved = await limiter.reserve({ identity: "anna" });
    store.fail(reason);
    const error = { name: "StoreError", code: `TIDEGATE_STORE_${reason.toUpperCase()}`, reason };
    await expect(limiter.reset("anna")).rejects.toMatchObject(error);
    await expect(limiter.block("anna", 1000, "test")).rejects.toMatchObject(error);
    await expect(reserved.cancel()).rejects.toMatchObject(error);
  });
});

describe("a failing store", () => {
  it.each<[reason: StoreErrorClass, state: "ok" | "degraded"]>([
    ["connection", "degraded"],
    ["server", "degraded"],
    ["timeout", "ok"],
  ])("that fails with %j is %s to health() before anybody asks", (reason, state) => {
    const { store, limiter } = limiting();
    store.fail(reason);
    expect(limiter.health().state).toBe(state);
    store.heal();
    expect(limiter.health().state).toBe("ok");
  });

  it("fails in another way when it is told so", async () => {
    const { store, ask } = limiting();
    store.fail("timeout");
    expect((await ask()).degraded!.reason).toBe("timeout");
    store.fail("readonly");
    expect((await ask()).degraded!.reason).toBe("readonly");
  });

  it.each<[what: string, act: (store: TestStore) => void, option: string]>([
    ["a class that does not exist", (store) => store.fail("gone" as "late"), "store.fail"],
    ["no class", (store) => store.fail(undefined as unknown as "late"), "store.fail"],
    ["a class that does not exist", (store) => store.failNext(1, "gone" as "late"), "store.failNext"],
    ["no number", (store) => store.failNext("2" as unknown as number), "store.failNext"],
    ["none at all", (store) => store.failNext(0), "store.failNext"],
    ["a span that is none", (store) => store.slow("soon"), "store.slow"],
    ["no time at all", (store) => store.slow(0), "store.slow"],
  ])("refuses %s, and goes on", async (_, act, option) => {
    const { store, ask } = limiting();
    expect(() => act(store)).toThrow(
      expect.objectContaining({ name: "ConfigError", code: "TIDEGATE_OPTION_INVALID", option }),
    );
    expect((await ask()).degraded).toBeUndefined();
  });
});

describe("failNext", () => {
  it("fails so many decisions, and then all is well", async () => {
    const { store, limiter, events, ask } = limiting();
    store.failNext(2, "timeout");
    const reasons = [];
    for (let i = 0; i < 4; i++) reasons.push((await ask()).degraded?.reason);
    expect(reasons).toEqual(["timeout", "timeout", undefined, undefined]);
    expect(typesOf(events)).toEqual(["storeError", "degraded", "degraded", "recovered"]);
    expect(limiter.health()).toMatchObject({ state: "ok", breaker: "closed" });
  });

  it("fails with a connection that is not there, unless it is told otherwise", async () => {
    const { store, ask } = limiting();
    store.failNext(1);
    expect((await ask()).degraded!.reason).toBe("connection");
  });

  it("opens the breaker with the fifth, and closes it with the last", async () => {
    const { store, limiter, ask } = limiting();
    store.failNext(5);
    const breaker = [];
    for (let i = 0; i < 6; i++) {
      await ask();
      breaker.push(limiter.health().breaker);
    }
    expect(breaker).toEqual(Array(6).fill("closed"));
    expect(kindsOf(store)).toEqual([...Array(5).fill("decide connection"), "look granted", "decide granted"]);
  });

  it("takes no look for one of them, and carries out what is no decision", async () => {
    const { store, limiter, ask } = limiting();
    const { receipt } = await ask();
    expect(receipt).toBeDefined();
    store.failNext(1);
    expect((await limiter.peek({ identity: "anna" })).degraded!.reason).toBe("connection");
    await limiter.reset("anna");
    expect((await ask()).degraded!.reason).toBe("connection");
    expect((await ask()).verdicts[0]!.remaining).toBe(2);
  });
});

describe("by a clock of timers that a test moves,", () => {
  beforeEach(() => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
  });

  /** What a promise is by now. */
  async function stateOf<T>(promise: Promise<T>): Promise<T | "pending"> {
    await Promise.resolve();
    return Promise.race([promise, Promise.resolve("pending" as const)]);
  }

  describe("a store that hangs", () => {
    it("is answered for by the deadline", async () => {
      const { store, ask } = limiting({ timeoutMs: 50 });
      store.hang();
      const decision = ask();
      await vi.advanceTimersByTimeAsync(49);
      expect(await stateOf(decision)).toBe("pending");
      await vi.advanceTimersByTimeAsync(1);
      expect(await decision).toMatchObject({ allowed: true, degraded: { rule: "open", reason: "timeout" } });
      expect(kindsOf(store)).toEqual(["decide undefined"]);
    });

    it("is not asked any more after five, and is asked again at heal()", async () => {
      const { store, limiter, ask } = limiting({ timeoutMs: 50 });
      store.hang();
      const decisions = [1, 2, 3, 4, 5].map(ask);
      await vi.advanceTimersByTimeAsync(50);
      await Promise.all(decisions);
      expect(limiter.health()).toMatchObject({ breaker: "open", lastError: "timeout" });
      const before = store.calls.length;
      expect(await ask()).toMatchObject({ degraded: { reason: "timeout" } });
      expect(store.calls).toHaveLength(before);
      store.heal();
      expect(limiter.health().breaker).toBe("closed");
      expect(await ask()).toMatchObject({ allowed: true, degraded: undefined });
    });

    it("answers in time what is still waited for at heal()", async () => {
      const { store, ask } = limiting({ timeoutMs: 50 });
      store.hang();
      const decision = ask();
      await vi.advanceTimersByTimeAsync(49);
      store.heal();
      expect(await decision).toMatchObject({ allowed: true, degraded: undefined });
    });

    it("charges nothing of what nobody waits for any more", async () => {
      const { store, ask } = limiting({ timeoutMs: 50 });
      store.hang();
      const decision = ask();
      await vi.advanceTimersByTimeAsync(50);
      await decision;
      store.heal();
      expect(kindsOf(store).slice(0, 1)).toEqual(["decide late"]);
      expect((await ask()).verdicts[0]!.remaining).toBe(2);
    });

    it("carries out at heal() what has no deadline", async () => {
      const { store, limiter, ask } = limiting();
      await ask();
      store.hang();
      const reset = limiter.reset("anna");
      expect(await stateOf(reset)).toBe("pending");
      expect(store.size).toBe(1);
      store.heal();
      expect(await reset).not.toBe("pending");
      expect(store.size).toBe(0);
    });

    it("keeps no limiter from closing", async () => {
      const { store, limiter } = limiting({
        policies: { slots: concurrency({ limit: 1 }) },
        timeoutMs: 50,
      });
      await limiter.decide({ identity: "anna" });
      store.hang();
      const closed = limiter.close();
      await vi.advanceTimersByTimeAsync(50);
      await closed;
    });
  });

  describe("a store that is slow", () => {
    it("answers so much later, and is in time", async () => {
      const { store, ask } = limiting({ timeoutMs: 50 });
      store.slow("20ms");
      const decision = ask();
      await vi.advanceTimersByTimeAsync(19);
      expect(await stateOf(decision)).toBe("pending");
      await vi.advanceTimersByTimeAsync(1);
      expect(await decision).toMatchObject({ allowed: true, degraded: undefined });
    });

    it.each<[rule: FailureRule, remaining: number, settled: string[]]>([
      // What passed by the rule stays charged, what did not comes back.
      ["open", 1, []],
      ["closed", 2, ["settle done"]],
    ])("under the rule %s is too late, and leaves %i", async (onFailure, remaining, settled) => {
      const { store, ask } = limiting({ timeoutMs: 50, onFailure });
      store.slow(80);
      const decision = ask();
      await vi.advanceTimersByTimeAsync(50);
      expect((await decision).degraded!.reason).toBe("timeout");
      store.heal();
      await vi.advanceTimersByTimeAsync(30);
      expect(kindsOf(store)).toEqual(["decide granted", "look granted", ...settled]);
      expect((await ask()).verdicts[0]!.remaining).toBe(remaining);
    });
  });

  it("clear() ends what hangs and what is on its way", async () => {
    const { store, ask } = limiting({ timeoutMs: 50 });
    await ask();
    store.slow(20);
    const slow = ask();
    store.hang();
    const hangs = ask();
    store.clear();
    expect([store.calls, store.size]).toEqual([[], 0]);
    await vi.advanceTimersByTimeAsync(50);
    expect([(await slow).degraded!.reason, (await hangs).degraded!.reason]).toEqual(["timeout", "timeout"]);
    expect(store.size).toBe(0);
    expect((await ask()).verdicts[0]!.remaining).toBe(2);
  });
});

describe("calls tell", () => {
  it("of settlements by units, above and below 0", async () => {
    const { store, limiter } = limiting();
    const more = await limiter.reserve({ identity: "anna", cost: 1 });
    await more.commit(2);
    const less = await limiter.reserve({ identity: "anna", cost: 1 });
    await less.cancel();
    const keys = ["rl:{id:anna}:hourly:fw"];
    const at = store.clock.now();
    expect(store.calls).toEqual([
      { kind: "decide", keys, units: [1], at, answer: "granted" },
      { kind: "settle", keys, units: [1], at, answer: "done" },
      { kind: "decide", keys, units: [1], at, answer: "granted" },
      { kind: "settle", keys, units: [-1], at, answer: "done" },
    ]);
  });

  it("of what is done by hand", async () => {
    const { store, limiter } = limiting({ blocking: true });
    await limiter.block("anna", 1000, "test");
    store.clock.advance("1m");
    await limiter.unblock("anna");
    await limiter.reset("anna");
    await limiter.peek({ identity: "anna" });
    expect(kindsOf(store)).toEqual(["block done", "forget done", "forget done", "look granted"]);
    expect(store.calls.map(({ at }) => at - store.calls[0]!.at)).toEqual([0, 60_000, 60_000, 60_000]);
  });

  it("of slots that are held on", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { store, limiter } = limiting({ policies: { slots: concurrency({ limit: 1, leaseMs: 30_000 }) } });
    const decision = await limiter.decide({ identity: "anna" });
    await vi.advanceTimersByTimeAsync(10_000);
    await limiter.settle(decision, "keep");
    expect(kindsOf(store)).toEqual(["decide granted", "renew done", "settle done"]);
  });
});

it("one store under two limiters heals both", async () => {
  const store = testStore();
  const [one, other] = [limiting({ store }), limiting({ store })];
  store.fail("connection");
  for (let i = 0; i < 5; i++) await Promise.all([one.ask(), other.ask()]);
  expect([one.limiter.health().breaker, other.limiter.health().breaker]).toEqual(["open", "open"]);
  store.heal();
  expect([typesOf(one.events).at(-1), typesOf(other.events).at(-1)]).toEqual(["recovered", "recovered"]);
});

it("an application says on its health page what the limiter knows, and answers 503 meanwhile", async () => {
  const store = testStore();
  const limit = rateLimit({ store, policies, onFailure: "closed", onEvent: () => {} });
  const app = express();
  app.get("/ready", (_, res) => void res.status(limit.limiter.health().state === "ok" ? 200 : 500).end());
  app.use(limit);
  app.get("/", (_, res) => void res.send("hello"));
  const visit = (path: string) => request(app).get(path);

  expectAdmitted(await visit("/"), { remaining: 2 });
  store.fail("connection");
  expectUnavailable(await visit("/"), { retryAfter: 5 });
  expect((await visit("/ready")).status).toBe(500);
  store.heal();
  expect((await visit("/ready")).status).toBe(200);
  expectAdmitted(await visit("/"), { remaining: 1 });
});
