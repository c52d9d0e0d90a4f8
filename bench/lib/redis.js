/** A private Redis server, and what it says of itself. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { onServerCore } from "./pin.js";

/** @typedef {Awaited<ReturnType<typeof startRedis>>} Server */

/** @param {string[]} [args] more of what `redis-server` takes */
export async function startRedis(args = []) {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "tidegate-bench-"));
  const flags = `--port ${port} --bind 127.0.0.1 --save --appendonly no --loglevel warning`.split(" ");
  flags.splice(flags.indexOf("--save") + 1, 0, "");
  const server = spawn(...onServerCore("redis-server", [...flags, "--dir", folder, ...args]), {
    stdio: "ignore",
  });
  const gone = new Promise((resolve) => server.once("exit", resolve));
  const kill = () => server.kill("SIGKILL");
  process.once("exit", kill);

  const url = `redis://127.0.0.1:${port}`;
  const control = new Redis(url, { retryStrategy: () => 20, maxRetriesPerRequest: 200 });
  control.on("error", () => {});
  await control.ping();

  return {
    port,
    url,
    control,
    /** CPU the server's main thread has used, µs. */
    async cpu() {
      const info = await infoOf(control, "cpu");
      return 1e6 * (Number(info.used_cpu_user_main_thread) + Number(info.used_cpu_sys_main_thread));
    },
    /**
     * How often clients sent one of these commands.
     *
     * @param {string[]} commands
     */
    async calls(commands) {
      const info = await infoOf(control, "commandstats");
      const counts = commands.map((name) =>
        Number(/calls=(\d+)/.exec(info[`cmdstat_${name}`] ?? "")?.[1] ?? 0),
      );
      return counts.reduce((sum, count) => sum + count, 0);
    },
    async errors() {
      return Number((await infoOf(control, "stats")).total_error_replies);
    },
    async version() {
      const info = await infoOf(control, "server");
      return String(info.redis_version);
    },
    /** Bytes in use, once they stay the same. */
    async memory() {
      let last = NaN;
      for (let tries = 0; tries < 50; tries++) {
        const used = Number((await infoOf(control, "memory")).used_memory);
        if (Math.abs(used - last) < 2048) return used;
        last = used;
        await new Promise((resolve) => setTimeout(resolve, 60));
      }
      return last;
    },
    async stop() {
      control.disconnect();
      server.kill("SIGTERM");
      await gone;
      process.off("exit", kill);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * @param {Redis} client
 * @param {string} section
 * @returns {Promise<Record<string, string>>}
 */
async function infoOf(client, section) {
  const text = await client.info(section);
  return Object.fromEntries(
    [...text.matchAll(/^([^#:\r\n]+):(.*)\r$/gm)].map(([, name, value]) => [name, value]),
  );
}

/** @returns {Promise<number>} */
export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
      server.close(() => resolve(port));
    });
  });
}
