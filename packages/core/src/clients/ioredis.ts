import type { Redis, RedisOptions } from "ioredis";
import { ConfigError } from "../errors.ts";
import type { ScriptClient } from "./client.ts";
import loadIoredis from "./load-ioredis.cjs";

/**
 * Our own connection: nothing waits in a queue, nothing is sent twice, and a server that has gone
 * is looked for at most every half second.
 */
const OURS = {
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  // Without it, commands under way when a connection breaks would never settle. Nothing is resent: no retries.
  autoResendUnfulfilledCommands: true,
  enableAutoPipelining: false,
  lazyConnect: false,
  connectTimeout: 500,
  // Longer than a busy event loop keeps replies waiting unread: that is not the server's silence.
  socketTimeout: 1500,
  keepAlive: 5000,
  // How long a closed connection may still hold the process.
  disconnectTimeout: 100,
  retryStrategy: (attempt: number) => Math.min(25 * 2 ** Math.min(attempt, 5), 500) + Math.random() * 50,
} satisfies RedisOptions;

/** Whether a value looks like an ioredis client: by its shape, as two copies of ioredis may meet. */
export function isIoredis(value: unknown): value is Redis {
  const { duplicate, evalsha, status } = (value ?? {}) as Partial<Redis>;
  return typeof duplicate === "function" && typeof evalsha === "function" && typeof status === "string";
}

/**
 * A connection of our own to `redis`: a URL, or the server of a client that stays untouched.
 *
 * @throws ConfigError when a URL is given and ioredis is not installed, the URL is none, or the
 * client is one of a Cluster
 */
export function ioredisClient(redis: string | Redis): ScriptClient {
  if (typeof redis !== "string" && redis.isCluster) {
    throw new ConfigError(
      "TIDEGATE_OPTION_NOT_YET",
      "redis",
      redis,
      "this version does not speak to a Cluster; give a client of a single server",
    );
  }
  const client = typeof redis === "string" ? fromUrl(redis) : redis.duplicate(OURS);
  let state: ScriptClient["state"] = "connecting";
  let listener: () => void = () => {};
  const become = (next: ScriptClient["state"]) => {
    state = next;
    listener();
  };
  let trouble: unknown;
  client.on("ready", () => {
    trouble = undefined;
    become("ready");
  });
  client.on("close", () => become("down"));
  // Every failed attempt is one of these, and `close` follows. Without a listener it would be logged.
  client.on("error", (error) => (trouble = error));

  return {
    get state() {
      return state;
    },
    get trouble() {
      return trouble;
    },
    onState: (given) => (listener = given),
    send(command, args, done) {
      const sent: Promise<unknown> = client.call(command, args as (string | number)[]);
      sent.then(
        (reply: unknown) => done(undefined, reply),
        (error: unknown) => done(error, undefined),
      );
    },
    async close() {
      listener = () => {};
      client.disconnect();
    },
  };
}

function fromUrl(url: string): Redis {
  if (!/^(rediss?|unix):\/\//.test(url)) {
    throw new ConfigError(
      "TIDEGATE_OPTION_INVALID",
      "redis",
      withoutPassword(url),
      "give a URL such as redis://localhost:6379, or a client",
    );
  }
  const ioredis = loadIoredis();
  if (!ioredis) {
    throw new ConfigError(
      "TIDEGATE_CLIENT_MISSING",
      "redis",
      withoutPassword(url),
      "a URL needs the package ioredis: npm install ioredis",
    );
  }
  return new ioredis.Redis(url, OURS);
}

const withoutPassword = (url: string): string => url.replace(/\/\/[^@/]*@/, "//…@");
