import { getEventListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import {
  concurrency,
  type Config,
  createLimiter,
  type Decision,
  fixedWindow,
  ioredisClient,
  memoryStore,
  redisStore,
  type Store,
  tokenBucket,
} from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { freshPrefix } from "../harness/pair.ts";
import { freePort, type RedisServer, startRedis } from "../harness/redis.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

/** A limiter on Redis, and how often its store was asked to decide. */
async function waiting(config: Config) {
  const store = redisStore(ioredisClient(server.url));
  onTestFinished(() => store.close());
  const asked = { times: 0 };
  const counting: Store = {
    ...store,
    decide(batch, done) {
      asked.times += batch.length;
      store.decide(batch, done);
    },
  };
  const limiter = createLimiter({ store: counting, prefix: freshPrefix(), timeoutMs: 5000, ...config });
  await limiter.peek({ identity: "warm-up" });
  asked.times = 0;
  return { limiter, asked };
}

const bucket = (everyMs: number) => tokenBucket({ capacity: 1, refillPerSecond: 1000 / everyMs });
const window = (limit: number, ms: number) => fixedWindow({ limit, window: ms });

/** How long something took, ms. */
async function timeOf(act: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await act();
  return performance.now() - start;
}

/** The code or name of what a promise rejects with. */
const fault = (promise: Promise<unknown>) =>
  promise.then(
    () => "resolved",
    (error: { code?: unknown; name?: string }) => (typeof error.code === "string" ? error.code : error.name),
  );

describe("fifty who wait for one identity", () => {
  it.each([
    ["a token bucket, one each 20 ms", bucket(20), 1, 20],
    ["a fixed window, ten each 150 ms", window(10, 150), 10, 150],
  ])(
    "%s: in order of arrival, as far apart as the policy says, asking at most twice each",
    async (_, policy, units, everyMs) => {
      const { limiter, asked } = await waiting({ policies: { policy } });
      const order: number[] = [];
      const moments: number[] = [];
      await Promise.all(
        Array.from({ length: 50 }, async (_, i) => {
          const { allowed, receipt } = await limiter.wait({ identity: "somebody" });
          expect(allowed).toBe(true);
          order.push(i);
          moments.push(receipt!.at / 1000);
        }),
      );
      expect(order).toEqual(Array.from({ length: 50 }, (_, i) => i));
      // By the server's clock, from the first of a window to the first of the next.
      const firsts = moments.filter((_, i) => i % units === 0);
      const late = firsts.slice(1).map((at, i) => at - firsts[i]! - everyMs);
      expect(Math.min(...late)).toBeGreaterThanOrEqual(-1);
      // The usual one: on a busy machine somebody is always held up.
      expect(late.toSorted((a, b) => a - b)[Math.floor(late.length / 2)]).toBeLessThanOrEqual(25);
      expect(asked.times).toBeLessThanOrEqual(100);
    },
  );

  it("two identities do not wait for each other", async () => {
    const { limiter } = await waiting({ policies: { p: window(1, 400) } });
    await limiter.decide({ identity: "slow" });
    const order: string[] = [];
    await Promise.all(
      ["slow", "quick"].map(async (identity) => {
        await limiter.wait({ identity });
        order.push(identity);
      }),
    );
    expect(order).toEqual(["quick", "slow"]);
  });

  it("waits for several policies as long as the longest says", async () => {
    const { limiter } = await waiting({ policies: { quick: window(1, 100), slow: window(1, 300) } });
    await limiter.decide({ identity: "somebody" });
    const took = await timeOf(() => limiter.wait({ identity: "somebody" }));
    expect(took).toBeGreaterThan(280);
    expect(took).toBeLessThan(600);
  });
});

describe("who gives up", () => {
  it("by its signal while it waits: at once, with the signal's reason, and the next in line goes on", async () => {
    const { limiter } = await waiting({ policies: { p: window(1, 300) } });
    await limiter.decide({ identity: "somebody" });
    const stop = new AbortController();
    const first = fault(limiter.wait({ identity: "somebody", signal: stop.signal }));
    const second = limiter.wait({ identity: "somebody" });
    await sleep(50);
    const at = performance.now();
    stop.abort();
    expect(await first).toBe("AbortError");
    expect(performance.now() - at).toBeLessThan(100);
    expect(await second).toMatchObject({ allowed: true });
    expect(getEventListeners(stop.signal, "abort")).toHaveLength(0);
  });

  it("by its signal while in line: at once, asking nothing, and takes nothing from the others", async () => {
    const { limiter, asked } = await waiting({ policies: { p: window(1, 200) } });
    await limiter.decide({ identity: "somebody" });
    const stop = new AbortController();
    const first = limiter.wait({ identity: "somebody" });
    const second = fault(limiter.wait({ identity: "somebody", signal: stop.signal }));
    const third = limiter.wait({ identity: "somebody" });
    await sleep(50);
    const at = performance.now();
    stop.abort(new Error("had enough"));
    expect(await second).toBe("Error");
    expect(performance.now() - at).toBeLessThan(100);
    await Promise.all([first, third]);
    expect(asked.times).toBeLessThanOrEqual(5);
    expect(getEventListeners(stop.signal, "abort")).toHaveLength(0);
  });

  it("with a signal that was aborted before: asks nothing", async () => {
    const { limiter, asked } = await waiting({ policies: { p: window(1, 200) } });
    expect(await fault(limiter.wait({ identity: "somebody", signal: AbortSignal.abort() }))).toBe(
      "AbortError",
    );
    expect(asked.times).toBe(0);
  });

  it("leaves no listener on a signal that was not used", async () => {
    const { limiter } = await waiting({ policies: { p: window(1, 50) } });
    const { signal } = new AbortController();
    await Promise.all([1, 2, 3].map(() => limiter.wait({ identity: "somebody", signal })));
    await eventually("none is left", () => getEventListeners(signal, "abort").length === 0, 100);
  });

  it("by maxWaitMs: at once when the wait is known to be longer", async () => {
    const { limiter } = await waiting({ policies: { p: window(1, 2000) } });
    await limiter.decide({ identity: "somebody" });
    const took = await timeOf(async () => {
      expect(await fault(limiter.wait({ identity: "somebody", maxWaitMs: 1500 }))).toBe(
        "TIDEGATE_WAIT_TIMEOUT",
      );
    });
    expect(took).toBeLessThan(500);
  });

  it("by maxWaitMs in line: when its time is over, not when its turn comes", async () => {
    const { limiter } = await waiting({ policies: { p: window(1, 800) } });
    await limiter.decide({ identity: "somebody" });
    const first = limiter.wait({ identity: "somebody" });
    const took = await timeOf(async () => {
      expect(await fault(limiter.wait({ identity: "somebody", maxWaitMs: 100 }))).toBe(
        "TIDEGATE_WAIT_TIMEOUT",
      );
    });
    expect(took).toBeGreaterThan(90);
    expect(took).toBeLessThan(400);
    await first;
  });

  it("waits for a slot in flight no longer than maxWaitMs", async () => {
    const { limiter } = await waiting({ policies: { p: concurrency({ limit: 1 }) } });
    await limiter.decide({ identity: "somebody" });
    const took = await timeOf(async () => {
      expect(await fault(limiter.wait({ identity: "somebody", maxWaitMs: 150 }))).toBe(
        "TIDEGATE_WAIT_TIMEOUT",
      );
    });
    expect(took).toBeGreaterThan(140);
    expect(took).toBeLessThan(400);
  });
});

describe("a wait that cannot end well", () => {
  it("for a cost above the limit rejects at once", async () => {
    const { limiter } = await waiting({ policies: { p: window(3, 1000) } });
    expect(await fault(limiter.wait({ identity: "somebody", cost: 4 }))).toBe("TIDEGATE_WAIT_NEVER");
  });

  it("of an identity that is blocked for ever rejects; blocked for a time, it waits", async () => {
    const { limiter } = await waiting({ policies: { p: window(3, 1000) }, blocking: true });
    await limiter.block("somebody", "forever");
    await limiter.block("other", 150);
    expect(await fault(limiter.wait({ identity: "somebody" }))).toBe("TIDEGATE_WAIT_NEVER");
    const took = await timeOf(() => limiter.wait({ identity: "other" }));
    expect(took).toBeGreaterThan(100);
    expect(took).toBeLessThan(400);
  });

  it("with no store to ask: rejects by the rule closed, is let in by the rule open", async () => {
    const redis = `redis://127.0.0.1:${await freePort()}`;
    for (const [onFailure, outcome] of [
      ["closed", "TIDEGATE_WAIT_DEGRADED"],
      ["open", "resolved"],
    ] as const) {
      const limiter = createLimiter({
        redis,
        policies: { p: window(1, 1000) },
        onFailure,
        onEvent: () => {},
      });
      expect(await fault(limiter.wait({ identity: "somebody" }))).toBe(outcome);
      await limiter.close();
    }
  });

  it("without an identity rejects with the fault of decide", async () => {
    const { limiter } = await waiting({ policies: { p: window(1, 1000) } });
    expect(await fault(limiter.wait({ identity: "" }))).toBe("TIDEGATE_IDENTITY_MISSING");
  });
});

describe("who waits for a slot in flight", () => {
  it("is woken by a release in the same process, one after the other", async () => {
    const { limiter } = await waiting({ policies: { p: concurrency({ limit: 1 }) } });
    let held: Decision = await limiter.decide({ identity: "somebody" });
    const order: number[] = [];
    const line = [0, 1, 2].map(async (i) => {
      const decision = await limiter.wait({ identity: "somebody" });
      order.push(i);
      return decision;
    });
    for (const next of line) {
      await sleep(50);
      const took = await timeOf(async () => {
        await limiter.settle(held, "keep");
        held = await next;
      });
      expect(took).toBeLessThan(500);
    }
    expect(order).toEqual([0, 1, 2]);
  });

  it("is not put to sleep by a refusal that a release overtook", async () => {
    const store = memoryStore();
    // Decides at once, and tells after 60 ms.
    const late: Store = {
      ...store,
      decide: (batch, done) =>
        store.decide(
          batch,
          done.map((each) => (error, outcome) => void setTimeout(() => each(error, outcome), 60)),
        ),
    };
    const limiter = createLimiter({
      store: late,
      policies: { p: concurrency({ limit: 1 }) },
      timeoutMs: 5000,
    });
    const held = await limiter.decide({ identity: "somebody" });
    const next = limiter.wait({ identity: "somebody" });
    await sleep(30);
    await limiter.settle(held, "keep");
    expect(await timeOf(() => next)).toBeLessThan(500);
    await limiter.close();
  });

  it("does not keep a slot that it is given after it gave up", async () => {
    const store = memoryStore();
    const slow: Store = {
      ...store,
      decide: (batch, done) => setTimeout(() => store.decide(batch, done), 60),
    };
    const limiter = createLimiter({
      store: slow,
      policies: { p: concurrency({ limit: 2 }) },
      timeoutMs: 5000,
    });
    const stop = new AbortController();
    await Promise.all([
      limiter.wait({ identity: "somebody" }),
      fault(limiter.wait({ identity: "somebody", signal: stop.signal })),
      sleep(90).then(() => stop.abort()), // The second is asking by now.
    ]);
    await sleep(100);
    expect((await limiter.peek({ identity: "somebody" })).verdicts[0]!.remaining).toBe(1);
    await limiter.close();
  });
});
