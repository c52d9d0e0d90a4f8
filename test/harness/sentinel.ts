/** A primary, two replicas and sentinels of the test's own, on loopback. */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { eventually } from "./eventually.ts";
import { freePort, type RedisServer, type StartOptions, startRedis } from "./redis.ts";
import { serverOf } from "./servers.ts";

export interface SentinelOptions extends Omit<StartOptions, "port"> {
  sentinels?: number;
  /** After so long without a word from the primary, a sentinel holds it for down. */
  downAfterMs?: number;
}

export interface TestSentinel {
  readonly sentinels: readonly { host: string; port: number }[];
  /** By which the sentinels know the primary. */
  readonly name: string;
  /** The servers of data. The first was the primary when they started. */
  readonly servers: readonly RedisServer[];
  /** Who the most sentinels say it is now. */
  primary(): Promise<RedisServer>;
  /** Waits until all sentinels name another server than this one, and that takes writes. Gives that server. */
  failedOver(from: RedisServer): Promise<RedisServer>;
  stop(): Promise<void>;
}

/** The text of a sentinel's configuration. */
type ConfigOf = (port: number, dir: string) => string;

interface Watchman {
  readonly port: number;
  readonly client: Redis;
  stop(): Promise<void>;
}

const HOST = "127.0.0.1";
const NAME = "tidegate-test";
const REPLICAS = 2;

/** Sentinels look around every second, and one that was kept waiting for long looks on for a while before it acts. */
const PATIENCE_MS = 60_000;

export async function startSentinel({
  sentinels = 3,
  downAfterMs = 1000,
  args = [],
  ...options
}: SentinelOptions = {}): Promise<TestSentinel> {
  const servers: RedisServer[] = [];
  const watchmen: Watchman[] = [];
  const stop = async () => {
    await Promise.all([...watchmen, ...servers].map((each) => each.stop()));
  };

  async function build(): Promise<void> {
    const more = [...args, "--repl-diskless-sync-delay", "0"];
    const first = await startRedis({ ...options, args: more });
    servers.push(first);
    const following = [...more, "--replicaof", HOST, String(first.port)];
    const replicas = Array.from({ length: REPLICAS }, () => startRedis({ ...options, args: following }));
    servers.push(...(await Promise.all(replicas)));
    const config = configOf(first, Math.floor(sentinels / 2) + 1, downAfterMs);
    const program = options.server ? serverOf(options.server).command : ["redis-server"];
    const others = Array.from({ length: sentinels }, () => startWatchman(program, config));
    watchmen.push(...(await Promise.all(others)));
    const ready = async () => (await Promise.all(watchmen.map(isOnWatch))).every(Boolean);
    await eventually("the sentinels know the replicas and each other", ready, PATIENCE_MS);
  }

  const isOnWatch = async ({ client }: Watchman): Promise<boolean> => {
    const told = (await client.call("SENTINEL", "MASTER", NAME)) as string[];
    const field = (name: string) => told[told.indexOf(name) + 1];
    const seen = [field("flags"), field("num-slaves"), field("num-other-sentinels")];
    return String(seen) === String(["master", REPLICAS, sentinels - 1]);
  };

  /** Whom each sentinel names. */
  const named = () =>
    Promise.all(
      watchmen.map(async ({ client }) => {
        const told = await client.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME);
        return Number((told as string[])[1]);
      }),
    );

  const atPort = (port: number): RedisServer => {
    const server = servers.find((one) => one.port === port);
    if (!server) throw new Error(`the sentinels name port ${port}, where none of our servers is`);
    return server;
  };

  try {
    await build();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    sentinels: watchmen.map(({ port }) => ({ host: HOST, port })),
    name: NAME,
    servers,
    async primary() {
      const ports = await named();
      const votes = (port: number) => ports.filter((one) => one === port).length;
      return atPort(ports.toSorted((a, b) => votes(b) - votes(a))[0]!);
    },
    async failedOver(from) {
      let heir: RedisServer | undefined;
      await eventually(
        `the sentinels name another server than port ${from.port}`,
        async () => {
          const [port, ...rest] = new Set(await named());
          if (port === from.port || rest.length > 0) return false;
          heir = atPort(port!);
          return (await heir.client.info("replication")).includes("role:master");
        },
        PATIENCE_MS,
      );
      return heir!;
    },
    stop,
  };
}

const configOf =
  (primary: RedisServer, quorum: number, downAfterMs: number): ConfigOf =>
  (port, dir) =>
    [
      `port ${port}`,
      `bind ${HOST}`,
      `dir ${dir}`,
      `sentinel monitor ${NAME} ${HOST} ${primary.port} ${quorum}`,
      `sentinel down-after-milliseconds ${NAME} ${downAfterMs}`,
      `sentinel failover-timeout ${NAME} ${3 * downAfterMs}`,
      `sentinel parallel-syncs ${NAME} 1`,
    ].join("\n");

/** Starts one and waits until it answers. */
async function startWatchman(program: readonly string[], configOf: ConfigOf): Promise<Watchman> {
  for (let tries = 5; ; tries--) {
    const id = randomBytes(20).toString("hex");
    const config: ConfigOf = (port, dir) => `${configOf(port, dir)}\nsentinel myid ${id}`;
    const watchman = spawnWatchman(program, await freePort(), config);
    try {
      const answers = async () => (await watchman.client.call("SENTINEL", "MYID")) === id;
      await eventually(`the sentinel on port ${watchman.port} answers`, answers);
      return watchman;
    } catch (error) {
      await watchman.stop();
      if (tries <= 1) throw error; // Otherwise somebody took the port that was free.
    }
  }
}

/** It dies with this process, like every server: the shell ends it when our end of the pipe is gone. */
const TOGETHER = '"$@" & read -r _; kill -9 $!';

function spawnWatchman(program: readonly string[], port: number, configOf: ConfigOf): Watchman {
  const dir = mkdtempSync(join(tmpdir(), "tidegate-sentinel-"));
  const file = join(dir, "sentinel.conf");
  writeFileSync(file, configOf(port, dir));
  const shell = spawn("sh", ["-c", TOGETHER, "sh", ...program, file, "--sentinel"], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true, // Ctrl-C is for us; they go after.
  });
  const gone = new Promise<void>((resolve) => shell.once("exit", () => resolve()));
  const client = new Redis(port, HOST);
  client.on("error", () => {});
  return {
    port,
    client,
    async stop() {
      client.disconnect();
      shell.stdin.end();
      await gone;
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
