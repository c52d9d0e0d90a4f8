/**
 * A process of its own for P29, run with --expose-gc on the built packages: what a process keeps of
 * a million identities and of finished requests.
 */
import { AsyncLocalStorage } from "node:async_hooks";

/** Timers that are set and have neither run nor been cleared. */
const alive = new Set();
for (const [set, clear] of /** @type {const} */ ([
  ["setTimeout", "clearTimeout"],
  ["setInterval", "clearInterval"],
])) {
  const [realSet, realClear] = [globalThis[set], globalThis[clear]];
  globalThis[set] = /** @type {any} */ (
    (/** @type {Function} */ run, /** @type {number} */ ms, /** @type {unknown[]} */ ...args) => {
      const timer = realSet(() => {
        if (set === "setTimeout") alive.delete(timer);
        run(...args);
      }, ms);
      alive.add(timer);
      return timer;
    }
  );
  globalThis[clear] = /** @type {any} */ (
    (/** @type {NodeJS.Timeout} */ timer) => {
      alive.delete(timer);
      realClear(timer);
    }
  );
}

const { concurrency, createLimiter, fixedWindow, memoryStore, slidingWindow } =
  await import("@tidegate/core");

const gc = /** @type {() => void} */ (globalThis.gc);
const turn = () => new Promise((resolve) => setImmediate(resolve));

async function heapUsed() {
  for (let i = 0; i < 4; i++) {
    await turn();
    gc();
  }
  return process.memoryUsage().heapUsed;
}

/** @type {Record<string, (url?: string) => Promise<unknown>>} */
const tasks = {
  /** A million identities, one request each, then time passes. */
  async million() {
    let now = 1_795_910_400_250_000;
    const store = memoryStore({ maxEntries: 2_000_000, nowUs: () => now });
    const limiter = createLimiter({ store, policies: { p: fixedWindow({ limit: 5, window: "1m" }) } });
    for (let i = 0; i < 10_000; i++) await limiter.decide({ identity: `warm-${i}` });
    now += 60_001_000;
    store.sweep();
    const before = await heapUsed();
    let most = 0;
    for (let i = 0; i < 1_000_000; i++) {
      await limiter.decide({ identity: `identity-${i}` });
      if (i % 10_000 === 0) most = Math.max(most, alive.size);
    }
    const full = { size: store.size, heap: await heapUsed() };
    now += 60_001_000;
    store.sweep();
    const after = { size: store.size, heap: await heapUsed() };
    return { before, full, after, most, left: alive.size };
  },

  /** Requests, each in a context of its own that holds something large. What of it is left when they are through? */
  async contexts(url) {
    const policies = {
      p: slidingWindow({ limit: 1000, window: "1h" }),
      inFlight: concurrency({ limit: 10 }),
    };
    const limiter = createLimiter({ ...(url ? { redis: url } : {}), policies, timeoutMs: 5000 });
    const contexts = await inContexts(20, async () => {
      const decision = await limiter.decide({ identity: "somebody" });
      if (!decision.allowed || decision.degraded) throw new Error("not let in");
      await limiter.settle(decision, "keep");
    });
    const kept = await keptOf(contexts);
    // The limiter lives on, or its timers would be no question.
    const { allowed } = await limiter.decide({ identity: "somebody" });
    await limiter.close();
    return { kept, allowed };
  },

  /** The same where one request overlaps the next, so that there is always a lease to renew. */
  async leases() {
    const limiter = createLimiter({ policies: { inFlight: concurrency({ limit: 100 }) } });
    /** @type {any} */
    let last;
    const contexts = await inContexts(20, async () => {
      const decision = await limiter.decide({ identity: "somebody" });
      if (last) await limiter.settle(last, "keep");
      last = decision;
    });
    const timers = alive.size;
    // The last is still in flight.
    return { kept: await keptOf(contexts.slice(0, -1)), timers, held: Boolean(last) };
  },
};

const storage = new AsyncLocalStorage();

/**
 * Runs something so often, each time in a context that nothing else holds.
 *
 * @param {number} times
 * @param {() => Promise<void>} request
 */
async function inContexts(times, request) {
  /** @type {WeakRef<object>[]} */
  const contexts = [];
  const one = async () => {
    const context = { secret: Buffer.alloc(1000) };
    contexts.push(new WeakRef(context));
    await storage.run(context, request);
  };
  for (let i = 0; i < times; i++) await one();
  return contexts;
}

/** @param {WeakRef<object>[]} contexts */
async function keptOf(contexts) {
  for (let i = 0; i < 5; i++) await heapUsed();
  return contexts.flatMap((ref, i) => (ref.deref() ? [i] : []));
}

process.once("message", async (/** @type {{ task: string, url?: string }} */ { task, url }) => {
  process.send?.({ result: await tasks[task]?.(url) });
  process.disconnect?.();
});
