/** P11: the server that a limiter speaks to is made a replica, and takes no writes any more. */
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createLimiter, fixedWindow, type TidegateEvent } from "@tidegate/core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { bulk, scriptedServer } from "../harness/scripted.ts";
import {
  allBut,
  type App,
  chargedTo,
  DEADLINE_MS,
  isTraffic,
  isWell,
  load,
  type Policies,
  served,
  type Site,
  startApp,
  tally,
  whoGetIn,
} from "./processes.ts";

const PER_SECOND = 200;
/** A slow machine is not to look like another fault. */
const PATIENT = { timeoutMs: 10_000 };
const policies: Policies = { api: ["fixedWindow", { limit: 100_000, window: "1h" }] };

let app: App;
let node: RedisServer;
let other: RedisServer;
beforeAll(() => {
  app = startApp();
});
afterAll(() => app.end());
beforeEach(async () => {
  [node, other] = await Promise.all([startRedis(), startRedis()]);
});
afterEach(async () => {
  await Promise.all([node.stop(), other.stop()]);
});

const demote = () => node.client.call("REPLICAOF", "127.0.0.1", other.port);
const promote = () => node.client.call("REPLICAOF", "NO", "ONE");
const accepted = async () =>
  Number(/total_connections_received:(\d+)/.exec(await node.client.info("stats"))?.[1]);

/** Traffic without a pause, as `before`, `replica` while the node is one, `promoted` until it decides again. */
async function replicaUnder(site: Site) {
  const connections = await accepted();
  const traffic = load(site.port, PER_SECOND, "before");
  await sleep(200);
  await demote();
  traffic.as("replica");
  await sleep(1500);
  traffic.as("promoted");
  await eventually("all others are answered", () => traffic.open(/before|replica/) === 0);
  const renewed = (await accepted()) - connections;
  await promote();
  const promoted = Date.now();
  await eventually("Redis decides again", () => isWell(site));
  await sleep(200);
  return { answers: await traffic.end(), seen: await site.seen(), renewed, promoted };
}

describe.each([
  ["open", 200],
  ["closed", 503],
] as const)("under traffic, rule %s", (onFailure, status) => {
  it("P11 a node that becomes a replica: the rule answers, and decisions work < 5 s after its promotion", async () => {
    const site = await served(app, { redis: node.url, policies, onFailure, ...PATIENT });
    await eventually("Redis decides", () => isWell(site));
    await site.seen();
    const { answers, seen, renewed, promoted } = await replicaUnder(site);
    const { requests, events } = seen;
    expect(requests.filter(isTraffic)).toHaveLength(answers.length);

    expect(events[0]).toMatchObject({ type: "storeError", reason: "readonly" });
    const replica = requests.filter(({ user }) => user === "replica");
    expect(tally(replica)).toEqual({ [status]: replica.length });
    expect(replica.filter(({ rule }) => rule !== onFailure)).toEqual([]);
    expect(replica.some(({ reason }) => reason === "readonly")).toBe(true);
    expect(allBut(10, replica, ({ ms }) => ms)).toBeLessThan(DEADLINE_MS);
    expect(await chargedTo(node, site, "replica")).toBe(0);

    expect(renewed).toBeGreaterThanOrEqual(1);
    expect(renewed).toBeLessThanOrEqual(10); // It is asked for now and then, not by every request.
    const back = requests.find(({ user, rule }) => user === "promoted" && !rule)!;
    expect(back.at - promoted).toBeLessThan(5000);
    expect(await whoGetIn(site, 12, 10_000)).toEqual({ 200: 10, 429: 2 });
  }, 30_000);
});

/** An address that leads new connections elsewhere once it is told to, and leaves old ones where they are: as names do. */
async function address(first: RedisServer) {
  let to = first.port;
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(to, "127.0.0.1");
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => {});
    }
    near.pipe(far).pipe(near);
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    leadTo: ({ port }: RedisServer) => void (to = port),
  };
}

it("P11 a failover under one address: the node that was left behind is left by the limiter too, within 5 s", async () => {
  const name = await address(node);
  const site = await served(app, { redis: name.url, policies, onFailure: "closed", ...PATIENT });
  await eventually("Redis decides", () => isWell(site));
  await site.seen();
  const traffic = load(site.port, PER_SECOND, "before");
  await sleep(200);
  // The old connection still leads to the old node: nothing but its own READONLY tells that it is the wrong one.
  name.leadTo(other);
  await demote();
  traffic.as("after");
  const failedOver = Date.now();
  await eventually("Redis decides again", () => isWell(site), 5000);
  await sleep(200);
  await traffic.end();
  const { requests, events, lates } = await site.seen();
  const after = requests.filter(({ user }) => user === "after");
  const decided = after.filter(({ rule }) => !rule);

  expect(events).toMatchObject([{ type: "storeError", reason: "readonly" }, { type: "recovered" }]);
  expect(after.filter(({ rule, status }) => status !== (rule ? 503 : 200))).toEqual([]);
  expect(decided[0]!.at - failedOver).toBeLessThan(5000);
  const charged = await chargedTo(other, site, "after");
  expect(charged).toBeGreaterThanOrEqual(decided.length);
  expect(charged).toBeLessThanOrEqual(decided.length + lates);
  expect(await whoGetIn(site, 12, 10_000)).toEqual({ 200: 10, 429: 2 });
}, 30_000);

/** The script was stopped before it ran, or a command within it was; then versions word it in many ways. */
const wordings = [
  ["plain", "READONLY You can't write against a read only replica."],
  [
    "with its place behind it",
    "READONLY You can't write against a read only replica. script: 0f1e, on @user_script:12.",
  ],
  [
    "wrapped, with a dash",
    "ERR Error running script (call to f_0f1e): @user_script:12: @user_script: 12: -READONLY You can't write against a read only replica.",
  ],
  [
    "wrapped",
    "ERR user_script:12: READONLY You can't write against a read only slave. script: 0f1e, on @user_script:12.",
  ],
];

it.each(wordings)(
  "P11 READONLY %s: the wrong node, and a connection to another is asked for",
  async (_, wording) => {
    let connections = 0;
    const scripted = await scriptedServer((command) => {
      if (command === "HELLO") connections++;
      if (command === "HELLO") return "-NOPROTO unsupported protocol version\r\n";
      if (command === "INFO") return bulk("redis_version:7.0.0\r\nloading:0\r\n");
      return command === "EVALSHA" ? `-${wording}\r\n` : undefined;
    });
    const events: TidegateEvent[] = [];
    const limiter = createLimiter({
      redis: scripted.url,
      policies: { api: fixedWindow({ limit: 5, window: "1h" }) },
      onEvent: (event) => events.push(event),
      timeoutMs: 10_000,
    });
    onTestFinished(async () => {
      await limiter.close();
      scripted.stop();
    });
    expect((await limiter.decide({ identity: "x" })).degraded).toEqual({ rule: "open", reason: "readonly" });
    expect(events).toMatchObject([
      {
        type: "storeError",
        reason: "readonly",
        message: "the server is a replica and takes no writes (READONLY)",
      },
      { type: "degraded", rule: "open", reason: "readonly" },
    ]);
    await eventually("it connects anew", () => connections === 2);
  },
);
