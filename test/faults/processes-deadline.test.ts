/** P01: whatever happens to Redis, a request waits for it no longer than the deadline says. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { freePort, type RedisServer, startRedis } from "../harness/redis.ts";
import {
  type App,
  ask,
  chargedTo,
  isWell,
  type LimiterOptions,
  type Policies,
  served,
  type Site,
  startApp,
  tally,
  whoGetIn,
} from "./processes.ts";

/** How much longer than the deadline an answer may take, with everything around it. */
const AROUND = { lateMs: 50 };
const policies: Policies = { api: ["fixedWindow", { limit: 1000, window: "1h" }] };

let app: App;
beforeAll(() => {
  app = startApp();
});
afterAll(() => app.end());

/** A server that goes when the test is over, if it is there then. */
async function startOn(port: number): Promise<RedisServer> {
  const server = await startRedis({ port });
  onTestFinished(() => server.stop());
  return server;
}

/** Twenty requests at once, then ten after each other: all are answered by the rule, and none waits longer than the deadline. */
async function expectAnswered(site: Site, status = 200): Promise<void> {
  await site.seen();
  const answers = await ask(site.port, 20, "meanwhile");
  for (let i = 0; i < 10; i++) answers.push(...(await ask(site.port, 1, "meanwhile")));
  const { requests } = await site.seen();
  expect(tally(answers)).toEqual({ [status]: 30 });
  expect(requests.filter(({ rule }) => !rule)).toEqual([]);
  expect(requests.filter(({ late }) => late)).toEqual([]);
}

/** Redis is back: it decides, it has counted nothing of what the rule has answered, and counts exactly. */
async function expectBack(site: Site & { prefix: string }, server: RedisServer): Promise<void> {
  await eventually("Redis decides", () => isWell(site), 2000);
  expect(await chargedTo(server, site, "meanwhile")).toBe(0);
  expect(await whoGetIn(site, 12, 100)).toEqual({ 200: 10, 429: 2 });
}

/** What may be given as the limiter's Redis. */
const given: [string, (port: number) => Partial<LimiterOptions>][] = [
  ["a URL", (port) => ({ redis: `redis://127.0.0.1:${port}` })],
  ["a client with its default options", (port) => ({ client: { port } })],
  ["a shared client with its default options", (port) => ({ client: { port }, shareConnection: true })],
];

describe.each([
  ["open", 200],
  ["closed", 503],
] as const)("rule %s", (onFailure, status) => {
  it("P01 T1 Redis has gone: every request is answered in time, and exactly again when it is back", async () => {
    const port = await freePort();
    const first = await startOn(port);
    const site = await served(app, { redis: first.url, policies, onFailure }, AROUND);
    await eventually("Redis decides", () => isWell(site));
    await first.stop();
    await expectAnswered(site, status);
    await expectBack(site, await startOn(port));
  });

  it("P01 T2 Redis takes connections and says nothing: so too", async () => {
    const server = await startOn(await freePort());
    server.pause();
    const site = await served(app, { redis: server.url, policies, onFailure }, AROUND);
    await expectAnswered(site, status);
    server.resume();
    await expectBack(site, server);
    server.pause();
    await expectAnswered(site, status);
    server.resume();
    await expectBack(site, server);
  });
});

it("P01 T3 a connection that breaks in mid-call is answered at once, not at the deadline", async () => {
  const port = await freePort();
  const first = await startOn(port);
  const site = await served(app, { redis: first.url, policies, timeoutMs: 5000 }, AROUND);
  await eventually("Redis decides", () => isWell(site));
  first.pause();
  await site.seen();
  const answers = ask(site.port, 20, "meanwhile");
  await sleep(100);
  await first.kill();
  expect(tally(await answers)).toEqual({ 200: 20 });
  const { requests } = await site.seen();
  expect(requests.map(({ reason }) => reason)).toEqual(Array(20).fill("connection"));
  expect(Math.max(...requests.map(({ ms }) => ms))).toBeLessThan(1000);
  await first.stop();
  await expectBack(site, await startOn(port));
});

describe.each(given)("P01 T4 %s", (_, optionsOf) => {
  it("Redis hangs: every request is answered in time, and nothing is charged when it wakes", async () => {
    const server = await startOn(await freePort());
    const site = await served(app, { ...optionsOf(server.port), policies }, AROUND);
    await eventually("Redis decides", () => isWell(site));
    server.pause();
    await expectAnswered(site);
    server.resume();
    await expectBack(site, server);
  });

  it("Redis is killed in mid-call and comes back: so too, though the client may send commands again", async () => {
    const port = await freePort();
    const first = await startOn(port);
    const site = await served(app, { ...optionsOf(port), policies }, AROUND);
    await eventually("Redis decides", () => isWell(site));
    first.pause();
    const underWay = ask(site.port, 20, "meanwhile");
    await sleep(20);
    await first.stop();
    await underWay;
    await expectAnswered(site);
    await expectBack(site, await startOn(port));
  });
});

describe("P01 T5 a request that meets three limits waits for one deadline", () => {
  const three = { a: policies.api!, b: policies.api!, c: policies.api! };

  it.each<[string, Policies, Policies[], number]>([
    ["policies of one limiter", three, [], 1],
    ["a limiter and what with() adds twice", { a: three.a }, [{ b: three.b }, { c: three.c }], 1],
    ["limiters of their own", policies, [], 3],
  ])("%s", async (_, policies, extended, count) => {
    const server = await startOn(await freePort());
    const limiters = Array.from({ length: count }, (_, i) => ({
      prefix: `three-${i}`,
      redis: server.url,
      policies,
    }));
    // Two deadlines would be 100 ms.
    const site = await app.serve({ limiters, extended, lateMs: 35 });
    await eventually("Redis decides", () => isWell(site));
    server.pause();
    await expectAnswered(site);
    await site.close();
  });
});
