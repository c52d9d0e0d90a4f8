/** P29: what a process keeps. P40: windows and blocks longer than timers can be. */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { fixedWindow, gcra, type Policy, slidingLog, slidingWindow, tokenBucket } from "@tidegate/core";
import { describe, expect, it, onTestFinished } from "vitest";
import { storeKinds, useRedis } from "../harness/http.ts";
import { admitted, limiterOf } from "./asking.ts";

const redis = useRedis();
const { clock } = redis;
const DAY = 86_400_000;

/** Runs a task of memory-process.mjs. */
function inItsOwnProcess<T>(task: string, url?: string): Promise<T> {
  const program = fileURLToPath(new URL("./memory-process.mjs", import.meta.url));
  const child = fork(program, [], { execArgv: ["--expose-gc"] });
  onTestFinished(() => void child.kill());
  child.send({ task, url });
  return new Promise((resolve, reject) => {
    child.once("message", (message) => resolve((message as { result: T }).result));
    child.once("exit", (code, signal) => reject(new Error(`the process ended early: ${code ?? signal}`)));
  });
}

describe("P29 what a process keeps", () => {
  interface Million {
    readonly before: number;
    readonly full: { readonly size: number; readonly heap: number };
    readonly after: { readonly size: number; readonly heap: number };
    readonly most: number;
    readonly left: number;
  }
  let asked: Promise<Million> | undefined;
  const million = () => (asked ??= inItsOwnProcess<Million>("million"));

  it("P29 T1 a million identities are gone after their window and one sweep", async () => {
    const { full, after } = await million();
    expect([full.size, after.size]).toEqual([1_000_000, 0]);
  }, 120_000);

  it("P29 T2 and so is their memory, to a tenth", async () => {
    const { before, full, after } = await million();
    expect(full.heap).toBeGreaterThan(before + 50e6);
    expect(Math.abs(after.heap / before - 1)).toBeLessThanOrEqual(0.1);
  });

  it("P29 T3 one timer for all of them, and none when nothing is left", async () => {
    const { most, left } = await million();
    expect([most, left]).toEqual([1, 0]);
  });

  it("P29 T4 what a finished request kept in AsyncLocalStorage is let go of, the first one's too", async () => {
    const { kept, allowed } = await inItsOwnProcess<Record<string, unknown>>("contexts");
    expect({ kept, allowed }).toEqual({ kept: [], allowed: true });
  });

  it("P29 T4 with Redis too", async () => {
    const { kept, allowed } = await inItsOwnProcess<Record<string, unknown>>("contexts", redis.url);
    expect({ kept, allowed }).toEqual({ kept: [], allowed: true });
  });

  it("P29 T4 neither does the heartbeat of leases hold the request that began it", async () => {
    const { kept, held } = await inItsOwnProcess<Record<string, unknown>>("leases");
    expect({ kept, held }).toEqual({ kept: [], held: true });
  });

  it("P29 T3 leases have one heartbeat, and the store one timer", async () => {
    expect((await inItsOwnProcess<{ timers: number }>("leases")).timers).toBeLessThanOrEqual(2);
  });
});

/** Whatever the process was warned of meanwhile. */
function warnings(): () => Promise<string[]> {
  const found: string[] = [];
  const listen = ({ name }: Error) => found.push(name);
  process.on("warning", listen);
  onTestFinished(() => void process.off("warning", listen));
  return async () => {
    await new Promise(setImmediate);
    return found;
  };
}

const long = (days: number): [string, Policy, ends: number][] => {
  const window = days * DAY;
  const start = clock.now() / 1000;
  return [
    ["tokenBucket", tokenBucket({ capacity: 1, refillPerSecond: 1000 / window }), window],
    ["gcra", gcra({ limit: 1, window }), window],
    ["slidingWindow", slidingWindow({ limit: 1, window }), 2 * window - (start % window)],
    ["slidingLog", slidingLog({ limit: 1, window }), window],
    ["fixedWindow", fixedWindow({ limit: 1, window }), window],
    [
      "fixedWindow by the clock",
      fixedWindow({ limit: 1, window, align: "clock" }),
      window - (start % window),
    ],
  ];
};

describe.each([30, 400])("P40 %i days", (days) => {
  const rows = long(days);

  it.each(rows)(
    "P40 T1 memory, %s: still counted a millisecond before the end, and no longer at it",
    async (_, policy, ends) => {
      const told = warnings();
      const limiter = limiterOf({ store: redis.storeOf("memory"), policies: { policy } });
      expect(await admitted(limiter, 2)).toBe(1);
      clock.advance(1000);
      expect(await admitted(limiter, 1)).toBe(0);
      clock.advance(ends - 1001);
      expect(await admitted(limiter, 1)).toBe(0);
      clock.advance(1);
      expect(await admitted(limiter, 1)).toBe(1);
      expect(await told()).toEqual([]);
    },
  );

  it.each(rows)("P40 T2 %s: the lifetime in Redis is right to the second", async (_, policy) => {
    const limiter = limiterOf({ redis: redis.url, policies: { policy } });
    expect((await limiter.decide({ identity: "x" })).degraded).toBeUndefined();
    const [seconds, micros] = await redis.client.time();
    const now = Number(seconds) * 1000 + Number(micros) / 1000;
    const window = days * DAY;
    const due: Record<string, number> = {
      sw: 2 * window - (now % window),
      fw: policy.numbers.c < 0 ? window - (now % window) : window,
    };
    const [key] = await redis.keys();
    const left = await redis.client.pttl(key!);
    expect(Math.abs(left - (due[policy.algorithm.tag] ?? window))).toBeLessThanOrEqual(1000);
  });

  it.each(storeKinds)("P40 T3 %s: a block of so many days lasts them", async (kind) => {
    const told = warnings();
    const limiter = limiterOf({ store: redis.storeOf(kind), limit: 5, window: "1m", blocking: true });
    await limiter.block("x", days * DAY);
    for (const ms of [0, 1000, 25 * DAY, (days - 25) * DAY - 1001]) {
      clock.advance(ms);
      await redis.expire();
      expect(await limiter.decide({ identity: "x" })).toMatchObject({ allowed: false, blocked: true });
    }
    expect((await limiter.decide({ identity: "x" })).retryAfterMs).toBe(1);
    clock.advance(1);
    await redis.expire();
    expect((await limiter.decide({ identity: "x" })).allowed).toBe(true);
    expect(await told()).toEqual([]);
  });

  it("P40 T3 the lifetime of a block in Redis is right to the second", async () => {
    const limiter = limiterOf({ redis: redis.url, limit: 5, window: "1m", blocking: true });
    await limiter.block("x", days * DAY);
    const left = await redis.client.pttl("rl:{id:x}::b");
    expect(Math.abs(left - days * DAY)).toBeLessThanOrEqual(1000);
  });

  it("P40 T4 waiting so long overflows no timer", async () => {
    const told = warnings();
    const limiter = limiterOf({ policies: { p: fixedWindow({ limit: 1, window: days * DAY }) } });
    await limiter.decide({ identity: "x" });
    const stop = new AbortController();
    let through = false;
    const waits = [{}, { maxWaitMs: 2 * days * DAY }].map((options) =>
      limiter
        .wait({ identity: "x", signal: stop.signal, ...options })
        .finally(() => (through = true))
        .catch((error: unknown) => error),
    );
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(through).toBe(false);
    stop.abort("enough");
    expect(await Promise.all(waits)).toEqual(["enough", "enough"]);
    expect(await told()).toEqual([]);
  });
});
