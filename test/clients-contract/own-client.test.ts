/** The client of an application's own that docs/clients.md shows, on a library made for this test. */
import { EventEmitter } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type ClusterClient, createLimiter, fixedWindow, type ScriptClient } from "@tidegate/core";
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { blockOf, read, root, sectionOf } from "../docs/markdown.ts";
import { eventually } from "../harness/eventually.ts";
import { freshPrefix } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { latePort } from "./late-port.ts";
import { startLoneCluster } from "./lone-cluster.ts";

/** As the page says of it: it connects by itself, tells of it, and neither queues nor sends twice. */
class OtherClient extends EventEmitter {
  readonly #redis: Redis;

  constructor(port: number) {
    super();
    const retryStrategy = () => 100;
    this.#redis = new Redis(port, "127.0.0.1", {
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      retryStrategy,
    });
    this.#redis.on("error", () => {});
    this.#redis.on("ready", () => this.emit("up"));
    this.#redis.on("close", () => this.emit("down"));
  }

  get isUp(): boolean {
    return this.#redis.status === "ready";
  }

  command([name, ...args]: string[]): Promise<unknown> {
    return this.#redis.call(name!, args);
  }

  end(): void {
    this.#redis.disconnect();
  }
}

let server: RedisServer;
let cluster: RedisServer;
let scriptClient: (other: OtherClient) => ScriptClient;
beforeAll(async () => {
  const block = blockOf(sectionOf(read("docs/clients.md"), "A client of your own"), "ts");
  const folder = join(root, ".cache/clients-page");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "own-client.ts");
  writeFileSync(file, `${block.slice(0, block.indexOf("\nconst limiter"))}\nexport { scriptClient };\n`);
  [{ scriptClient }, server, cluster] = await Promise.all([import(file), startRedis(), startLoneCluster()]);
});
afterAll(() => Promise.all([server.stop(), cluster.stop()]));

function limiting(redis: ScriptClient | ClusterClient) {
  const policies = { p: fixedWindow({ limit: 5, window: "1h" }) };
  const limiter = createLimiter({ redis, prefix: freshPrefix(), policies, timeoutMs: 10_000 });
  onTestFinished(() => limiter.close());
  return async (times: number) => {
    const asked = Array.from({ length: times }, () => limiter.decide({ identity: "somebody" }));
    const decisions = await Promise.all(asked);
    return {
      admitted: decisions.filter(({ allowed, degraded }) => allowed && !degraded).length,
      degraded: decisions.filter(({ degraded }) => degraded).length,
    };
  };
}

it("decides exactly, also when the server has been away", async () => {
  const own = await startRedis({ port: await latePort() });
  onTestFinished(() => own.stop());
  const ask = limiting(scriptClient(new OtherClient(own.port)));
  expect(await ask(12)).toEqual({ admitted: 5, degraded: 0 });
  await own.kill();
  await eventually("it is known", async () => (await ask(1)).degraded === 1);
  const back = await startRedis({ port: own.port });
  onTestFinished(() => back.stop());
  await eventually("Redis decides", async () => (await ask(1)).degraded === 0, 2000);
  // What the server has forgotten with its memory is there again, but for the one that was asked.
  expect(await ask(12)).toEqual({ admitted: 4, degraded: 0 });
});

it("is taken for one server of a Cluster of one's own, too", async () => {
  const address = `127.0.0.1:${cluster.port}`;
  const node = scriptClient(new OtherClient(cluster.port));
  const mine: ClusterClient = {
    state: "ready",
    trouble: undefined,
    keyPrefix: "",
    onChange: () => {},
    ownerOf: () => address,
    primaries: () => [address],
    node: () => node,
    refresh: () => {},
    close: async () => {},
  };
  expect(await limiting(mine)(12)).toEqual({ admitted: 5, degraded: 0 });
});
