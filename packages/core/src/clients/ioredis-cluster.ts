import { ConfigError } from "../errors.ts";
import {
  type ClientDone,
  type ClientState,
  type ClusterClient,
  isRedirection,
  type ScriptClient,
} from "./client.ts";
import { noConnection, prefixed, spreadingPrefix } from "./commands.ts";
import type { IoredisOptions } from "./ioredis.ts";
import { callOn, corked, type IoredisCluster, type IoredisServer, OURS, STATES } from "./ioredis-shape.ts";

const OUR_NODE = { ...OURS, lazyConnect: true };

const OUR_CLUSTER = {
  // A command for a server that is being connected to waits there. The script's own deadline keeps it from being a ghost.
  enableOfflineQueue: true,
  enableAutoPipelining: false,
  lazyConnect: false,
  // It asks for a right that nothing else needs, and leaves all servers when one range of slots has none.
  enableReadyCheck: false,
  scaleReads: "master",
  // While a slot moves, a command of several keys is sent from one server to the other and back. We know when to stop.
  maxRedirections: 4,
  // A command whose connection broke would be sent once more, to another server, though it may have run.
  retryDelayOnFailover: 0,
  retryDelayOnClusterDown: 0,
  retryDelayOnTryAgain: 10,
  slotsRefreshTimeout: 500,
  slotsRefreshInterval: 1000,
  clusterRetryStrategy: (attempt: number) => Math.min(25 * 2 ** Math.min(attempt, 5), 500),
};

/** Who has which slots is asked at most so often, milliseconds. */
const REFRESH_MS = 250;

/**
 * Connections of our own to the Cluster of a client, which stays untouched; or that client itself.
 * Commands go to a server's own connection: the client's router sends once more what broke off on
 * the way, and only what a server refused with MOVED, ASK or TRYAGAIN goes through it.
 *
 * @throws ConfigError when a shared client pipelines by itself: it hands redirections to its callers
 */
export function ioredisCluster(given: IoredisCluster, { share = false }: IoredisOptions = {}): ClusterClient {
  if (share && given.options.enableAutoPipelining) {
    const advice =
      "a Cluster client with enableAutoPipelining hands MOVED to its callers; leave shareConnection out";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "shareConnection", share, advice);
  }
  const keyPrefix = spreadingPrefix("redis.options.keyPrefix", given.options.keyPrefix ?? "");
  const cluster = share ? given : duplicateOf(given);
  const nodes = new Map<string, Node>();
  let changed = () => {};
  let state: ClientState = STATES[cluster.status] ?? "down";
  let trouble: unknown;
  let refreshedAt = -Infinity;

  // As of the last refresh. In between, the library writes one slot's MOVED down for all slots of its range.
  let owners: readonly (string | undefined)[] = [];

  const become = (next: ClientState) => () => {
    state = next;
    if (next === "ready") trouble = undefined;
    learn();
  };
  const listeners: [event: string, listener: (...args: any[]) => void][] = [
    ["ready", become("ready")],
    ["close", become("down")],
    ["refresh", learn],
    ["+node", look],
    ["-node", look],
    ["node error", (error, address) => nodes.get(address)?.failed(error)],
  ];
  // Every failed attempt of a connection of ours. Without a listener it would be logged.
  if (!share) listeners.push(["error", (error) => (trouble = error?.lastNodeError ?? error)]);
  for (const [event, listener] of listeners) cluster.on(event, listener);
  if (state === "ready") learn();
  if (cluster.status === "wait") cluster.connect().catch(() => {});

  /** Servers come, go and change their connection without an event that tells which. */
  function look(): void {
    for (const node of nodes.values()) node.look();
  }

  function learn(): void {
    owners = cluster.slots.map((servers) => servers?.[0]);
    look();
    changed();
  }

  function node(address: string): Node {
    const known = nodes.get(address);
    if (known) return known;
    const made = new Node(cluster, address, share, refresh, () => nodes.delete(address));
    nodes.set(address, made);
    return made;
  }

  function refresh(): void {
    if (state !== "ready" || performance.now() - refreshedAt < REFRESH_MS) return;
    refreshedAt = performance.now();
    cluster.refreshSlotsCache();
  }

  return {
    get state() {
      return state;
    },
    get trouble() {
      return trouble;
    },
    keyPrefix,
    onChange: (listener) => void (changed = listener),
    ownerOf: (slot) => (state === "ready" ? owners[slot] : undefined),
    primaries: () => [...new Set(owners)].filter((address) => address !== undefined),
    node,
    refresh,
    async close() {
      changed = () => {};
      for (const [event, listener] of listeners) cluster.off(event, listener);
      for (const each of nodes.values()) await each.close();
      if (share) return;
      cluster.on("error", () => {});
      cluster.disconnect();
    },
  };
}

