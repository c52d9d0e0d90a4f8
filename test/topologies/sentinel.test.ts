/** A limiter whose primary is found by sentinels: what is answered while they name another, and when it is exact again. */
import { setTimeout as sleep } from "node:timers/promises";
import { fixedWindow, type TidegateEvent } from "@tidegate/core";
import { Redis } from "ioredis";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { listening } from "../faults/wire.ts";
import { eventually } from "../harness/eventually.ts";
import { faultProxy } from "../harness/fault-proxy.ts";
import type { RedisServer } from "../harness/redis.ts";
import { startSentinel, type TestSentinel } from "../harness/sentinel.ts";
import { limiterOn } from "./clustered.ts";
import { expectCounted, isDegraded, steady, undisturbed } from "./steady.ts";

/** Of a limiter that says nothing of it. */
const DEADLINE_MS = 50;
const PER_SECOND = 200;
const PLENTY = 1_000_000;

let watched: TestSentinel;
beforeEach(async () => void (watched = await startSentinel()));
afterEach(() => watched.stop());

/** An application's own client, as ioredis documents it. */
function clientOf(): Redis {
  const client = new Redis({ sentinels: [...watched.sentinels], name: watched.name });
  client.on("error", () => {});
  onTestFinished(() => client.disconnect());
  return client;
}

/** For the test's own looking and asking. */
function sentinelAt({ host, port }: { host: string; port: number }): Redis {
  const client = new Redis(port, host);
  client.on("error", () => {});
  onTestFinished(() => client.disconnect());
  return client;
}

const namesOf = (what: string) => Array.from({ length: 10 }, (_, i) => `${what}${i}`);

async function underTraffic() {
  const subject = limiterOn(clientOf(), {
    policies: { p: fixedWindow({ limit: PLENTY, window: "1h" }) },
    timeoutMs: DEADLINE_MS,
  });
  await eventually("it decides", async () => !(await subject.ask("x", { cost: 0 })).degraded);
  subject.events.length = 0;
  /** @param server is asked beside them */
  const traffic = (what: string, server?: RedisServer) =>
    steady((name) => subject.ask(name), namesOf(what), {
      perSecond: PER_SECOND,
      timeoutMs: DEADLINE_MS,
      control: () => server?.client.ping(),
    });
  return { ...subject, traffic };
}

/** Each outage was told of, and its end: not once for each request. */
async function expectTold(events: readonly TidegateEvent[], reason: RegExp): Promise<void> {
  const told = () => events.filter(({ type }) => type !== "degraded");
  await eventually("the end is told of", () => told().at(-1)?.type === "recovered");
  const types = told().map(({ type }) => type);
  expect(told()[0]).toMatchObject({ type: "storeError", reason: expect.stringMatching(reason) });
  expect(types).toEqual(types.map((_, i) => (i % 2 === 0 ? "storeError" : "recovered")));
  // The connection is made anew when the first sentinel names another primary, and once more when the last does. A
  // machine that is held up adds some.
  expect(types.length).toBeLessThanOrEqual(20);
}

/** What is counted is on the heir, all of it, and a limit is what it was. */
async function expectExact(
  { prefix, traffic }: Awaited<ReturnType<typeof underTraffic>>,
  heir: RedisServer,
  meanwhile: () => unknown = () => {},
): Promise<void> {
  const running = traffic("after", heir);
  await sleep(300);
  await meanwhile();
  await sleep(1200);
  const requests = await running.end();
  expect(undisturbed(requests).length).toBeGreaterThan(30);
  expect(undisturbed(requests).filter(isDegraded)).toEqual([]);
  expect(requests.filter(({ late }) => late)).toEqual([]);
  const key = (name: string) => `${prefix}:{id:${name}}:p:fw`;
  await expectCounted(requests, async (name) => Number(await heir.client.get(key(name))));

  const { ask } = limiterOn(clientOf(), { policies: { tight: fixedWindow({ limit: 10, window: "1h" }) } });
  const decisions = await Promise.all(Array.from({ length: 12 }, () => ask("x")));
  expect(decisions.filter(({ degraded }) => degraded)).toEqual([]);
  expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(10);
}

