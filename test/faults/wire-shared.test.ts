/** An application's own client, shared: it sends commands twice, and they count once. It is left as it was. */
import { setTimeout as sleep } from "node:timers/promises";
import {
  type Config,
  concurrency,
  createLimiter,
  fixedWindow,
  gcra,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { type FaultProxy, faultProxy } from "../harness/fault-proxy.ts";
import { freshPrefix } from "../harness/pair.ts";
import { freePort, type RedisServer, startRedis } from "../harness/redis.ts";
import {
  charged,
  limiterOn,
  limiterSharing,
  listening,
  outcomes,
  SECRET,
  type TheirOptions,
  theirClient,
} from "./wire.ts";

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

async function readyOn(options: TheirOptions = {}, more: Partial<Config> = {}) {
  const subject = limiterSharing(proxy.port, more, options);
  await subject.ready();
  subject.events.length = 0;
  return subject;
}

/** From a moment when the client waits to connect again: it cannot, for so long. */
async function awayFor(ms: number): Promise<void> {
  proxy.refuse();
  await sleep(ms);
  proxy.pass();
}

/** Every algorithm, under a limit that is not full after a unit and takes long to become whole again. */
const everyKind = {
  tb: tokenBucket({ capacity: 10, refillPerSecond: 0.0001 }),
  gc: gcra({ limit: 10, window: "1d", burst: 10 }),
  sw: slidingWindow({ limit: 10, window: "1d" }),
  sl: slidingLog({ limit: 10, window: "1d" }),
  fw: fixedWindow({ limit: 10, window: "1d" }),
  cc: concurrency({ limit: 10, leaseMs: 60_000 }),
};

describe("a reply that is lost, on a client that sends again", () => {
  it("is charged once by every algorithm, and the answer is that of the first run", async () => {
    const { limiter, decide } = await readyOn({}, { policies: everyKind });
    const left = async () =>
      (await limiter.peek({ identity: SECRET })).verdicts.map(({ remaining }) => remaining);
    proxy.dropReplies(1);
    const decision = await decide();
    expect(decision).toMatchObject({ allowed: true, degraded: undefined, replayed: false });
    expect(decision.verdicts.map(({ remaining }) => remaining)).toEqual([9, 9, 9, 9, 9, 9]);
    expect(await left()).toEqual([9, 9, 9, 9, 9, 9]);
    // The receipt is that of the charge: what it gives back is found.
    await limiter.settle(decision, "giveBack");
    expect(await left()).toEqual([10, 10, 10, 10, 10, 10]);
  });

  it.each([1, 2, 3, 6])("%i times in a row: is charged once", async (times) => {
    const { late } = listening();
    const subject = await readyOn({ retryStrategy: () => 20 });
    proxy.dropReplies(times);
    expect(await subject.decide()).toMatchObject({ allowed: true, degraded: undefined, replayed: false });
    expect(proxy.accepted).toBe(1 + times);
    expect(await charged(server.client, subject)).toBe(1);
    expect(late).toEqual(["double"]);
  });

  it("breaks in its middle by a reset: is charged once", async () => {
    const subject = await readyOn();
    proxy.resetMidReply();
    expect(outcomes(await subject.decisions(20))).toEqual({ allowed: 20 });
    expect(await charged(server.client, subject)).toBe(20);
  });

  it("of a refusal: refuses once more, and charges nothing", async () => {
    const policies = { p: fixedWindow({ limit: 3, window: "1h" }) };
    const subject = await readyOn({}, { policies });
    await subject.decisions(3);
    proxy.dropReplies(1);
    expect(await subject.decide()).toMatchObject({ allowed: false, degraded: undefined });
    expect(await charged(server.client, subject)).toBe(3);
  });

  it("of a request with a key of its own: is charged once, and so is the same request afterwards", async () => {
    const subject = await readyOn();
    const ask = () => subject.limiter.decide({ identity: SECRET, idempotencyKey: "order-7" });
    proxy.dropReplies(1);
    expect(await ask()).toMatchObject({ allowed: true, degraded: undefined });
    expect(await ask()).toMatchObject({ allowed: true, replayed: true });
    expect(await charged(server.client, subject)).toBe(1);
  });

  it("comes back long after the deadline, on the first connection's first request: is charged once", async () => {
    const subject = limiterSharing(proxy.port, { timeoutMs: 100 }, { retryStrategy: () => 300 });
    await sleep(200);
    proxy.dropReplies(1);
    expect((await subject.decide()).degraded?.rule).toBe("open");
    await awayFor(2600);
    await eventually("Redis decides", async () => !(await subject.decide(0)).degraded);
    expect(await charged(server.client, subject)).toBe(1);
  });
});

describe("the reply to a settlement that is lost", () => {
  /** After it, the next settlement is one run of a script that the server knows. */
  async function tenCharged(more: TheirOptions = {}) {
    const subject = await readyOn(more);
    const [first, second] = await subject.decisions(11);
    await subject.limiter.settle(second!, "giveBack");
    return { ...subject, first: first! };
  }

  it.each([
    ["gives back once", "giveBack", 9],
    ["charges more once", 5, 14],
  ] as const)("%s", async (_, outcome, units) => {
    const subject = await tenCharged();
    proxy.dropReplies(1);
    await subject.limiter.settle(subject.first, outcome);
    expect(await charged(server.client, subject)).toBe(units);
  });

  it.each([
    ["gives back once", "giveBack", 9],
    ["charges more once", 5, 14],
  ] as const)("and comes back seconds later: %s", async (_, outcome, units) => {
    const subject = await tenCharged({ retryStrategy: () => 300 });
    proxy.dropReplies(1);
    const done = subject.limiter.settle(subject.first, outcome).catch(() => {});
    await sleep(100);
    await awayFor(2600);
    await done;
    expect(await charged(server.client, subject)).toBe(units);
  });
});

describe("a client with enableAutoPipelining", () => {
  const options = { enableAutoPipelining: true };

  it("decides, a hundred at once", async () => {
    const subject = await readyOn(options);
    expect(outcomes(await subject.decisions(100))).toEqual({ allowed: 100 });
    expect(await charged(server.client, subject)).toBe(100);
    expect(subject.events).toEqual([]);
  });

  it.each([
    ["lost", () => proxy.dropReplies(1)],
    ["broken in its middle", () => proxy.resetMidReply()],
  ])(
    "whose reply is %s: each request is charged once, and what has no answer is told as a connection",
    async (_, fail) => {
      const subject = await readyOn(options);
      fail();
      const { allowed = 0, connection = 0, ...others } = outcomes(await subject.decisions(100));
      expect([allowed + connection, others]).toEqual([100, {}]);
      await eventually("Redis decides", async () => !(await subject.decide(0)).degraded);
      expect(await charged(server.client, subject)).toBe(100);
    },
  );
});

describe("a connection that is half-open", () => {
  it("is answered for in time; sent again when it breaks at last, nothing is charged", async () => {
    const subject = await readyOn({}, { timeoutMs: 100 });
    proxy.silent();
    expect(outcomes(await subject.decisions(50))).toEqual({ timeout: 50 });
    expect(subject.told("storeError")).toHaveLength(1);
    proxy.pass();
    proxy.cut();
    await eventually("its recovery is told of", () => subject.told("recovered").length > 0);
    expect((await subject.decide(0)).degraded).toBeUndefined();
    expect(await charged(server.client, subject)).toBe(0);
  });
});

describe("what is kept to recognise a command", () => {
  const noncesOf = (prefix: string) => server.client.keys(`${prefix}:*::n:*`);

  it("goes by itself, soon", async () => {
    const subject = await readyOn({}, { timeoutMs: 1000 });
    const [first] = await subject.decisions(5);
    await subject.limiter.settle(first!, "giveBack");
    const nonces = await noncesOf(subject.prefix);
    // One decision alone, four as one, and what came back.
    expect(nonces).toHaveLength(3);
    const left = await Promise.all(nonces.map((key) => server.client.pttl(key)));
    for (const ms of left) {
      expect(ms).toBeGreaterThan(0);
      expect(ms).toBeLessThanOrEqual(600_000);
    }
  });

  it("is nothing on a connection of our own", async () => {
    const subject = limiterOn(proxy.url);
    const [first] = await subject.decisions(5);
    await subject.limiter.settle(first!, "giveBack");
    expect(await noncesOf(subject.prefix)).toEqual([]);
  });
});

describe("the client itself", () => {
  const shapeOf = (client: Redis) => ({
    listeners: client.eventNames().map((name) => [name, client.listenerCount(name)]),
    options: { ...client.options },
    fields: Object.keys(client).filter((name) => typeof (client as never)[name] === "function"),
  });

  it("stays open, and is as it was, after a limiter has used it and was closed twice", async () => {
    const client = theirClient(proxy.port);
    await eventually("it is ready", () => client.status === "ready");
    const before = shapeOf(client);
    const { limiter, decisions, ready } = limiterOn(client, { shareConnection: true });
    await ready();
    expect(outcomes(await decisions(20))).toEqual({ allowed: 20 });
    proxy.cut();
    await ready();
    await limiter.close();
    await limiter.close();
    expect(shapeOf(client)).toEqual(before);
    expect(await client.ping()).toBe("PONG");
  });

  it("is used while it connects, and left alone when the limiter is closed before", async () => {
    const client = theirClient(proxy.port);
    const before = shapeOf(client);
    const first = limiterOn(client, { shareConnection: true });
    const second = limiterOn(client, { shareConnection: true });
    await first.limiter.close();
    expect((await second.decide()).degraded).toBeUndefined();
    await second.limiter.close();
    expect(shapeOf(client).listeners).toEqual(before.listeners.filter(([name]) => name === "error"));
    expect(await client.ping()).toBe("PONG");
  });

  it("with lazyConnect: connects for the limiter, and stays open after it", async () => {
    const client = theirClient(proxy.port, { lazyConnect: true });
    const before = shapeOf(client);
    expect(client.status).toBe("wait");
    const { limiter, decide } = limiterOn(client, { shareConnection: true });
    expect((await decide()).degraded).toBeUndefined();
    await limiter.close();
    expect(shapeOf(client)).toEqual(before);
    expect([client.status, proxy.accepted]).toEqual(["ready", 1]);
  });

  it("with lazyConnect and no server: the rule answers, and decisions come as soon as there is one", async () => {
    const port = await freePort();
    const client = theirClient(port, { lazyConnect: true, retryStrategy: () => 50 });
    const { decide, told } = limiterOn(client, { shareConnection: true });
    expect((await decide()).degraded).toEqual({ rule: "open", reason: "connection" });
    const late = await startRedis({ port });
    await eventually("Redis decides", async () => !(await decide()).degraded);
    expect([told("storeError").length, told("recovered").length]).toEqual([1, 1]);
    await late.stop();
  });

  it("that was closed by its owner: the rule answers at once", async () => {
    const client = theirClient(proxy.port);
    const { decide, ready } = limiterOn(client, { shareConnection: true });
    await ready();
    await client.quit();
    expect((await decide()).degraded).toEqual({ rule: "open", reason: "connection" });
  });
});

describe.each([
  ["shared", true],
  ["whose server is asked on a connection of our own", false],
])("a client %s", (_, shareConnection) => {
  const settings: TheirOptions[] = [
    { keyPrefix: "app:" },
    { db: 3 },
    { protocol: 2 },
    { connectionName: "orders" },
    { enableReadyCheck: false },
    { stringNumbers: true },
    { enableOfflineQueue: false },
    { autoResendUnfulfilledCommands: false },
  ];

  it.each(settings)("made with %o: decides exactly", async (options) => {
    const policies = { p: fixedWindow({ limit: 5, window: "1h" }) };
    const { decisions, ready } = limiterOn(theirClient(proxy.port, options), { shareConnection, policies });
    await ready();
    expect(outcomes(await decisions(12))).toEqual({ allowed: 5, refused: 7 });
  });
});

describe("a client with a commandTimeout of its own", () => {
  it("does not make a connection of ours as hasty", async () => {
    proxy.latency(30);
    const client = new Redis(proxy.port, "127.0.0.1", { commandTimeout: 20, lazyConnect: true });
    onTestFinished(() => client.disconnect());
    const limiter = createLimiter({
      redis: client,
      prefix: freshPrefix(),
      limit: 5,
      window: "1h",
      timeoutMs: 10_000,
    });
    onTestFinished(() => limiter.close());
    expect((await limiter.decide({ identity: SECRET })).degraded).toBeUndefined();
  });
});