/** A Cluster client with the same servers and credentials, and our settings. */
function duplicateOf(cluster: IoredisCluster): IoredisCluster {
  // What stands with a start-up server goes before redisOptions; and ioredis 5 does not merge these.
  const startupNodes = cluster.startupNodes.map((server) =>
    typeof server === "object" && server !== null ? { ...server, ...OUR_NODE } : server,
  );
  const redisOptions = { ...cluster.options.redisOptions, ...OUR_NODE };
  return cluster.duplicate(startupNodes, { ...OUR_CLUSTER, redisOptions }) as IoredisCluster;
}

/** One server of a Cluster. The library gives it a new connection object whenever one ended. */
class Node implements ScriptClient {
  readonly resends: boolean;
  readonly renew: () => void;
  readonly #cluster: IoredisCluster;
  readonly #address: string;
  readonly #closed: () => void;
  #server: IoredisServer | undefined;
  #state: ClientState = "connecting";
  #trouble: unknown;
  #listener: () => void = () => {};

  constructor(
    cluster: IoredisCluster,
    address: string,
    share: boolean,
    refresh: () => void,
    closed: () => void,
  ) {
    this.#cluster = cluster;
    this.#address = address;
    this.resends = share;
    this.renew = refresh;
    this.#closed = closed;
    this.look();
  }

  get state(): ClientState {
    return this.#state;
  }

  get trouble(): unknown {
    return this.#trouble;
  }

  onState(listener: () => void): void {
    this.#listener = listener;
  }

  failed(error: unknown): void {
    this.#trouble = error;
  }

  /** Whether the connection is still the same. */
  look(): void {
    const server = this.#cluster.nodes("all").find(({ options }) => addressOf(options) === this.#address);
    if (server === this.#server) return;
    this.#leave();
    this.#server = server;
    if (!server || (this.#state === "ready" && server.status !== "ready")) this.#become("down");
    if (!server) return;
    server.on("ready", this.#ready);
    server.on("end", this.#down);
    if (server.status === "ready") this.#ready();
    // Its first command would connect it as well; but the first decision is not to wait for that.
    else if (server.status === "wait") server.connect().catch(() => {});
  }

  send(command: string, args: readonly (string | number)[], done: ClientDone): void {
    const server = this.#server;
    if (!server) return done(noConnection(), undefined);
    callOn(server, command, this.#prefixed(command, args, server), (error, reply) => {
      if (!isRedirection(error)) return done(error, reply);
      callOn(this.#cluster, command, args, (error, reply) => done(unwrapped(error), reply, true));
    });
  }

  cork(act: () => void): void {
    corked(this.#server ?? {}, act);
  }

  async close(): Promise<void> {
    this.#listener = () => {};
    this.#leave();
    this.#server = undefined;
    this.#state = "down";
    this.#closed();
  }

  /** The Cluster's own prefix is put before keys by its router only. */
  #prefixed(command: string, args: readonly (string | number)[], server: IoredisServer) {
    const { keyPrefix = "" } = this.#cluster.options;
    return server.options.keyPrefix ? args : prefixed(keyPrefix, command, args);
  }

  readonly #ready = () => {
    this.#trouble = undefined;
    this.#become("ready");
  };

  readonly #down = () => this.#become("down");

  #become(state: ClientState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.#listener();
  }

  #leave(): void {
    this.#server?.off("ready", this.#ready);
    this.#server?.off("end", this.#down);
  }
}

const GIVEN_UP = /^Too many Cluster redirections\. Last error: (?:\w+: )?/;

/** The last error of a router that follows no more, whatever it is. Sent to and fro, a slot is on its way. */
function unwrapped(error: unknown): unknown {
  if (!(error instanceof Error) || !GIVEN_UP.test(error.message)) return error;
  return new Error(error.message.replace(GIVEN_UP, "").replace(/^(MOVED|ASK)\b/, "TRYAGAIN"));
}

/** As `slots` writes it. */
const addressOf = ({ host, port }: IoredisServer["options"]): string => `${host}:${port}`;
