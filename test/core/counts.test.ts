/** What a decision sends and holds, by counts that do not depend on how fast a machine is. */
import { createLimiter, fixedWindow, type Limiter, slidingWindow } from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { callsOf, resetStats } from "../harness/live.ts";
import { freshPrefix } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";

let server: RedisServer;
beforeAll(async () => void (server = await startRedis()));
afterAll(() => server.stop());

const plenty = { p: slidingWindow({ limit: 1_000_000, window: "1h" }) };

async function ready(policies: Parameters<typeof createLimiter>[0]["policies"] = plenty): Promise<Limiter> {
  const limiter = createLimiter({
    redis: server.url,
    prefix: freshPrefix(),
    policies: policies!,
    timeoutMs: 5000,
  });
  onTestFinished(() => limiter.close());
  await eventually("Redis decides", async () => {
    const { degraded } = await limiter.decide({ identity: "warm-up", cost: 0 });
    return !degraded;
  });
  await resetStats(server);
  return limiter;
}

/** Keeps so many requests in flight until `times` are answered; gives scripts per decision. */
async function scriptsPer(limiter: Limiter, times: number, inFlight: number, nameOf: (i: number) => string) {
  let left = times;
  const worker = async () => {
    while (left-- > 0) await limiter.decide({ identity: nameOf(left) });
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
  return (await callsOf(server, "evalsha")) / times;
}

describe("scripts for each decision", () => {
  it("alone: one", async () => {
    expect(await scriptsPer(await ready(), 200, 1, (i) => `user-${i}`)).toBe(1);
  });

  it("512 in flight of 20,000 identities: a sixteenth at most", async () => {
    const per = await scriptsPer(await ready(), 20_000, 512, (i) => `user-${(i * 7919) % 20_000}`);
    expect(per).toBeLessThanOrEqual(1 / 16);
  });

  it("512 in flight of one identity: a hundredth at most", async () => {
    expect(await scriptsPer(await ready(), 20_000, 512, () => "hot")).toBeLessThanOrEqual(1 / 100);
  });

  it("a flood that is refused: a thousandth at most", async () => {
    const limiter = await ready({ p: fixedWindow({ limit: 10, window: "1h" }) });
    expect(await scriptsPer(limiter, 50_000, 512, () => "flood")).toBeLessThanOrEqual(1 / 1000);
  });
});

it("one timer for each batch at most, and none that is left when the limiter is closed", async () => {
  const limiter = await ready();
  const set = vi.spyOn(globalThis, "setTimeout");
  onTestFinished(() => set.mockRestore());
  const per = await scriptsPer(limiter, 5_000, 512, (i) => `user-${i}`);
  expect(set.mock.calls.length).toBeLessThanOrEqual(per * 5_000);
  set.mockRestore();
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const before = timers();
  await limiter.close();
  // A connection that is being closed has one for a moment.
  await eventually("no timer is left", () => timers() <= before);
});
