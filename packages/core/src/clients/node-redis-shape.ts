import type { ClientDone, ScriptClient } from "./client.ts";
import { noConnection, spreadingPrefix } from "./commands.ts";

/**
 * What is used of `redis` (node-redis) 5 and 6, by its shape: it need not be installed, and two
 * copies may meet.
 */
export interface NodeRedisLike {
  /** Whether somebody has called `connect`, and nobody has closed it since. */
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly options?: NodeRedisSettings | undefined;
  on(event: string, listener: (...args: any[]) => void): unknown;
  off(event: string, listener: (...args: any[]) => void): unknown;
  connect(): Promise<unknown>;
  destroy(): void;
  sendCommand(args: readonly string[], options?: any): Promise<unknown>;
  duplicate(...overrides: any[]): any;
}

/** A client of a Cluster. */
export interface NodeRedisCluster {
  readonly isOpen: boolean;
  /** By slot. Another list whenever the servers were asked. */
  readonly slots: readonly ({ readonly master: NodeRedisServer } | undefined)[];
  /** The primaries. */
  readonly masters: readonly NodeRedisServer[];
  /** By the address that the Cluster knows a server by. */
  readonly nodeByAddress: ReadonlyMap<string, NodeRedisServer>;
  readonly _options: NodeRedisClusterSettings;
  /** Written down nowhere. */
  readonly _slots?: { rediscover?(startWith: any): Promise<unknown> };
  on(event: string, listener: (...args: any[]) => void): unknown;
  off(event: string, listener: (...args: any[]) => void): unknown;
  connect(): Promise<unknown>;
  destroy(): void;
  nodeClient(server: any): Promise<unknown>;
  sendCommand(firstKey: any, isReadonly: boolean, args: any, options?: any): Promise<unknown>;
  duplicate(...overrides: any[]): any;
}

/** A server of a Cluster, and the client that leads to it, once there is one. */
export interface NodeRedisServer {
  readonly address: string;
  readonly client?: NodeRedisLike | undefined;
  readonly connectPromise?: Promise<unknown> | undefined;
}

/** What is used of the settings of such a client. */
export interface NodeRedisSettings {
  readonly url?: string;
  readonly socket?: object;
  /** Since 6. The library puts it before keys of its own methods only. */
  readonly keyPrefix?: string | Uint8Array;
}

/** What is used of the settings of a client of a Cluster. */
export interface NodeRedisClusterSettings {
  readonly rootNodes: readonly NodeRedisSettings[];
  readonly defaults?: NodeRedisSettings;
  readonly keyPrefix?: string | Uint8Array;
}

/** Whether a value looks like a client of node-redis 5 or 6 for one server. */
export const isNodeRedis = (value: unknown): value is NodeRedisLike =>
  has(value, "sendCommand", "duplicate", "connect", "destroy") &&
  typeof (value as NodeRedisLike).isReady === "boolean" &&
  !isNodeRedisCluster(value) &&
  !isNodeRedisSentinel(value);

/** Whether a value looks like one for a Cluster. */
export const isNodeRedisCluster = (value: unknown): value is NodeRedisCluster =>
  has(value, "sendCommand", "duplicate", "connect", "destroy", "nodeClient") &&
  // Before 5.1 its settings are out of reach.
  typeof (value as Partial<NodeRedisCluster>)._options === "object";

export const isNodeRedisSentinel = (value: unknown): boolean => has(value, "sendCommand", "getSentinelNode");

export const isNodeRedisPool = (value: unknown): boolean =>
  has(value, "sendCommand", "execute") &&
  typeof (value as { totalClients?: unknown }).totalClients === "number";

const has = (value: unknown, ...functions: string[]): boolean =>
  typeof value === "object" &&
  value !== null &&
  functions.every((name) => typeof (value as Record<string, unknown>)[name] === "function");

/** A server that has gone is looked for at most every half second, and without end. */
const reconnectStrategy = (attempt: number) => Math.min(25 * 2 ** Math.min(attempt, 5), 500);

const OUR_SOCKET = {
  connectTimeout: 500,
  // It would also close a connection that nobody uses. What takes too long is looked after by us.
  socketTimeout: undefined,
  noDelay: true,
  keepAlive: true,
  keepAliveInitialDelay: 5000,
  reconnectStrategy,
};

/** Our own connections: nothing waits for ever, nothing is queued, and replies come as Redis gives them. */
const OURS = {
  disableOfflineQueue: true,
  commandsQueueMaxLength: undefined,
  // Ours is the only deadline; and 6 makes a timer for every command.
  commandOptions: { timeout: undefined },
  // A connection that breaks empties it.
  clientSideCache: undefined,
  emitInvalidate: false,
  maintNotifications: "disabled",
  readonly: false,
};

/** Our settings over an application's. */
export const oursOver = (settings: NodeRedisSettings | undefined) => ({
  ...settings,
  ...OURS,
  socket: { ...settings?.socket, ...OUR_SOCKET },
});

/** For commands on an application's client: what it makes of replies is its own affair. */
export const PLAIN = { typeMapping: {}, timeout: undefined, abortSignal: undefined };

/** What the library says of a connection that has gone, in words which no other library uses. */
const GONE = /^(Disconnects client|The client is (closed|offline)|The command was aborted)$/;

/** The library takes strings only. */
export const written = (command: string, args: readonly (string | number)[]): string[] => [
  command,
  ...args.map(String),
];

/**
 * Tells how a command ended. There is no corking: the library writes all commands of one turn of the
 * event loop to the socket at once.
 */
export function tellOf(promise: Promise<unknown>, done: ClientDone, elsewhere?: boolean): void {
  promise.then(
    (reply) => done(undefined, reply, elsewhere),
    (error: unknown) =>
      done(error instanceof Error && GONE.test(error.message) ? noConnection() : error, undefined, elsewhere),
  );
}

export const prefixOf = ({ keyPrefix = "" }: { readonly keyPrefix?: string | Uint8Array }): string =>
  typeof keyPrefix === "string" ? keyPrefix : Buffer.from(keyPrefix).toString();

/** @throws ConfigError when it has braces: they would choose one slot for every key */
export const clusterPrefixOf = ({ _options }: NodeRedisCluster): string =>
  spreadingPrefix("redis.keyPrefix", prefixOf(_options));

/** Whose address each slot's primary has, as far as somebody has the slot. */
export type Owners = readonly (string | undefined)[];

export const ownersOf = ({ slots }: NodeRedisCluster): Owners =>
  Array.from(slots, (shard) => shard?.master.address);

const SLOTS = 16384;

/** The same out of a server's answer to CLUSTER SLOTS: runs of slots, each with its servers, the primary first. */
function ownersIn(reply: unknown): Owners {
  const owners = Array.from<string | undefined>({ length: SLOTS });
  for (const [first, last, [host, port]] of reply as [number, number, [string, number]][])
    owners.fill(`${host}:${port}`, first, last + 1);
  return owners;
}

export const areSame = (some: Owners, others: Owners): boolean =>
  some.length === others.length && some.every((address, slot) => address === others[slot]);

export const primariesIn = (owners: Owners): string[] =>
  [...new Set(owners)].filter((address) => address !== undefined);

/** How long a server may take to tell who has which slots, milliseconds. */
const TELL_MS = 500;

/** Asks a server who has which slots; `undefined` when it does not say. */
export function ownersBy(client: Pick<ScriptClient, "send">): Promise<Owners | undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), TELL_MS);
    client.send("cluster", ["SLOTS"], (error, reply) => {
      clearTimeout(timer);
      resolve(error ? undefined : ownersIn(reply));
    });
  });
}