/** Waits until every sentinel is done with the failover and has told of it: the one that led it comes last. */
async function settled(): Promise<void> {
  const clients = watched.sentinels.map(sentinelAt);
  const isDone = async (client: Redis) => {
    const told = (await client.call("SENTINEL", "MASTER", watched.name)) as string[];
    return told[told.indexOf("flags") + 1] === "master";
  };
  await eventually(
    "all sentinels are done",
    async () => (await Promise.all(clients.map(isDone))).every(Boolean),
    20_000,
  );
  await sleep(300);
}

describe("under traffic", () => {
  it.each<[string, (primary: RedisServer) => unknown, RegExp]>([
    ["is killed (SIGKILL)", (primary) => primary.kill(), /^connection$/],
    ["stops (SIGSTOP)", (primary) => primary.pause(), /^(timeout|late)$/],
  ])(
    "a primary that %s: the rule answers in time, and decisions are exact after the promotion, without a restart",
    async (what, fail, reason) => {
      const subject = await underTraffic();
      const first = subject.traffic("before");
      await sleep(500);
      const primary = await watched.primary();
      const failedAt = performance.now();
      await fail(primary);
      await sleep(600);
      expect(subject.limiter.health()).toMatchObject({ state: "degraded", breaker: "open" });
      const heir = await watched.failedOver(primary);
      const overMs = performance.now() - failedAt;
      await eventually("it decides again", () => subject.limiter.health().breaker === "closed", 5000);
      const againMs = performance.now() - failedAt;
      await settled();
      const requests = await first.end();

      const outage = requests.filter((request) => request.at > failedAt && isDegraded(request));
      expect(outage.length).toBeGreaterThan(50);
      expect(
        outage.filter(({ decision }) => decision.degraded!.rule !== "open" || !decision.allowed),
      ).toEqual([]);
      expect(requests.filter(({ late }) => late)).toEqual([]);
      // The first ones, until the breaker is open, and those that were under way beside them.
      expect(outage.filter(({ ms }) => ms > DEADLINE_MS - 10).length).toBeLessThanOrEqual(25);

      await expectExact(subject, heir, () => primary.resume());
      await expectTold(subject.events, reason);
      console.log(
        `${what}: all sentinels named another primary after ${Math.round(overMs)} ms, it decided again after ${Math.round(againMs)} ms`,
      );
    },
    60_000,
  );

  it("P11 a primary that is made a replica by the sentinels: the rule answers for a moment, and decisions work < 5 s after the promotion", async () => {
    const subject = await underTraffic();
    const first = subject.traffic("before");
    await sleep(300);
    const primary = await watched.primary();
    await sentinelAt(watched.sentinels[0]!).call("SENTINEL", "FAILOVER", watched.name);
    const heir = await watched.failedOver(primary);
    const overAt = performance.now();
    // The old primary lives, and would take writes for ten seconds more.
    await eventually("its heir is asked", async () => {
      await subject.ask("probe");
      return (await heir.client.get(`${subject.prefix}:{id:probe}:p:fw`)) !== null;
    });
    await settled();
    const requests = await first.end();
    const outage = requests.filter(isDegraded);
    expect(requests.filter(({ late }) => late)).toEqual([]);
    expect(outage.filter(({ at }) => at > overAt + 5000)).toEqual([]);
    await expectExact(subject, heir);
    await expectTold(subject.events, /^(connection|readonly|timeout|late)$/);
    console.log(`SENTINEL FAILOVER: ${outage.length} of ${requests.length} were answered by the rule`);
  }, 60_000);
});

it("connections to sentinels that break are no news: nothing is logged, and nothing fails", async () => {
  const { said } = listening();
  const proxies = await Promise.all(watched.sentinels.map((sentinel) => faultProxy(sentinel)));
  onTestFinished(() => proxies.forEach((proxy) => proxy.close()));
  const sentinels = proxies.map(({ port }) => ({ host: "127.0.0.1", port }));
  const client = new Redis({ sentinels, name: watched.name, lazyConnect: true, updateSentinels: false });
  onTestFinished(() => client.disconnect());
  const { ask, events } = limiterOn(client, { policies: { p: fixedWindow({ limit: 10, window: "1h" }) } });
  await ask("x");
  await eventually("all sentinels are listened to", () => proxies.every(({ accepted }) => accepted > 0));
  await sleep(100);
  for (const proxy of proxies) proxy.cut();
  await sleep(300);
  expect((await ask("x")).verdicts[0]!.remaining).toBe(8);
  expect(events).toEqual([]);
  // It says nothing but what it decided.
  expect(said.filter((words) => !JSON.stringify(words).includes('"allowed"'))).toEqual([]);
});
