/** A real Redis server of the test's own, on loopback, in no way connected with any other. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { type ServerName, serverOf } from "./servers.ts";

export interface StartOptions {
  /** Which server. By default the system's own `redis-server`, whatever its version. */
  server?: ServerName;
  /** A free one by default. */
  port?: number;
  /** More of what `redis-server` takes, for example `["--requirepass", "secret"]`. */
  args?: readonly string[];
}

export interface RedisServer {
  readonly url: string;
  readonly port: number;
  /** For the test's own looking: ioredis as it comes. */
  readonly client: Redis;
  /** Ends the server and lets go of everything. May be called twice. */
  stop(): Promise<void>;
  /** The server keeps its connections and answers nothing, until `resume`. */
  pause(): void;
  resume(): void;
  /** The server is gone at once, without a word to its clients. */
  kill(): Promise<void>;
}

/** Starts a server and waits until it answers. It dies with this process, however that ends. */
export async function startRedis({ server, port, args = [] }: StartOptions = {}): Promise<RedisServer> {
  const command = server ? serverOf(server).command : ["redis-server"];
  for (let tries = port === undefined ? 5 : 1; ; tries--) {
    try {
      return await start(command, port ?? (await freePort()), args);
    } catch (error) {
      if (tries <= 1) throw error; // Otherwise somebody took the port that was free.
    }
  }
}

/** A Cluster of one server that owns every slot: it refuses a key of another slot even on itself. */
export async function startCluster(): Promise<RedisServer> {
  const server = await startRedis({ args: ["--cluster-enabled", "yes"] });
  await server.client.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383);
  const isUp = async () => /cluster_state:ok/.test(String(await server.client.call("CLUSTER", "INFO")));
  for (let tries = 0; !(await isUp()); tries++) {
    if (tries > 500) throw new Error("the Cluster of one server does not come up");
    await sleep(10);
  }
  return server;
}

async function start(
  [program = "", ...before]: readonly string[],
  port: number,
  args: readonly string[],
): Promise<RedisServer> {
  const dir = mkdtempSync(join(tmpdir(), "tidegate-redis-"));
  const fixed = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir];
  const server = spawn(program, [...before, ...fixed.map(String), ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  for (const stream of [server.stdout, server.stderr])
    stream.on("data", (chunk) => (said = `${said}${chunk}`.slice(-2000)));
  const gone = new Promise<void>((resolve) => {
    server.once("exit", () => resolve());
    server.once("error", (error) => {
      said += error.message;
      resolve();
    });
  });
  const guard = endWithUs(server);

  const kill = async () => {
    server.kill("SIGKILL");
    await gone;
    guard?.kill("SIGKILL");
  };
  const ready = await Promise.race([answers(port), gone.then(() => false)]);
  if (!ready) {
    await kill();
    rmSync(dir, { recursive: true, force: true });
    throw new Error(`${before.at(-1) ?? program} on port ${port} did not start: ${said}`);
  }

  const client = new Redis(port, "127.0.0.1");
  client.on("error", () => {}); // A test that kills the server knows.
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    client,
    kill,
    pause: () => void server.kill("SIGSTOP"),
    resume: () => void server.kill("SIGCONT"),
    async stop() {
      client.disconnect();
      await kill();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** A shell that waits for our end, also by SIGKILL, and then ends the server. */
function endWithUs(server: ChildProcess): ChildProcess | undefined {
  if (server.pid === undefined) return undefined;
  const guard = spawn("sh", ["-c", `read -r _; kill -9 ${server.pid}`], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true, // Ctrl-C is for us; the guard goes after.
  });
  guard.on("error", () => {});
  guard.stdin.on("error", () => {});
  guard.unref();
  (guard.stdin as unknown as { unref(): void }).unref();
  return guard;
}

/** Whether the server says anything to PING, be it that it wants a password. */
async function answers(port: number): Promise<boolean> {
  for (let tries = 0; tries < 500; tries++) {
    const said = await new Promise<boolean>((resolve) => {
      const socket = connect(port, "127.0.0.1", () => socket.write("PING\r\n"));
      socket.once("data", () => resolve(true));
      socket.once("error", () => resolve(false));
      socket.setTimeout(1000, () => resolve(false));
      socket.once("data", () => socket.destroy());
      socket.once("timeout", () => socket.destroy());
    });
    if (said) return true;
    await sleep(10);
  }
  return false;
}

/** A port on which nobody listens: nothing keeps others from taking it. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}
