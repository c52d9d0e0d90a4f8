/**
 * Programs that do one thing and end by themselves. What they have to say they say as one line of JSON. They run the
 * built packages: Node 20 runs no TypeScript.
 */
import { createHook } from "node:async_hooks";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

/** Timers, held or not, and sockets of this process that are alive; and all that were ever made. */
const alive = new Map();
let made = 0;
createHook({
  init(id, type) {
    if (
      !/^(Timeout|TCP\w+|TLS\w+|UDP\w+|GETADDRINFO\w+|SIGNALWRAP|FSEVENTWRAP|WORKER|PROCESSWRAP)$/.test(type)
    )
      return;
    made++;
    alive.set(id, type);
  },
  destroy: (id) => void alive.delete(id),
}).enable();

const handles = () => ({
  made,
  alive: [...alive.values()],
  listeners: process.eventNames().map((name) => `${String(name)}: ${process.listenerCount(name)}`),
});

const policies = async () => {
  const { fixedWindow } = await import("@tidegate/core");
  return { api: fixedWindow({ limit: 5, window: "1h" }) };
};

/** @type {Record<string, (options: any) => Promise<unknown>>} */
const programs = {
  /** @param {{ name: string }} options */
  async importOnly({ name }) {
    const before = handles();
    const loaded = await import(name);
    return { before, after: handles(), exports: Object.keys(loaded).length };
  },

  /** Makes a limiter, asks it, closes it if it is told to, and has nothing more to do. */
  async makeOne({ redis, close, onFailure }) {
    const { createLimiter } = await import("@tidegate/core");
    // An outage that nobody hears of would be told to the process.
    const onEvent = () => {};
    const limiter = createLimiter({ redis, policies: await policies(), onFailure, onEvent, timeoutMs: 5000 });
    const { allowed, degraded } = await limiter.decide({ identity: "somebody" });
    if (close) await limiter.close();
    return { allowed, degraded };
  },

  async makeMany({ redis, times }) {
    const { createLimiter } = await import("@tidegate/core");
    const named = await policies();
    const before = handles();
    for (let i = 0; i < times; i++) {
      const limiter = createLimiter({ redis, policies: named, timeoutMs: 5000 });
      // Every other one is closed before it is connected.
      if (i % 2 === 0) await limiter.decide({ identity: "somebody" });
      await Promise.all([limiter.close(), limiter.close()]);
      await limiter.close();
    }
    await sleep(200); // Sockets are given this long to say goodbye.
    await new Promise(setImmediate); // Node tells of the end of a timer at the end of its turn.
    const { alive, listeners } = handles();
    return { before: before.listeners, listeners, alive, made };
  },

  /** Is asked on and on when it is closed: a request may always come late. */
  async askClosed({ redis }) {
    const { createLimiter } = await import("@tidegate/core");
    const limiter = createLimiter({ redis, policies: await policies() });
    await limiter.decide({ identity: "somebody" });
    await limiter.close();
    const reasons = new Set();
    for (let i = 0; i < 20; i++)
      reasons.add((await limiter.decide({ identity: "somebody" })).degraded?.reason);
    await limiter.close();
    await sleep(200);
    await new Promise(setImmediate);
    return { reasons: [...reasons], alive: handles().alive };
  },

  /** Holds leases and a reservation, and closes while its Redis may be hanging. */
  async holdAndClose({ redis, prefix, timeoutMs, pauses }) {
    const { concurrency, createLimiter, fixedWindow } = await import("@tidegate/core");
    const limiter = createLimiter({
      redis,
      prefix,
      timeoutMs,
      policies: { inFlight: concurrency({ limit: 100 }), api: fixedWindow({ limit: 100, window: "1h" }) },
    });
    const ask = async () => {
      let decision;
      do decision = await limiter.decide({ identity: "somebody" });
      while (decision.degraded);
      return decision;
    };
    for (let i = 0; i < 3; i++) await ask();
    const settled = await ask();
    await limiter.settle(settled, "giveBack");
    const { decision } = await limiter.reserve({ identity: "somebody", cost: { api: 4, inFlight: 1 } });
    process.send?.("holding");
    if (pauses) await once(process, "message");
    const start = performance.now();
    await Promise.all([limiter.close(), limiter.close()]);
    const ms = performance.now() - start;
    const afterwards = await limiter.decide({ identity: "somebody" });
    await limiter.close();
    return { reserved: decision.allowed, ms, afterwards: afterwards.degraded };
  },
};

const [, , name, options] = process.argv;
const result = await programs[String(name)]?.(JSON.parse(String(options)));
const ended = performance.now();
process.once("exit", () => console.log(JSON.stringify({ result, lingeredMs: performance.now() - ended })));
if (process.connected) process.disconnect();
