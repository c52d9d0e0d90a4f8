/** Servers of a Cluster that fail under traffic: what is answered meanwhile, and when it is exact again. */
import { setTimeout as sleep } from "node:timers/promises";
import { fixedWindow, type TidegateEvent } from "@tidegate/core";
import { Cluster } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type ClusterNode, startClusterOf, type TestCluster } from "../harness/cluster.ts";
import { eventually } from "../harness/eventually.ts";
import { startCluster } from "../harness/redis.ts";
import { bulk, scriptedServer } from "../harness/scripted.ts";
import { clientOf, type Clustered, expectWell, limiterOn, namesOn } from "./clustered.ts";
import { expectCounted, isDegraded, steady, undisturbed, type Watched } from "./steady.ts";

/** Of a limiter that says nothing of it. */
const DEADLINE_MS = 50;
const PER_SECOND = 200;
const PLENTY = 1_000_000;

/** A request that is not over by then has waited for its deadline. */
const WAITED_MS = DEADLINE_MS - 10;

/** After five failures in a row the breaker is open. Others are under way by then, more of them on a machine that is busy. */
const MOST_WAITING = 25;

const addressOf = ({ host, port }: ClusterNode) => `${host}:${port}`;

/** Traffic over all primaries, ten names on each. The first of them is to fail. */
async function underTraffic(cluster: TestCluster, timeoutMs = DEADLINE_MS) {
  const names = await namesOn(cluster, 30);
  const primaries = await cluster.primaries();
  const victim = primaries[0]!;
  const subject = limiterOn(clientOf(cluster), {
    policies: { p: fixedWindow({ limit: PLENTY, window: "1h" }) },
    timeoutMs,
  });
  await eventually("all servers answer", async () => {
    const looks = await Promise.all(names.flat().map((name) => subject.ask(name, { cost: 0 })));
    return looks.every(({ degraded }) => !degraded);
  });
  subject.events.length = 0;
  const placeOf = new Map(names.flatMap((own, place) => own.map((name): [string, number] => [name, place])));
  const others = (name: string) => placeOf.get(name)! > 0;
  /** A third of the names at a time: each part has not been counted before. */
  const traffic = (part: 0 | 1 | 2, servers = primaries) =>
    steady(
      (name) => subject.ask(name),
      names.flatMap((own) => own.slice(10 * part, 10 * part + 10)),
      {
        perSecond: PER_SECOND,
        timeoutMs: DEADLINE_MS,
        control: (name) => {
          const server = servers[placeOf.get(name)!];
          return server === victim ? undefined : server?.client.ping();
        },
      },
    );
  return { ...subject, victim, primaries, names, traffic, others };
}

type Failure = (victim: ClusterNode) => unknown;
const kill: Failure = (victim) => victim.kill();
const stop: Failure = (victim) => victim.pause();

/** What happens to a shard whose primary fails. Moments are milliseconds after the failure. */
async function failing(
  subject: Awaited<ReturnType<typeof underTraffic>>,
  cluster: TestCluster,
  fail: Failure,
) {
  const { victim, traffic, limiter, others, events } = subject;
  const first = traffic(0);
  await sleep(500);
  events.length = 0;
  const failedAt = performance.now();
  await fail(victim);
  await sleep(600);
  const meanwhile = limiter.health();
  const heir = await cluster.failedOver(victim);
  const overMs = performance.now() - failedAt;
  await eventually("that shard decides again", () => limiter.health().breaker === "closed", 5000);
  await sleep(300);
  const requests = await first.end();
  const after = requests.filter(({ at }) => at >= failedAt);
  const own = after.filter(({ name }) => !others(name));
  const from = own.findIndex(isDegraded);
  const again = own.findIndex((request, i) => i > from && !isDegraded(request));
  return {
    before: requests.filter(({ at }) => at < failedAt),
    /** Of the victim's shard, from the first that noticed to the first that was decided again. */
    outage: own.slice(from, again),
    againMs: own[again]!.at - failedAt,
    overMs,
    others: after.filter(({ name }) => others(name)),
    requests,
    meanwhile,
    heir,
  };
}

/** In time, by the rule, and nearly all of them without waiting. */
function expectAnswered(outage: readonly Watched[]): void {
  expect(outage.length).toBeGreaterThan(60);
  expect(outage.filter(({ decision }) => decision.degraded?.rule !== "open" || !decision.allowed)).toEqual(
    [],
  );
  expect(outage.filter(({ late }) => late)).toEqual([]);
  expect(outage.filter(({ ms }) => ms > WAITED_MS).length).toBeLessThanOrEqual(MOST_WAITING);
}

