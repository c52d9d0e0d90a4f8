import { ConfigError } from "../errors.ts";
import type { ClientState, ScriptClient } from "./client.ts";
import { noConnection } from "./commands.ts";
import {
  callOn,
  corked,
  type IoredisLike,
  type IoredisServer,
  isIoredisCluster,
  OURS,
  STATES,
} from "./ioredis-shape.ts";
import loadIoredis from "./load-ioredis.cjs";

/** A server that has gone is looked for at most every half second. */
const OUR_SERVER = {
  ...OURS,
  enableOfflineQueue: false,
  // Without it, commands under way when a connection breaks would never settle. Nothing is resent: no retries.
  autoResendUnfulfilledCommands: true,
  lazyConnect: false,
  // Of Sentinels only: a failover that was asked for leaves the old primary taking writes for seconds.
  failoverDetector: true,
  // Were it made again, it would subscribe again by a promise that nobody catches. Our next connection listens anew.
  sentinelReconnectStrategy: () => null,
  retryStrategy: (attempt: number) => Math.min(25 * 2 ** Math.min(attempt, 5), 500) + Math.random() * 50,
};

/** How a client of ioredis or iovalkey is used. */
export interface IoredisOptions {
  /** Uses the client as it is. It is never closed, never changed, and no listener stays. False by default. */
  share?: boolean;
}

/**
 * A connection of our own to `redis`: a URL, or the server of a client that stays untouched; or that
 * client itself.
 *
 * @throws ConfigError when a URL is given and ioredis is not installed, the URL is none, or the
 * client is one of a Cluster: for that there is {@link ioredisCluster}
 */
export function ioredisClient(
  redis: string | IoredisLike,
  { share = false }: IoredisOptions = {},
): ScriptClient {
  if (typeof redis === "string") return ours(fromUrl(redis));
  if (isIoredisCluster(redis)) {
    const advice = "this is a client of a Cluster; give it as redis, or to ioredisCluster";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "redis", redis, advice);
  }
  return share ? theirs(redis as IoredisServer) : ours(redis.duplicate(OUR_SERVER) as IoredisServer);
}

function ours(client: IoredisServer): ScriptClient {
  let trouble: unknown;
  const watched = watch(client, "connecting");
  client.on("ready", () => {
    trouble = undefined;
    hush(client);
  });
  // Every failed attempt is one of these, and `close` follows. Without a listener it would be logged.
  client.on("error", (error) => (trouble = error));
  let underWay = 0;
  // A process that has nothing left to do but this connection may end. What waits for a decision holds it by its timer.
  client.on("connect", () => underWay === 0 && client.stream?.unref?.());
  client.on("reconnecting", () => client.reconnectTimeout?.unref?.());
  return {
    ...watched,
    get state() {
      return watched.state;
    },
    get trouble() {
      return trouble;
    },
    resends: false,
    send(command, args, done) {
      if (underWay++ === 0) client.stream?.ref?.();
      watched.send(command, args, (error, reply) => {
        if (--underWay === 0) client.stream?.unref?.();
        done(error, reply);
      });
    },
    renew: () => client.disconnect(true),
    async close() {
      watched.stop();
      client.disconnect();
    },
  };
}

/** Connections to Sentinels have no listener of the library's own, and an error of theirs would be logged. */
function hush({ connector }: IoredisServer): void {
  for (const { client } of connector?.failoverDetector?.sentinels ?? [])
    if (client.listenerCount("error") === 0) client.on("error", () => {});
}

function theirs(client: IoredisServer): ScriptClient {
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
    send(command, args, done) {
      // It would wait in the client's own queue, for as long as that likes.
      if (watched.state === "ready") watched.send(command, args, done);
      else done(noConnection(), undefined);
    },
    async close() {
      watched.stop();
    },
  };
}

/** What both kinds have in common. Listeners go when it stops. */
function watch(client: IoredisServer, initial: ClientState) {
  let state = initial;
  let listener: () => void = () => {};
  const become = (next: ClientState) => () => {
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
    send: ((command, args, done) => callOn(client, command, args, done)) satisfies ScriptClient["send"],
    cork: (act: () => void) => corked(client, act),
    stop() {
      listener = () => {};
      client.off("ready", ready);
      client.off("close", down);
    },
  };
}

function fromUrl(url: string): IoredisServer {
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
      "a URL needs the package ioredis: npm install ioredis; or give a client of another library",
    );
  }
  return new ioredis.Redis(url, OUR_SERVER);
}

/** Whatever stands before the last `@` may be a password, also in what is no URL. */
const withoutPassword = (url: string): string => url.replace(/^([a-z]*:?(?:\/\/)?).*@/i, "$1…@");
