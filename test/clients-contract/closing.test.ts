/** A process whose limiters are closed ends by itself, whichever library they went through. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { startLoneCluster } from "./lone-cluster.ts";
import { latePort } from "./late-port.ts";

const run = promisify(execFile);
const program = fileURLToPath(new URL("./closing-process.mjs", import.meta.url));

let server: RedisServer;
let cluster: RedisServer;
beforeAll(async () => {
  [server, cluster] = await Promise.all([startRedis(), startLoneCluster()]);
});
afterAll(() => Promise.all([server.stop(), cluster.stop()]));

it.concurrent.each(["ioredis", "ioredis5", "iovalkey", "redis", "redis5"])("%s", async (library) => {
  const ports = [server.port, cluster.port, await latePort()].map(String);
  const { stdout, stderr } = await run(process.execPath, [program, library, ...ports], { timeout: 20_000 });
  const { results, lingeredMs } = JSON.parse(stdout);
  const [there, away] = [
    ["decided", "decided", "closed"],
    ["connection", "closed"],
  ];
  expect(results).toEqual([...there, ...away, ...there, ...away]);
  expect(lingeredMs).toBeLessThan(2000);
  expect(stderr).toBe("");
});
