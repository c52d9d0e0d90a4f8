/** A Redis that is killed and comes back, forgets its scripts, or has room for nothing more: under load. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { callsOf } from "../harness/live.ts";
import { freePort, type RedisServer, startRedis } from "../harness/redis.ts";
import {
  type App,
  ask,
  chargedTo,
  isTraffic,
  isWell,
  load,
  type Policies,
  type SeenRequest,
  served,
  type Site,
  startApp,
  tally,
  whoGetIn,
} from "./processes.ts";

const PER_SECOND = 500;
/** For tests that are not about the deadline. */
const PATIENT = { timeoutMs: 10_000 };
const policies: Policies = { api: ["fixedWindow", { limit: 100_000, window: "1h" }] };

let app: App;
beforeAll(() => {
  app = startApp();
});
afterAll(() => app.end());

/** A server that goes when the test is over. */
async function started(args: string[] = [], port?: number): Promise<RedisServer> {
  const server = await startRedis({ args, ...(port !== undefined && { port }) });
  onTestFinished(() => server.stop());
  return server;
}

const granted = ({ rule, allowed }: SeenRequest) => !rule && allowed === true;

/** Kills the server under traffic, and starts another in its place: `before`, `down`, then `back`. */
async function killUnder(site: Site, first: RedisServer, args: string[]) {
  const traffic = load(site.port, PER_SECOND, "before");
  await sleep(300);
  await first.stop();
  traffic.as("down");
  await sleep(700);
  traffic.as("back");
  await eventually("all others are answered", () => traffic.open(/before|down/) === 0);
  const second = await started(args, first.port);
  const restarted = Date.now();
  await eventually("Redis decides again", () => isWell(site));
  await sleep(200);
  const answers = await traffic.end();
  const seen = await site.seen();
  return { second, restarted, answers, seen: { ...seen, requests: seen.requests.filter(isTraffic) } };
}

type Kill = Awaited<ReturnType<typeof killUnder>>;

/** Nobody pays for an answer that Redis did not give; what it gave before is still counted, if it `keeps` that. */
async function expectCharges(
  site: { prefix: string },
  { second, seen }: Kill,
  keeps: boolean,
): Promise<void> {
  const of = (user: string) => seen.requests.filter((request) => request.user === user);
  const down = await chargedTo(second, site, "down");
  const [before, back] = [await chargedTo(second, site, "before"), await chargedTo(second, site, "back")];
  expect(down).toBe(0);
  expect(before).toBeGreaterThanOrEqual(keeps ? of("before").filter(granted).length : 0);
  // What was under way when it died may have been counted.
  expect(before).toBeLessThanOrEqual(keeps ? of("before").length : 0);
  expect(back).toBeGreaterThanOrEqual(of("back").filter(granted).length);
  expect(back).toBeLessThanOrEqual(of("back").filter(granted).length + seen.lates);
}

describe.each<[string, string[]]>([
  ["empty", []],
  // What is written before a reply goes out is not lost with the process: only with the machine.
  ["with its append-only file", ["--appendonly", "yes", "--appendfsync", "no"]],
])("Redis is killed under 500 requests a second and starts again %s", (_, options) => {
  const keeps = options.length > 0;

  it("every request is answered, none is charged that the rule answered, and counts are exact within 2 s", async () => {
    const dir = mkdtempSync(join(tmpdir(), "tidegate-aof-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    const args = ["--dir", dir, ...options];
    const first = await started(args, await freePort());
    const site = await served(app, { redis: first.url, policies });
    await eventually("Redis decides", () => isWell(site));
    await eventually("a limit is used up", async () => {
      await ask(site.port, 1, "spent", 100_000);
      return (await chargedTo(first, site, "spent")) === 100_000;
    });
    await site.seen();

    const kill = await killUnder(site, first, args);
    const { second, restarted, answers, seen } = kill;
    expect(seen.requests).toHaveLength(answers.length);
    expect(tally(answers)).toEqual({ 200: answers.length });
    const down = seen.requests.filter(({ user }) => user === "down");
    expect(new Set(down.map(({ rule }) => rule))).toEqual(new Set(["open"]));
    await expectCharges(site, kill, keeps);
    expect(await chargedTo(second, site, "spent")).toBe(keeps ? 100_000 : 0);

    const back = seen.requests.find((request) => request.user === "back" && granted(request))!;
    expect(back.at - restarted).toBeLessThan(2000);
    expect(await whoGetIn(site, 12, 10_000)).toEqual({ 200: 10, 429: 2 });
  }, 30_000);
});

it("P04 SCRIPT FLUSH 20 times under 500 requests a second: all are decided by Redis, and each is charged once", async () => {
  const server = await started();
  const site = await served(app, { redis: server.url, policies, ...PATIENT });
  await eventually("Redis decides", () => isWell(site));
  await site.seen();
  await server.client.config("RESETSTAT");

  const traffic = load(site.port, PER_SECOND, "all");
  for (let i = 0; i < 20; i++) {
    await sleep(50);
    await server.client.script("FLUSH");
  }
  const answers = await traffic.end();
  const seen = await site.seen();
  expect(tally(answers)).toEqual({ 200: answers.length });
  expect(seen.requests.filter(granted)).toHaveLength(answers.length);
  expect(await chargedTo(server, site, "all")).toBe(answers.length);
  expect(seen.events).toEqual([]);
  const texts = await callsOf(server, "eval");
  expect(texts).toBeGreaterThan(0);
  expect(texts).toBeLessThanOrEqual(40); // One each time, or two when the next FLUSH comes between.
}, 30_000);

const every: Policies = {
  bucket: ["tokenBucket", { capacity: 5, refillPerSecond: 0.001 }],
  gcra: ["gcra", { limit: 5, window: "1h", burst: 5 }],
  sliding: ["slidingWindow", { limit: 5, window: "1h" }],
  log: ["slidingLog", { limit: 5, window: "1h" }],
  fixed: ["fixedWindow", { limit: 5, window: "1h" }],
};

/** Fills it until it takes no more. */
async function fill({ client }: RedisServer): Promise<void> {
  const stuff = Buffer.alloc(50_000, "x");
  for (let i = 0; ; i++) {
    try {
      await client.set(`stuff:${i}`, stuff);
    } catch (error) {
      expect(String(error)).toContain("OOM");
      return;
    }
  }
}

/** What is there of each client, by policy: all or nothing. */
async function stateOf(
  { client }: RedisServer,
  { prefix }: { prefix: string },
): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const key of await client.keys(`${prefix}:*`)) {
    const [, user] = /\{user:([^}]*)\}/.exec(key)!;
    counts[user!] = (counts[user!] ?? 0) + 1;
  }
  return counts;
}

