/** P07: the rule `local`, in four processes that share a limit. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { freshPrefix } from "../harness/pair.ts";
import { freePort, type RedisServer, startRedis } from "../harness/redis.ts";
import {
  type Answer,
  type App,
  ask,
  isWell,
  type LimiterOptions,
  load,
  type Policies,
  served,
  type Site,
  startApp,
  tally,
} from "./processes.ts";

const shared: Policies = { shared: ["fixedWindow", { limit: 10, window: "1m" }] };
const mine: Policies = { mine: ["fixedWindow", { limit: 3, window: "1m" }] };
/** What counts is not the deadline here: a slow decision is no outage. */
const PATIENT = { timeoutMs: 10_000 };

let apps: App[];
beforeAll(() => {
  apps = Array.from({ length: 4 }, startApp);
});
afterAll(() => {
  for (const app of apps) app.end();
});

async function started(port?: number): Promise<RedisServer> {
  const server = await startRedis(port === undefined ? {} : { port });
  onTestFinished(() => server.stop());
  return server;
}

/** The same limiter in every process. */
function everywhere(options: Partial<LimiterOptions>): Promise<Site[]> {
  const prefix = freshPrefix();
  return Promise.all(
    apps.map((app) =>
      served(app, { policies: shared, onFailure: { local: mine }, ...PATIENT, ...options, prefix }),
    ),
  );
}

/** So many requests of one client to each process, all at once. */
const askAll = (sites: readonly Site[], times: number, user: string): Promise<Answer[][]> =>
  Promise.all(sites.map(({ port }) => ask(port, times, user)));

const decideAgain = (sites: readonly Site[]) =>
  eventually("Redis decides for every process", async () =>
    (await Promise.all(sites.map(isWell))).every(Boolean),
  );

const admitted = (answers: readonly { status: number }[]) => tally(answers)[200] ?? 0;

it("P07 one process: the fourth request of a client is refused, by its own policy", async () => {
  const server = await started();
  const [site] = await everywhere({ redis: server.url });
  await decideAgain([site!]);
  await server.kill();
  const answers: Answer[] = [];
  for (let i = 0; i < 5; i++) answers.push(...(await ask(site!.port, 1, "somebody")));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429]);
  expect(new Set(answers.map(({ policies }) => policies))).toEqual(new Set(['"mine";q=3;w=60']));
  expect(admitted(await ask(site!.port, 5, "somebody else"))).toBe(3);
});

describe.each<[string, Partial<LimiterOptions>, string]>([
  ["with a policy of each process's own", {}, '"mine";q=3;w=60'],
  [
    "by each process's share of the limit",
    { policies: { shared: ["fixedWindow", { limit: 12, window: "1m" }] }, onFailure: "local", instances: 4 },
    '"shared";q=3;w=60',
  ],
])("four processes, 3 a minute in each, %s", (_, options, told) => {
  it("P07 at most 12 get in during the outage, and what each process counted is forgotten afterwards", async () => {
    const port = await freePort();
    const first = await started(port);
    const sites = await everywhere({ redis: first.url, ...options });
    const limit = options.policies ? 12 : 10;
    await decideAgain(sites);
    expect(admitted((await askAll(sites, 5, "somebody")).flat())).toBe(limit);

    await first.stop();
    // What Redis refused a moment before is believed for a second at most.
    await sleep(1100);
    const out = await askAll(sites, 8, "somebody");
    expect(out.map(admitted)).toEqual([3, 3, 3, 3]);
    expect(new Set(out.flat().map(({ policies }) => policies))).toEqual(new Set([told]));
    expect(admitted((await askAll(sites, 8, "somebody")).flat())).toBe(0);

    // The server is a new one: it knows of nobody. Neither does any process, or fewer would get in.
    const second = await started(port);
    await decideAgain(sites);
    expect(admitted((await askAll(sites, 5, "somebody")).flat())).toBe(limit);
    await second.stop();
    await sleep(1100);
    expect((await askAll(sites, 8, "somebody")).map(admitted)).toEqual([3, 3, 3, 3]);
  }, 60_000);
});

it("P07 under load: 3 of each client in each process for the whole outage, and the shared limit at once afterwards", async () => {
  const port = await freePort();
  const first = await started(port);
  const sites = await everywhere({ redis: first.url });
  await decideAgain(sites);
  await first.stop();
  const traffic = sites.map(({ port }) => load(port, 100, "busy"));
  await sleep(1000);
  const out = await Promise.all(traffic.map((each) => each.end()));
  expect(out.every((answers) => answers.length > 80)).toBe(true);
  expect(out.map(admitted)).toEqual([3, 3, 3, 3]);

  await started(port);
  await decideAgain(sites);
  expect(admitted((await askAll(sites, 5, "busy")).flat())).toBe(10);
}, 60_000);

it("P07 a process remembers 10,000 clients for an outage and no more; who is refused is forgotten last", async () => {
  const [app] = apps;
  const site = await served(app!, {
    redis: `redis://127.0.0.1:${await freePort()}`,
    policies: shared,
    onFailure: { local: mine },
  });
  await site.record(false);
  expect(tally(await ask(site.port, 5, "greedy"))).toEqual({ 200: 3, 429: 2 });
  expect(tally(await ask(site.port, 1, "modest"))).toEqual({ 200: 1 });
  await ask(site.port, 10_500, (request) => `passing-${request}`);
  expect(tally(await ask(site.port, 5, "greedy"))).toEqual({ 429: 5 });
  expect(tally(await ask(site.port, 5, "modest"))).toEqual({ 200: 3, 429: 2 });
}, 60_000);
