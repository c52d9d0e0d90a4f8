/** P41: a long outage at 1,000 requests a second. TIDEGATE_SOAK_MS says how long; 60000 is what is promised. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { callsOf } from "../harness/live.ts";
import { freePort, type RedisServer, startRedis } from "../harness/redis.ts";
import {
  allBut,
  type App,
  DEADLINE_MS,
  isWell,
  type Load,
  load,
  type Policies,
  type SeenRequest,
  served,
  startApp,
  tally,
} from "./processes.ts";

const OUTAGE_MS = Number(process.env["TIDEGATE_SOAK_MS"] ?? 15_000);
const PER_SECOND = 1000;

const policies: Policies = { api: ["fixedWindow", { limit: 100, window: "1m" }] };
/** The rule that has something to keep: every client of the outage is a new one. */
const onFailure = { local: { mine: ["fixedWindow", { limit: 3, window: "1m" }] } satisfies Policies };

let app: App;
beforeAll(() => {
  app = startApp();
});
afterAll(() => app.end());

async function started(port: number): Promise<RedisServer> {
  const server = await startRedis({ port });
  onTestFinished(() => server.stop());
  return server;
}

/** Redis hangs for the first half and is dead for the second. Gives by how much the heap had grown at each quarter. */
async function outage(traffic: Load, server: RedisServer): Promise<number[]> {
  const before = await app.heap();
  const grown: number[] = [];
  server.pause();
  traffic.as((request) => `down-${request}`);
  for (let quarter = 0; quarter < 4; quarter++) {
    if (quarter === 2) await server.stop();
    await sleep(OUTAGE_MS / 4);
    grown.push((await app.heap()) - before);
  }
  return grown;
}

/** The first requests in a row that Redis decided about, every one of them. */
function normality(requests: readonly SeenRequest[]): SeenRequest[] {
  for (let i = 0; i + 100 <= requests.length; i++) {
    const row = requests.slice(i, i + 100);
    const odd = row.findLastIndex(({ rule }) => rule !== undefined);
    if (odd < 0) return row;
    i += odd;
  }
  throw new Error("Redis never decided about 100 requests in a row");
}

it(
  `P41 an outage of ${OUTAGE_MS / 1000} s at 1,000 requests a second: bounded heap, bounded waiting, normal within 2 s of the return`,
  async () => {
    const port = await freePort();
    const first = await started(port);
    const site = await served(app, { redis: first.url, policies, onFailure });
    await eventually("Redis decides", () => isWell(site));
    const traffic = load(site.port, PER_SECOND, (request) => `before-${request}`);
    await sleep(1500);
    await site.record(false);
    await site.seen();

    const grown = await outage(traffic, first);
    const { mostPending } = await site.seen();
    await site.record(true);
    traffic.as((request) => `back-${request}`);
    await eventually("all others are answered", () => traffic.open(/before|down/) === 0, 20_000);
    const second = await started(port);
    const returned = Date.now();
    await sleep(2500);
    const answers = await traffic.end();
    const requests = (await site.seen()).requests.filter(({ at }) => at > returned);

    expect(answers.length).toBeGreaterThan(((OUTAGE_MS + 4000) / 1000) * PER_SECOND * 0.95);
    expect(tally(answers)).toEqual({ 200: answers.length });
    expect(Math.max(...grown)).toBeLessThan(20e6);
    expect(mostPending).toBeLessThan(1000);

    const normal = normality(requests);
    expect(normal[0]!.at - returned).toBeLessThan(2000);
    expect(allBut(50, normal, ({ ms }) => ms)).toBeLessThan(DEADLINE_MS);

    // Nothing of the outage was kept to be asked later.
    expect(await second.client.keys("*down-*")).toEqual([]);
    expect(await callsOf(second, "evalsha")).toBeLessThan(requests.length + 50);
  },
  OUTAGE_MS + 60_000,
);