/** As if nothing were the matter elsewhere. */
function expectUntouched(requests: readonly Watched[]): void {
  const own = undisturbed(requests);
  expect(own.length).toBeGreaterThan(30);
  expect(own.filter((request) => isDegraded(request) || request.ms > WAITED_MS)).toEqual([]);
}

const told = (events: readonly TidegateEvent[], server: string) =>
  events.filter((event) => "server" in event && event.server === server);

/** One outage of that server, told of when it began and when it was over. */
function expectToldOnce(events: readonly TidegateEvent[], server: string): void {
  expect(told(events, server)).toEqual([
    {
      type: "storeError",
      reason: expect.stringMatching(/^(connection|timeout|late)$/),
      message: expect.any(String),
      server,
    },
    { type: "recovered", afterMs: expect.any(Number), server },
  ]);
}

/** Units of names that were asked for in this time alone, as their server counts them. */
const countedOn =
  (cluster: TestCluster, { prefix }: Clustered) =>
  async (name: string): Promise<number> => {
    const key = `${prefix}:{id:${name}}:p:fw`;
    return Number(await (await cluster.primaryOf(key)).client.get(key));
  };

/** Exactly the limit of identities of a shard that nobody has asked for yet. */
async function expectTight(cluster: TestCluster, names: readonly string[]): Promise<void> {
  const subject = limiterOn(clientOf(cluster), { policies: { p: fixedWindow({ limit: 10, window: "1h" }) } });
  const decisions = await Promise.all(
    Array.from({ length: 12 * names.length }, (_, i) => subject.ask(names[i % names.length]!)),
  );
  expectWell([subject], decisions);
  expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(10 * names.length);
}

const measured = (what: string, overMs: number, againMs: number) =>
  console.log(
    `${what}: all servers agreed on another primary after ${Math.round(overMs)} ms, its shard decided again after ${Math.round(againMs)} ms`,
  );

describe("a Cluster that serves the slots it has", () => {
  let cluster: TestCluster;
  beforeAll(async () => void (cluster = await startClusterOf({ replicas: 1, fullCoverage: false })));
  afterAll(() => cluster.stop());

  it("P11 a primary that hands over to its replica under traffic: decisions go on at once, and all are counted", async () => {
    // It keeps its clients waiting until its replica has all that it has.
    const subject = await underTraffic(cluster, 10_000);
    const { victim } = subject;
    const running = subject.traffic(0);
    await sleep(300);
    const handedAt = performance.now();
    await (await cluster.replicaOf(victim)).client.call("CLUSTER", "FAILOVER");
    await cluster.failedOver(victim);
    await sleep(500);
    const requests = await running.end();
    expect(await victim.role()).toBe("replica");
    // Those that were under way when ioredis left the old primary: whether they ran there, nobody knows.
    const lost = requests.filter(isDegraded);
    expect(lost.length).toBeLessThanOrEqual(30);
    expect(
      lost.filter(({ at, decision }) => at > handedAt + 1000 || decision.degraded!.reason !== "connection"),
    ).toEqual([]);
    expect(lost.filter(({ name }) => subject.others(name))).toEqual([]);
    await expectCounted(requests, countedOn(cluster, subject));
  });

  it("P11 a primary that stops (SIGSTOP): its shard is answered by the rule in time, the others notice nothing, and it is exact again after the promotion; nor does its return as a replica do harm", async () => {
    const subject = await underTraffic(cluster);
    const { victim, primaries, events, names } = subject;
    const { before, outage, others, overMs, againMs, meanwhile, heir } = await failing(
      subject,
      cluster,
      stop,
    );
    expectUntouched(before.filter(({ name }) => subject.others(name)));
    expectAnswered(outage);
    expectUntouched(others);
    expect(meanwhile).toMatchObject({ state: "degraded", breaker: "open" });
    await eventually("all is well", () => subject.limiter.health().state === "ok");
    expectToldOnce(events, addressOf(victim));
    expect(againMs - overMs).toBeLessThan(5000);
    measured("SIGSTOP", overMs, againMs);

    const second = subject.traffic(1, [heir, ...primaries.slice(1)]);
    await sleep(300);
    victim.resume();
    await cluster.agreed();
    await sleep(700);
    const requests = await second.end();
    expect(await victim.role()).toBe("replica");
    expectUntouched(requests);
    await expectCounted(requests, countedOn(cluster, subject));
    expectToldOnce(events, addressOf(victim));
    await expectTight(cluster, names[0]!.slice(20));
  });

  it("a primary that is killed (SIGKILL): its shard is answered by the rule at once, the others notice nothing, and it is exact again after the promotion", async () => {
    const subject = await underTraffic(cluster);
    const { victim, primaries, events, names } = subject;
    const { outage, others, overMs, againMs, meanwhile, heir } = await failing(subject, cluster, kill);
    expectAnswered(outage);
    expectUntouched(others);
    expect(meanwhile).toMatchObject({ state: "degraded", breaker: "open", lastError: "connection" });
    await eventually("all is well", () => subject.limiter.health().state === "ok");
    expectToldOnce(events, addressOf(victim));
    expect(againMs - overMs).toBeLessThan(5000);
    measured("SIGKILL", overMs, againMs);

    const second = subject.traffic(1, [heir, ...primaries.slice(1)]);
    await sleep(500);
    const requests = await second.end();
    expectUntouched(requests);
    await expectCounted(requests, countedOn(cluster, subject));
    await expectTight(cluster, names[0]!.slice(20));
  });
});

