/** What a limiter needs to be permitted, through every library: what its scripts call, and in a Cluster a little more. */
import { createLimiter, fixedWindow } from "@tidegate/core";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { freshPrefix } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { deciding } from "../harness/rights.ts";
import { type App, libraries } from "./libraries.ts";
import { startLoneCluster } from "./lone-cluster.ts";

const PASSWORD = "a secret";

let server: RedisServer;
let cluster: RedisServer;
beforeAll(async () => {
  [server, cluster] = await Promise.all([startRedis(), startLoneCluster()]);
});
afterAll(() => Promise.all([server.stop(), cluster.stop()]));

/** A user who may do this and nothing else. */
async function login({ client }: RedisServer, ...commands: string[]) {
  const username = freshPrefix();
  const rights = [...deciding, ...commands].map((command) => `+${command}`);
  await client.call("acl", "setuser", username, "on", `>${PASSWORD}`, "~*", ...rights);
  return { username, password: PASSWORD };
}

async function expectExact(app: App<unknown>) {
  const policies = { p: fixedWindow({ limit: 2, window: "1h" }) };
  const limiter = createLimiter({ redis: app.redis, prefix: freshPrefix(), policies, timeoutMs: 10_000 });
  onTestFinished(() => limiter.close().then(() => app.end()));
  const decisions = [];
  for (let i = 0; i < 3; i++) decisions.push(await limiter.decide({ identity: "somebody" }));
  expect(decisions.map(({ allowed, degraded }) => degraded ?? allowed)).toEqual([true, true, false]);
}

it.each(libraries)("of one server: $name", async (library) => {
  await expectExact(library.client({ port: server.port, ...(await login(server)) }));
});

it.each(libraries)("of another database: $name", async (library) => {
  await expectExact(library.client({ port: server.port, db: 3, ...(await login(server, "select")) }));
});

it.each(libraries)("of a Cluster: $name", async (library) => {
  const user = await login(cluster, "asking", "cluster|slots");
  await expectExact(library.cluster({ ports: [cluster.port], ...user }));
});
