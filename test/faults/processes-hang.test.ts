/** A Redis that hangs under load: it keeps its connections and says nothing, like a machine that is frozen. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import {
  allBut,
  type Answer,
  type App,
  chargedTo,
  DEADLINE_MS,
  isTraffic,
  isWell,
  load,
  type Policies,
  type Seen,
  type SeenRequest,
  served,
  type Site,
  startApp,
  tally,
  whoGetIn,
} from "./processes.ts";

const HANGS_MS = 3000;
const PER_SECOND = 500;
const LOCAL = 100;

const policies: Policies = { api: ["fixedWindow", { limit: 100_000, window: "1h" }] };
const local: Policies = { mine: ["fixedWindow", { limit: LOCAL, window: "1h" }] };

/** What so many requests of one client get while Redis hangs. */
const rules = [
  ["open", "open", (count: number) => ({ 200: count })],
  ["closed", "closed", (count: number) => ({ 503: count })],
  ["local", { local }, (count: number) => ({ 200: LOCAL, 429: count - LOCAL })],
] as const;

let app: App;
let server: RedisServer;
beforeAll(async () => {
  app = startApp();
  server = await startRedis();
});
afterAll(async () => {
  app.end();
  await server.stop();
});

interface Hang {
  readonly answers: Answer[];
  readonly seen: Seen;
  readonly stopped: number;
  readonly resumed: number;
}

/** Traffic without a pause, as `before`, `hung` while Redis hangs, `waking` until it decides again. */
async function hangUnder(site: Site): Promise<Hang> {
  const traffic = load(site.port, PER_SECOND, "before");
  await sleep(400);
  const stopped = Date.now();
  server.pause();
  await sleep(10); // Until the kernel has stopped it: of what is sent then, nothing can be charged.
  traffic.as("hung");
  await sleep(HANGS_MS);
  traffic.as("waking");
  await eventually("all others are answered", () => traffic.open(/before|hung/) === 0);
  const resumed = Date.now();
  server.resume();
  await eventually("Redis decides again", () => isWell(site));
  await sleep(200);
  const answers = await traffic.end();
  const { requests, ...rest } = await site.seen();
  return { answers, seen: { ...rest, requests: requests.filter(isTraffic) }, stopped, resumed };
}

const statusOf = ({ rule, allowed }: SeenRequest) => (allowed ? 200 : rule === "closed" ? 503 : 429);

/**
 * By the application's own clock, from a request's arrival to its answer. What requests have waited for is asked of all
 * of them, and no scheduler can change it: the deadline and nothing after it or, once the breaker is open, nothing. How
 * long that took is asked of nine in ten, as a busy machine takes a process off its processor for longer than that.
 */
function expectInTime({ answers, seen, stopped, resumed }: Hang): void {
  // Where the machine is busy enough, the breaker was open before.
  const opened = seen.breaker.find(({ state, at }) => state === "open" && at > stopped)?.at ?? stopped;
  expect(seen.requests.filter(({ late }) => late)).toEqual([]);
  expect(allBut(10, seen.requests, ({ ms }) => ms)).toBeLessThan(DEADLINE_MS + 25);
  expect(allBut(50, answers, ({ ms }) => ms)).toBeLessThan(DEADLINE_MS + 25);

  const atOnce = seen.requests.filter(({ at }) => at > opened && at < resumed);
  expect(atOnce.length).toBeGreaterThan((HANGS_MS / 1000) * PER_SECOND * 0.8);
  expect(atOnce.filter((request) => !request.atOnce)).toEqual([]);
  expect(allBut(10, atOnce, ({ ms }) => ms)).toBeLessThan(5);
}

const decided = ({ rule, allowed }: SeenRequest) => !rule && allowed === true;

/** Nobody pays for an answer that Redis did not give. */
async function expectCharges(site: { readonly prefix: string }, { seen }: Hang): Promise<void> {
  const of = (user: string) => seen.requests.filter((request) => request.user === user);
  expect(await chargedTo(server, site, "hung")).toBe(0);
  // What Redis did before it stopped, and could tell nobody, stays charged.
  const before = await chargedTo(server, site, "before");
  expect(before).toBeGreaterThanOrEqual(of("before").filter(decided).length);
  expect(before).toBeLessThanOrEqual(of("before").length);
  // So does what it tells too late.
  const waking = await chargedTo(server, site, "waking");
  expect(waking).toBeGreaterThanOrEqual(of("waking").filter(decided).length);
  expect(waking).toBeLessThanOrEqual(of("waking").filter(decided).length + seen.lates);
}

describe.each(["express", "fastify", "koa"] as const)(
  "%s: Redis hangs 3 s under 500 requests a second",
  (framework) => {
    it.each(rules)(
      "rule %s: all are answered in time, none is charged afterwards, exact within 2 s",
      async (rule, onFailure, expected) => {
        const site = await served(app, { redis: server.url, policies, onFailure }, { framework });
        await eventually("Redis decides", () => isWell(site));
        await site.seen();

        const hang = await hangUnder(site);
        const { answers, resumed } = hang;
        const { requests } = hang.seen;
        expect(requests).toHaveLength(answers.length);
        expect(requests.filter((request) => request.status !== statusOf(request))).toEqual([]);
        expectInTime(hang);

        const hung = requests.filter(({ user }) => user === "hung");
        expect(new Set(hung.map((request) => request.rule))).toEqual(new Set([rule]));
        expect(tally(answers.filter(({ user }) => user === "hung"))).toEqual(expected(hung.length));
        await expectCharges(site, hang);

        const back = requests.find((request) => request.user === "waking" && decided(request))!;
        expect(back.at - resumed).toBeLessThan(2000);
        expect(await whoGetIn(site, 12, 10_000)).toEqual({ 200: 10, 429: 2 });
      },
      60_000,
    );
  },
);