describe("a Cluster that serves all slots or none, as Redis does by default", () => {
  let cluster: TestCluster;
  beforeAll(async () => void (cluster = await startClusterOf({ replicas: 1 })));
  afterAll(() => cluster.stop());

  it("a primary that is killed: every request is answered in time, by its server or by the rule, and all shards are exact after the promotion", async () => {
    const subject = await underTraffic(cluster);
    const { victim, primaries, events, names } = subject;
    const { outage, others, requests, overMs, againMs } = await failing(subject, cluster, kill);
    expectAnswered(outage);
    expect(requests.filter(({ late }) => late)).toEqual([]);
    const down = undisturbed(others).filter(isDegraded);
    expect(new Set(down.map(({ decision }) => decision.degraded!.reason))).toEqual(new Set(["unavailable"]));
    expect(others.some((request) => !isDegraded(request))).toBe(true);
    console.log(
      `the other shards were answered by the rule for ${Math.round(down.at(-1)!.at - down[0]!.at)} ms`,
    );
    expect(againMs - overMs).toBeLessThan(5000);
    measured("SIGKILL, full coverage", overMs, againMs);
    expectToldOnce(events, addressOf(victim));
    await eventually("all is well", () => subject.limiter.health().state === "ok");
    for (const other of primaries.slice(1)) {
      const types = told(events, addressOf(other)).map(({ type }) => type);
      expect(types.filter((type) => type === "storeError").length).toBe(
        types.filter((type) => type === "recovered").length,
      );
    }
    await expectTight(
      cluster,
      names.flatMap((own) => own.slice(20)),
    );
  });
});

/** A server refuses a script before it ran, or a command within it was refused. */
const wordings = [
  ["plain", "READONLY You can't write against a read only replica."],
  [
    "wrapped",
    "ERR Error running script (call to f_0f1e): @user_script:12: @user_script: 12: -READONLY You can't write against a read only replica.",
  ],
];

it.each(wordings)(
  "P11 READONLY %s, from a server that was a primary: the wrong node, and its slots are found where they are now",
  async (_, wording) => {
    const heir = await startCluster();
    onTestFinished(() => heir.stop());
    let port = 0;
    let asked = 0;
    const old = await scriptedServer((command, [sub = ""]) => {
      if (command === "HELLO") return "-NOPROTO unsupported protocol version\r\n";
      if (command === "INFO") return bulk("redis_version:7.0.0\r\nloading:0\r\n");
      if (command === "EVALSHA") return `-${wording}\r\n`;
      if (command !== "CLUSTER") return undefined;
      if (sub.toUpperCase() === "INFO") return bulk("cluster_state:ok\r\n");
      // Who takes over is known a moment later.
      const owner = asked++ > 0 ? heir.port : port;
      return `*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n${bulk("127.0.0.1")}:${owner}\r\n${bulk("0".repeat(40))}`;
    });
    onTestFinished(() => old.stop());
    port = Number(old.url.split(":").at(-1));
    const client = new Cluster([{ host: "127.0.0.1", port }], { lazyConnect: true });
    onTestFinished(() => client.disconnect());
    const { ask, events } = limiterOn(client, { policies: { p: fixedWindow({ limit: 10, window: "1h" }) } });
    expect((await ask("x")).degraded).toEqual({ rule: "open", reason: "readonly" });
    expect(events[0]).toEqual({
      type: "storeError",
      reason: "readonly",
      message: "the server is a replica and takes no writes (READONLY)",
      server: `127.0.0.1:${port}`,
    });
    await eventually("it asks the other server", async () => !(await ask("x", { cost: 0 })).degraded);
    expect((await ask("x")).verdicts[0]!.remaining).toBe(9);
    expect(events.filter(({ type }) => type !== "degraded")).toEqual([
      events[0],
      { type: "recovered", afterMs: expect.any(Number), server: `127.0.0.1:${port}` },
    ]);
  },
);
