/**
 * No ghost: what the rule has answered is not charged by a script that runs later. No double: a command that is sent
 * twice is charged once. A hundred requests each, on our own connection and on one of ioredis's own settings.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { type FaultProxy, faultProxy } from "../harness/fault-proxy.ts";
import { freePort, type RedisServer, startRedis } from "../harness/redis.ts";
import { charged, connections, limiterSharing, listening, outcomes, type Subject } from "./wire.ts";

let server: RedisServer;
let proxy: FaultProxy;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());
beforeEach(async () => {
  proxy = await faultProxy(server);
  return () => proxy.close();
});

const REQUESTS = 100;
const HASTY = { timeoutMs: 100 };

/** What is on its way to a server that answers again has arrived. */
async function settled({ decide }: Subject): Promise<void> {
  await eventually("Redis decides", async () => !(await decide(0)).degraded, 10_000);
  await sleep(200);
}

/** Whether a limiter has had an answer from its server before the fault. */
const experiences = [
  ["that has decided before", ({ ready }: Subject) => ready()],
  ["that has never decided", () => sleep(200)],
] as const;

describe.each(connections)("On %s", (_, on) => {
  describe.each(experiences)("a limiter %s", (_, experience) => {
    it("charges nothing when the server hangs and then goes on", async () => {
      const subject = on(server.port, HASTY);
      await experience(subject);
      server.pause();
      try {
        expect(outcomes(await subject.decisions(REQUESTS))).toEqual({ timeout: REQUESTS });
        await sleep(300);
      } finally {
        server.resume();
      }
      await settled(subject);
      expect(await charged(server.client, subject)).toBe(0);
    });

    it("charges nothing when everything arrives after the deadline, each time", async () => {
      const subject = on(proxy.port, HASTY);
      await experience(subject);
      proxy.latency(200);
      // Fewer than open the breaker, and each after the answer to the last: what that says of the time is known.
      for (let i = 0; i < 4; i++) {
        expect((await subject.decide()).degraded?.reason).toBe("timeout");
        await sleep(400);
      }
      proxy.pass();
      await settled(subject);
      expect(await charged(server.client, subject)).toBe(0);
    });

    it("charges once what was carried out and answered into nowhere", async () => {
      const subject = on(proxy.port, { timeoutMs: 500 });
      await experience(subject);
      proxy.dropReplies(1);
      await subject.decisions(REQUESTS);
      await settled(subject);
      expect(await charged(server.client, subject)).toBe(REQUESTS);
    });
  });

  it("charges nothing when the server is gone, and then comes back", async () => {
    const port = await freePort();
    const first = await startRedis({ port });
    const subject = on(port, HASTY);
    await subject.ready();
    await first.kill();
    expect(outcomes(await subject.decisions(REQUESTS))).not.toHaveProperty("allowed");
    await sleep(100);
    await subject.decisions(REQUESTS);
    await first.stop();
    const second = await startRedis({ port });
    await settled(subject);
    expect(await charged(second.client, subject)).toBe(0);
    await second.stop();
  });

  it("charges nothing when the first connection takes longer than a decision may", async () => {
    proxy.latency(100);
    const subject = on(proxy.port, HASTY);
    expect(outcomes(await subject.decisions(REQUESTS))).toEqual({ timeout: REQUESTS });
    proxy.pass();
    await settled(subject);
    expect(await charged(server.client, subject)).toBe(0);
  });
});

describe("On a shared connection that sends everything again", () => {
  it.each([20, 200])("after %i ms, a hundred are charged once, and answered rightly", async (retryMs) => {
    const { late } = listening();
    const subject = limiterSharing(proxy.port, {}, { retryStrategy: () => retryMs });
    await subject.ready();
    proxy.dropReplies(1);
    const decisions = await subject.decisions(REQUESTS);
    expect(outcomes(decisions)).toEqual({ allowed: REQUESTS });
    const left = decisions.map(({ verdicts }) => verdicts[0]!.remaining);
    expect(left.sort((a, b) => a - b)).toEqual(Array.from({ length: REQUESTS }, (_, i) => 900 + i));
    expect(decisions.some(({ replayed }) => replayed)).toBe(false);
    expect(await charged(server.client, subject)).toBe(REQUESTS);
    expect(late).toEqual(Array(REQUESTS).fill("double"));
    expect(subject.events).toEqual([]);
  });
});
