/** A Redis server that is paused, killed and brought back, on a port that stays its own. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { Redis } from "ioredis";
import { onServerCore } from "../lib/pin.js";

/** @typedef {Awaited<ReturnType<typeof frailRedis>>} FrailRedis */

/** Begins without a server: `start` brings one. */
export async function frailRedis() {
  const port = await freePort();
  const url = `redis://127.0.0.1:${port}`;
  /** @type {import("node:child_process").ChildProcess | undefined} */
  let server;
  const client = new Redis(url, { lazyConnect: true, retryStrategy: () => 20, maxRetriesPerRequest: null });
  client.on("error", () => {});
  const atExit = () => void server?.kill("SIGKILL");
  process.once("exit", atExit);

  async function kill() {
    if (!server) return;
    const gone = once(server, "exit");
    server.kill("SIGKILL");
    await gone;
    server = undefined;
  }

  return {
    port,
    url,
    /** Not by way of any proxy. Only while there is a server that is not paused. */
    client,
    /** Empty, as nothing is ever written to a disk. */
    async start() {
      const flags = ["--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
      const program = onServerCore("redis-server", [...flags, "--dir", tmpdir(), "--loglevel", "warning"]);
      server = spawn(...program, { stdio: "ignore" });
      await client.ping();
    },
    pause: () => void server?.kill("SIGSTOP"),
    resume: () => void server?.kill("SIGCONT"),
    kill,
    async stop() {
      client.disconnect();
      await kill();
      process.off("exit", atExit);
    },
  };
}

/** Below those that connections going out are given: while the server is away, none of them may take it. */
async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    if (await isFree(port)) return port;
  }
}

/** @param {number} port */
function isFree(port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
