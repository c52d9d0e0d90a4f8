import { slidingLog } from "@tidegate/core";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { callsOf, live, type Live, resetStats } from "../harness/live.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";

let server: RedisServer;
let subject: Live;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());
beforeEach(async () => {
  subject = await live(server, { policies: { many: slidingLog({ limit: 1000, window: "1h" }) } });
  return () => subject.limiter.close();
});

const flush = () => server.client.script("FLUSH");

const used = async () => {
  const { verdicts } = await subject.limiter.decide({ identity: "somebody", cost: 0 });
  return 1000 - verdicts[0]!.remaining;
};

describe("a server that has lost the script", () => {
  it("P04 T1 three decisions, SCRIPT FLUSH, a fourth: four are counted, none fails", async () => {
    await subject.admitted(3);
    await flush();
    await subject.admitted(1);
    expect(await used()).toBe(4);
    expect(subject.events).toEqual([]);
  });

  it("P04 T2 SCRIPT FLUSH, then 50 at once: 50 are counted, the text is sent once", async () => {
    await subject.admitted(3, "somebody else");
    await resetStats(server);
    await flush();
    expect(await subject.admitted(50)).toBe(50);
    expect(await used()).toBe(50);
    expect(await callsOf(server, "eval")).toBe(1);
    expect(await callsOf(server, "script|load")).toBe(0);
  });

  it("P04 T3 flushed before each of 20 decisions: still exact", async () => {
    for (let i = 0; i < 20; i++) {
      await flush();
      await subject.admitted(1);
    }
    expect(await used()).toBe(20);
    expect(subject.events).toEqual([]);
  });

  it("P04 T4 flushed inside a MULTI while 200 decisions are on their way: still exact", async () => {
    const decided = subject.admitted(200);
    for (let i = 0; i < 10; i++) await server.client.multi().script("FLUSH").ping().exec();
    expect(await decided).toBe(200);
    expect(await used()).toBe(200);
  });

  it("is sent EVALSHA, then EVAL once, and EVALSHA alone from then on", async () => {
    await flush();
    await resetStats(server);
    for (let i = 0; i < 100; i++) await subject.admitted(1);
    expect(await callsOf(server, "evalsha")).toBe(100);
    expect(await callsOf(server, "eval")).toBe(1);
  });

  it("never gets more than one script, whatever the limits, windows and prefixes", async () => {
    await flush();
    for (let i = 1; i <= 50; i++) {
      const other = await live(server, { prefix: `many-${i}`, limit: i, window: i * 1000 });
      await other.admitted(2);
      await other.limiter.close();
    }
    expect((await server.client.info("memory")).match(/number_of_cached_scripts:(\d+)/)?.[1]).toBe("1");
  });
});
