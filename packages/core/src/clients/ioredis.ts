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
  // What an application's client is set to, ours is not.
  stringNumbers: false,
  replyMapping: "legacy",
  lazyConnect: false,
  connectTimeout: 500,
  // Longer than a busy event loop keeps replies waiting unread: that is not the server's silence.
  socketTimeout: 1500,
  keepAlive: 5000,
  // How long a closed connection may still hold the process.
  disconnectTimeout: 100,
  retryStrategy: (attempt: number) => Math.min(25 * 2 ** Math.min(attempt, 5), 500) + Math.random() * 50,
} satisfies RedisOptions;

/** Ours is the only deadline. */
const NOT_THEIRS = { commandTimeout: undefined } as RedisOptions;

export interface IoredisOptions {
  /** Uses the client as it is. It is never closed, never changed, and no listener stays. False by default. */
  share?: boolean;
}

/** Whether a value looks like an ioredis client: by its shape, as two copies of ioredis may meet. */
export function isIoredis(value: unknown): value is Redis {
  const { duplicate, evalsha, status } = (value ?? {}) as Partial<Redis>;
  return typeof duplicate === "function" && typeof evalsha === "function" && typeof status === "string";
}

/**
 * A connection of our own to `redis`: a URL, or the server of a client that stays untouched; or that
 * client itself.
 *
 * @throws ConfigError when a URL is given and ioredis is not installed, the URL is none, or the
 * client is one of a Cluster
 */
export function ioredisClient(redis: string | Redis, { share = false }: IoredisOptions = {}): ScriptClient {
  if (typeof redis !== "string" && redis.isCluster) {
    throw new ConfigError(
      "TIDEGATE_OPTION_NOT_YET",
      "redis",
      redis,
      "this version does not speak to a Cluster; give a client of a single server",
    );
  }
  if (typeof redis === "string") return ours(fromUrl(redis));
  return share ? theirs(redis) : ours(redis.duplicate({ ...OURS, ...NOT_THEIRS }));
}

function ours(client: Redis): ScriptClient {
  let trouble: unknown;
  const watched = watch(client, "connecting");
  client.on("ready", () => (trouble = undefined));
  // Every failed attempt is one of these, and `close` follows. Without a listener it would be logged.
  client.on("error", (error) => (trouble = error));
  return {
    ...watched,
    get state() {
      return watched.state;
    },
    get trouble() {
      return trouble;
    },
    resends: false,
    renew: () => client.disconnect(true),
    async close() {
      watched.stop();
      client.disconnect();
    },
  };
}

function theirs(client: Redis): ScriptClient {
  const watched = watch(client, STATES[client.status] ?? "down");
  // Whoever asked for a lazy connection has one now that it is needed. Its failure is told by `close`.
  if (client.status === "wait") client.connect().catch(() => {});
  return {
    ...watched,
    get state() {
      return watched.state;
    },
    trouble: undefined,
    resends: true,
    async close() {
      watched.stop();
    },
  };
}

const STATES: Readonly<Record<string, ScriptClient["state"]>> = {
  wait: "connecting",
  connecting: "connecting",
  connect: "connecting",
  ready: "ready",
};

/** What both kinds have in common. Listeners go when it stops. */
function watch(client: Redis, initial: ScriptClient["state"]) {
  let state = initial;
  let listener: () => void = () => {};
  const become = (next: ScriptClient["state"]) => () => {
    state = next;
    listener();
  };
  const [ready, down] = [become("ready"), become("down")];
  client.on("ready", ready);
  client.on("close", down);
  return {
    get state() {
      return state;
    },
    onState: (given: () => void) => void (listener = given),
    send: ((command, args, done) => {
      const sent: Promise<unknown> = client.call(command, args as (string | number)[]);
      sent.then(
        (reply: unknown) => done(undefined, reply),
        (error: unknown) => done(error, undefined),
      );
    }) as ScriptClient["send"],
    stop() {
      listener = () => {};
      client.off("ready", ready);
      client.off("close", down);
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

/** Whatever stands before the last `@` may be a password, also in what is no URL. */
const withoutPassword = (url: string): string => url.replace(/^([a-z]*:?(?:\/\/)?).*@/i, "$1…@");
