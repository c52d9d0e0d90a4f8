/** The limiter's own connection on a wire that fails: its answer comes in time, what was charged is charged once, and one event tells of it. */
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import type { Decision } from "@tidegate/core";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { type FaultProxy, faultProxy } from "../harness/fault-proxy.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { charged, expectDiscreet, limiterOn, listening, outcomes, type Subject, timed } from "./wire.ts";

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

/** Deadline of a limiter that is not patient, and what a busy machine may add: far below what a fault takes. */
const HASTY = { timeoutMs: 50 };
const SLACK_MS = 400;

const closed = { allowed: false, degraded: { rule: "closed", reason: "connection" } };
const open = { allowed: true, degraded: { rule: "open", reason: "connection" } };

async function readyOn(more = {}): Promise<Subject> {
  const subject = limiterOn(proxy.url, more);
  await subject.ready();
  // The readiness was told of too.
  subject.events.length = 0;
  return subject;
}

/** That Redis decides again, and that the outage was told of once each way. */
async function expectWell(subject: Subject): Promise<void> {
  await eventually("Redis decides", async () => !(await subject.decide(0)).degraded, 8000);
  expect([subject.told("storeError").length, subject.told("recovered").length]).toEqual([1, 1]);
}

/** Decides so often, one after the other, each within the deadline. */
async function inTime({ decide }: Subject, times: number): Promise<Decision[]> {
  const decisions: Decision[] = [];
  for (let i = 0; i < times; i++) {
    const { result, ms } = await timed(() => decide());
    expect(ms).toBeLessThan(HASTY.timeoutMs + SLACK_MS);
    decisions.push(result);
  }
  return decisions;
}

describe("a reply that is lost after the script ran", () => {
  it.each([
    ["open", open],
    ["closed", closed],
  ] as const)("is charged once and never asked again; the rule %s answers", async (onFailure, answer) => {
    const { said } = listening();
    const subject = await readyOn({ onFailure });
    proxy.dropReplies(1);
    expect(await subject.decide()).toMatchObject(answer);
    await expectWell(subject);
    expect(await charged(server.client, subject)).toBe(1);
    expectDiscreet(subject.events, said);
  });

  it("is lost for a hundred at once: each is charged once", async () => {
    const subject = await readyOn();
    proxy.dropReplies(1);
    expect(outcomes(await subject.decisions(100))).toEqual({ connection: 100 });
    await expectWell(subject);
    expect(await charged(server.client, subject)).toBe(100);
    expect(proxy.accepted).toBe(2);
  });

  it("of a settlement: it rejects, units came back once, and nobody is named", async () => {
    const subject = await readyOn();
    const [first, second] = await subject.decisions(5);
    // The server knows the script from now on: the reply that is lost is that of a run.
    await subject.limiter.settle(second!, "giveBack");
    proxy.dropReplies(1);
    const error = await subject.limiter.settle(first!, "giveBack").catch((error: unknown) => error);
    expect(error).toMatchObject({ code: "TIDEGATE_STORE_CONNECTION" });
    expectDiscreet(error);
    await expectWell(subject);
    expect(await charged(server.client, subject)).toBe(3);
  });

  it("breaks in its middle by a reset: the same", async () => {
    const { said } = listening();
    const subject = await readyOn();
    proxy.resetMidReply();
    expect(await subject.decide()).toMatchObject(open);
    await expectWell(subject);
    expect(await charged(server.client, subject)).toBe(1);
    expectDiscreet(subject.events, said);
  });
});

describe("a connection that is half-open", () => {
  it("is answered for in time, told of once, and given up by itself; nothing is charged afterwards", async () => {
    const subject = await readyOn(HASTY);
    proxy.silent();
    expect(outcomes(await inTime(subject, 20))).toEqual({ timeout: 20 });
    expect(subject.told("storeError")).toHaveLength(1);
    // The wire is whole again, but what stood on it never hears another byte.
    proxy.pass();
    await expectWell(subject);
    expect(proxy.accepted).toBe(2);
    expect(await charged(server.client, subject)).toBe(0);
  });

  it("never came about: the same", async () => {
    proxy.silent();
    const subject = limiterOn(proxy.url, HASTY);
    expect(outcomes(await inTime(subject, 20))).toEqual({ timeout: 20 });
    proxy.pass();
    await expectWell(subject);
    expect(await charged(server.client, subject)).toBe(0);
  });
});

describe("200 ms more on the way", () => {
  it("are waited for by a limiter that has the time: decisions are exact", async () => {
    const subject = await readyOn({ timeoutMs: 5000 });
    proxy.latency(100);
    const { result, ms } = await timed(() => subject.decisions(50));
    expect(ms).toBeGreaterThan(190);
    expect(outcomes(result)).toEqual({ allowed: 50 });
    expect(await charged(server.client, subject)).toBe(50);
    expect(subject.events).toEqual([]);
  });

  it("are too much for one that has not: answered in time, and told of once", async () => {
    const subject = await readyOn(HASTY);
    proxy.latency(100);
    expect(outcomes(await inTime(subject, 20))).toEqual({ timeout: 20 });
    expect(subject.told("storeError")).toHaveLength(1);
    proxy.pass();
    await expectWell(subject);
  });
});

describe("a wire of 1 KB/s", () => {
  it("is slow for a limiter that has the time, and exact", async () => {
    const subject = await readyOn();
    proxy.bandwidth(1000);
    for (let i = 0; i < 3; i++) expect((await subject.decide()).degraded).toBeUndefined();
    expect(await charged(server.client, subject)).toBe(3);
    expect(subject.events).toEqual([]);
  });

  it("is answered for in time, told of once, and decides again when it is faster", async () => {
    const subject = await readyOn(HASTY);
    proxy.bandwidth(1000);
    expect(outcomes(await inTime(subject, 20))).toEqual({ timeout: 20 });
    expect(subject.told("storeError")).toHaveLength(1);
    proxy.pass();
    await expectWell(subject);
    expect(await charged(server.client, subject)).toBe(0);
  });

  it("is too slow for the script's text when a connection is made: the rule answers until it is faster", async () => {
    proxy.bandwidth(1000);
    const subject = limiterOn(proxy.url, HASTY);
    const decisions = await inTime(subject, 10);
    await sleep(2000);
    decisions.push(...(await inTime(subject, 10)));
    expect(decisions.every(({ degraded }) => degraded?.rule === "open")).toBe(true);
    expect(subject.told("storeError")).toHaveLength(1);
    proxy.pass();
    await expectWell(subject);
  });
});

describe("a wire that breaks again and again", () => {
  it("is told of once each way each time, however many requests meet it", async () => {
    const { said } = listening();
    const subject = await readyOn();
    for (let i = 1; i <= 3; i++) {
      proxy.refuse();
      await eventually("it is down", async () => (await subject.decide()).degraded !== undefined);
      expect(outcomes(await subject.decisions(50))).toEqual({ connection: 50 });
      proxy.pass();
      await eventually("its recovery is told of", () => subject.told("recovered").length === i);
      expect((await subject.decide()).degraded).toBeUndefined();
    }
    const changes = subject.events.filter(({ type }) => type !== "degraded").map(({ type }) => type);
    expect(changes).toEqual([
      "storeError",
      "recovered",
      "storeError",
      "recovered",
      "storeError",
      "recovered",
    ]);
    const told = subject.told("storeError").map((event) => inspect(event));
    expect(new Set(told).size).toBe(1);
    expectDiscreet(subject.events, said);
  });
});