describe("a Redis that is full and evicts nothing", () => {
  it("goes on to limit: its scripts need next to nothing, and may have it", async () => {
    const server = await started(["--maxmemory", "4mb", "--maxmemory-policy", "noeviction"]);
    const site = await served(app, { redis: server.url, policies: every, ...PATIENT });
    await eventually("Redis decides", () => isWell(site));
    await fill(server);
    await site.seen();
    for (const user of ["one", "two", "three"])
      expect([user, tally(await ask(site.port, 8, user))]).toEqual([user, { 200: 5, 429: 3 }]);
    const seen = await site.seen();
    expect([seen.events, seen.requests.filter(({ rule }) => rule)]).toEqual([[], []]);
    await expect(server.client.set("more", "x")).rejects.toThrow("OOM");
    expect(await stateOf(server, site)).toEqual({ one: 5, two: 5, three: 5 });
  });

  it("goes on to limit under load, whoever comes", async () => {
    const server = await started(["--maxmemory", "4mb", "--maxmemory-policy", "noeviction"]);
    await fill(server);
    const site = await served(app, { redis: server.url, policies: every, ...PATIENT });
    await eventually("Redis decides", () => isWell(site));
    await site.seen();
    const traffic = load(site.port, PER_SECOND, "0");
    for (let i = 1; i <= 20; i++) {
      await sleep(50);
      traffic.as(String(i));
    }
    await traffic.end();
    const { requests } = await site.seen();
    expect(new Set(requests.map(({ status }) => status))).toEqual(new Set([200, 429]));
    for (let i = 0; i < 20; i++) {
      const of = requests.filter(({ user }) => user === String(i));
      expect([i, of.filter(granted).length]).toEqual([i, Math.min(5, of.length)]);
    }
    expect(new Set(Object.values(await stateOf(server, site)))).toEqual(new Set([5]));
  });
});

describe("a Redis that takes no writes", () => {
  type Act = (server: RedisServer, dir: string) => Promise<unknown>;

  it.each<[string, args: string[], fail: Act, mend: Act]>([
    [
      "as it has too few replicas",
      [],
      ({ client }) => client.config("SET", "min-replicas-to-write", "1"),
      ({ client }) => client.config("SET", "min-replicas-to-write", "0"),
    ],
    [
      "as it cannot save",
      ["--save", "3600 1"],
      async ({ client }, dir) => {
        rmSync(dir, { recursive: true });
        await client.set("something", "to save");
        await client.bgsave();
        await eventually("it has tried", async () =>
          (await client.info("persistence")).includes("rdb_last_bgsave_status:err"),
        );
      },
      ({ client }) => client.config("SET", "stop-writes-on-bgsave-error", "no"),
    ],
  ])(
    "%s: the rule answers, nothing is half written, and counts are exact again within 2 s",
    async (_, args, fail, mend) => {
      const dir = mkdtempSync(join(tmpdir(), "tidegate-full-"));
      onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
      const server = await started([...args, "--dir", dir]);
      const site = await served(app, { redis: server.url, policies: every, onFailure: "closed", ...PATIENT });
      await eventually("Redis decides", () => isWell(site));
      await fail(server, dir);
      await site.seen();
      expect(tally(await ask(site.port, 20, "meanwhile"))).toEqual({ 503: 20 });
      const { requests, events } = await site.seen();
      expect(requests.map(({ reason }) => reason)).toEqual(Array(20).fill("unavailable"));
      expect(events).toMatchObject([{ type: "storeError", reason: "unavailable" }]);
      expect(await stateOf(server, site)).toEqual({});

      await mend(server, dir);
      await eventually("Redis decides again", () => isWell(site), 2000);
      expect(tally(await ask(site.port, 8, "afterwards"))).toEqual({ 200: 5, 429: 3 });
      expect(await stateOf(server, site)).toEqual({ afterwards: 5 });
    },
  );
});
