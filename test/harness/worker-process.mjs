/**
 * A process with a limiter of its own, as an instance of an application is one. It runs the built
 * packages: Node 20 runs no TypeScript.
 */
const { concurrency, createLimiter, fixedWindow, gcra, slidingLog, slidingWindow, tokenBucket } =
  await import("@tidegate/core");

const makers = { concurrency, fixedWindow, gcra, slidingLog, slidingWindow, tokenBucket };

/** @param {Record<string, [maker: keyof typeof makers, options: any]>} policies */
const policiesOf = (policies) =>
  Object.fromEntries(
    Object.entries(policies).map(([name, [maker, options]]) => [name, makers[maker](options)]),
  );

/** @type {Record<string, (options: any) => Promise<unknown>>} */
const tasks = {
  /** Decides without end; says so once the first decision is made. */
  async decideForEver({ url, prefix }) {
    const policies = {
      fw: fixedWindow({ limit: 50, window: 100_000 }),
      tb: tokenBucket({ capacity: 50, refillPerSecond: 1 }),
      sl: slidingLog({ limit: 50, window: 100_000 }),
      sw: slidingWindow({ limit: 50, window: 100_000 }),
    };
    const limiter = createLimiter({ redis: url, prefix, policies, timeoutMs: 5000 });
    for (let i = 0; ; i++) {
      await Promise.all([0, 1, 2].map((j) => limiter.decide({ identity: `somebody-${i}-${j}` })));
      if (i === 0) process.send?.("running");
    }
  },

  /** Decides now and then, with no Redis to ask. */
  async withoutRedis({ url, forMs }) {
    const limiter = createLimiter({ redis: url, limit: 5, window: "1m", onEvent: () => {} });
    for (const end = performance.now() + forMs; performance.now() < end;) {
      await limiter.decide({ identity: "somebody" });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    await limiter.close();
  },

  /**
   * Asks `times` at once, at the moment it is told to, and counts who was let in. `skewMs` moves this
   * process's wall clock; `forMs` spreads the requests over time instead.
   */
  async race({ url, prefix, policies, times, cost = 1, skewMs = 0, forMs = 0 }) {
    const real = Date.now;
    Date.now = () => real() + skewMs;
    const limiter = createLimiter({ redis: url, prefix, policies: policiesOf(policies), timeoutMs: 10_000 });
    while ((await limiter.decide({ identity: "warm-up", cost: 0 })).degraded);
    process.send?.("ready");
    await new Promise((resolve) => process.once("message", resolve));
    let admitted = 0;
    let degraded = 0;
    const ask = async () => {
      const decision = await limiter.decide({ identity: "somebody", cost });
      if (decision.degraded) degraded++;
      else if (decision.allowed) admitted++;
    };
    if (forMs > 0) {
      for (const end = performance.now() + forMs; performance.now() < end;) {
        await ask();
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    } else {
      await Promise.all(Array.from({ length: times }, ask));
    }
    await limiter.close();
    return { admitted, degraded };
  },

  /** Stands by for one contest after the other: asks `times` at once, when it is told to go. */
  async crew({ url }) {
    let last;
    for (;;) {
      const contest = await nextMessage();
      // A limiter that closes gives its slots in flight back: nobody is to count them before the contest is over.
      await last?.close();
      if (contest === "end") return;
      const { prefix, policies, times, identity = "somebody", cost = 1, idempotencyKey } = contest;
      const limiter = createLimiter({
        redis: url,
        prefix,
        policies: policiesOf(policies),
        timeoutMs: 10_000,
        idempotencyMs: 10_000,
      });
      last = limiter;
      while ((await limiter.decide({ identity, cost: 0 })).degraded);
      const told = nextMessage();
      process.send?.("ready");
      await told;
      const request = { identity, cost, ...(idempotencyKey && { idempotencyKey }) };
      const decisions = await Promise.all(Array.from({ length: times }, () => limiter.decide(request)));
      process.send?.(decisions.map(({ allowed, degraded, replayed }) => ({ allowed, degraded, replayed })));
    }
  },

  /** Takes a slot and keeps it. Then closes the limiter, if that is asked for, and has nothing more to do. */
  async hold({ url, prefix, policies, thenClose = false }) {
    const limiter = createLimiter({ redis: url, prefix, policies: policiesOf(policies), timeoutMs: 5000 });
    const { allowed, degraded } = await limiter.decide({ identity: "somebody" });
    if (thenClose) await limiter.close();
    // What it does with the slot. A limiter alone holds no process.
    else setInterval(() => {}, 60_000);
    return { allowed: allowed && !degraded };
  },
};

/** @returns {Promise<any>} */
const nextMessage = () => new Promise((resolve) => process.once("message", resolve));

process.once("message", async ({ run, ...options }) => {
  process.send?.({ result: await tasks[run]?.(options) });
  process.disconnect?.();
});
