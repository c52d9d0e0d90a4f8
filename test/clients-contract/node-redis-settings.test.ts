/** Whatever an application has set on its client of node-redis, a limiter counts. */
import { connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type Config, createLimiter, fixedWindow, nodeRedisClient } from "@tidegate/core";
import { createClient, RESP_TYPES } from "redis";
import { createClient as createClient5 } from "redis5";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { freshPrefix } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { outcomes } from "../faults/wire.ts";
import { caller } from "./client-contract.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

/** Everything as something else than what it is. */
const MAPPED: object = {
  [RESP_TYPES.NUMBER]: String,
  [RESP_TYPES.BLOB_STRING]: Buffer,
  [RESP_TYPES.ARRAY]: Set,
};

const SETTINGS: object[] = [
  { RESP: 2 },
  { RESP: 3 },
  { name: "orders", database: 3 },
  { commandOptions: { typeMapping: MAPPED } },
  { commandOptions: { timeout: 1 } },
  { RESP: 3, clientSideCache: { ttl: 0 } },
  { RESP: 3, emitInvalidate: true },
  { disableOfflineQueue: true },
  { disableClientInfo: true },
  { pingInterval: 20 },
];

/** What only an application's own connection suffers from. */
const HARSH: object[] = [
  { commandsQueueMaxLength: 1 },
  { socket: { socketTimeout: 100 } },
  { socket: { reconnectStrategy: false } },
];

type Client = ReturnType<typeof createClient>;

describe.each([
  ["6", createClient],
  ["5", createClient5 as unknown as typeof createClient],
])("node-redis %s", (_, create) => {
  function madeWith(settings: object): Client {
    const { socket } = settings as { socket?: object };
    const client: Client = create({ ...settings, socket: { ...socket, port: server.port } });
    client.on("error", () => {});
    onTestFinished(() => void (client.isOpen && client.destroy()));
    return client;
  }

  function limiting(redis: NonNullable<Config["redis"]>, shareConnection: boolean) {
    const policies = { p: fixedWindow({ limit: 5, window: "1h" }) };
    const prefix = freshPrefix();
    const limiter = createLimiter({ redis, shareConnection, prefix, policies, timeoutMs: 10_000 });
    onTestFinished(() => limiter.close());
    return async () => {
      const asked = Array.from({ length: 12 }, () => limiter.decide({ identity: "somebody" }));
      return outcomes(await Promise.all(asked));
    };
  }

  it.each(SETTINGS)("made with %o and shared: is exact", async (settings) => {
    const client = madeWith(settings);
    await client.connect();
    expect(await limiting(client, true)()).toEqual({ allowed: 5, refused: 7 });
  });

  it.each([...SETTINGS, ...HARSH])("made with %o: a connection of our own is exact", async (settings) => {
    expect(await limiting(madeWith(settings), false)()).toEqual({ allowed: 5, refused: 7 });
  });

  it.each([true, false])("what it makes of replies is not ours: shared %s", async (share) => {
    const client = madeWith({ commandOptions: { typeMapping: MAPPED } });
    await client.connect();
    for (const given of [client, client.withTypeMapping(MAPPED)]) {
      const ours = nodeRedisClient(given, { share });
      onTestFinished(() => ours.close());
      await eventually("it is ready", () => ours.state === "ready");
      expect((await caller(ours).ask("eval", "return {1, 'a'}", 0)).reply).toEqual([1, "a"]);
    }
  });

  it("closed while it connects, it leaves no connection", async () => {
    const open = new Set<Socket>();
    const silent = createServer((socket) => {
      open.add(socket);
      socket.on("close", () => open.delete(socket)).resume();
    });
    let accepted = 0;
    silent.on("connection", () => accepted++);
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void silent.close());
    const { port } = silent.address() as { port: number };
    await nodeRedisClient(create({ socket: { port } })).close();
    await eventually("it has connected", () => accepted === 1);
    await eventually("it has gone", () => open.size === 0, 1000);
  });

  it("a connection of our own stays when the application's is to end as nobody uses it", async () => {
    const ours = nodeRedisClient(madeWith({ socket: { socketTimeout: 100 } }));
    onTestFinished(() => ours.close());
    await eventually("it is ready", () => ours.state === "ready");
    const { ask } = caller(ours);
    const id = (await ask("client", "ID")).reply;
    await sleep(500);
    expect((await ask("client", "ID")).reply).toBe(id);
  });

  it("an application that closes its shared client is answered by the rule at once, until it connects again", async () => {
    const client = madeWith({});
    await client.connect();
    const limiter = createLimiter({ redis: client, shareConnection: true, limit: 5, window: "1h" });
    onTestFinished(() => limiter.close());
    const degraded = async () => (await limiter.decide({ identity: freshPrefix() })).degraded;
    await eventually("Redis decides", async () => !(await degraded()));
    await client.close();
    expect(await degraded()).toEqual({ rule: "open", reason: "connection" });
    await client.connect();
    await eventually("Redis decides", async () => !(await degraded()));
  });

  /** So a limiter that sends a batch for each of many identities needs no corking. */
  it("writes what is sent in one turn at once", async () => {
    let pieces = 0;
    const relay = createServer((socket) => {
      const upstream = connect(server.port, "127.0.0.1");
      for (const each of [socket, upstream]) each.on("error", () => {});
      socket.on("data", () => pieces++);
      socket.pipe(upstream).pipe(socket);
    });
    await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void relay.close());
    const { port } = relay.address() as { port: number };
    const ours = nodeRedisClient(create({ socket: { port } }));
    onTestFinished(() => ours.close());
    await eventually("it is ready", () => ours.state === "ready");
    await sleep(50);
    pieces = 0;
    const { send } = caller(ours);
    const answers = Array.from({ length: 100 }, () => send("ping"));
    await eventually("all are answered", () => answers.every(({ times }) => times === 1));
    expect(pieces).toBe(1);
  });
});
