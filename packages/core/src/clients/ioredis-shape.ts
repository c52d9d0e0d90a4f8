/**
 * What is used of ioredis, by its shape: two copies may meet, and iovalkey is made alike. Written
 * down here because none of them needs to be installed.
 */
export interface IoredisLike {
  readonly status: string;
  readonly isCluster: boolean;
  on(event: string, listener: (...args: any[]) => void): unknown;
  off(event: string, listener: (...args: any[]) => void): unknown;
  disconnect(reconnect?: boolean): void;
  connect(): Promise<unknown>;
  call(command: string, args: (string | number)[]): Promise<unknown>;
  duplicate(...overrides: any[]): IoredisLike;
}

/** A connection to one server. */
export interface IoredisServer extends IoredisLike {
  readonly options: { readonly host?: string; readonly port?: number; readonly keyPrefix?: string };
  readonly stream?: { cork?(): void; uncork?(): void; ref?(): void; unref?(): void };
  /** The next attempt to connect, while there is no connection. */
  readonly reconnectTimeout?: NodeJS.Timeout | null;
  /** Where a client of Sentinels listens to them, by names that are the library's own. */
  readonly connector?: {
    readonly failoverDetector?: {
      readonly sentinels?: readonly { readonly client: NodeJS.EventEmitter }[];
    } | null;
  };
}

/** A client of a Cluster. */
export interface IoredisCluster extends IoredisLike {
  readonly options: {
    readonly keyPrefix?: string;
    readonly enableAutoPipelining?: boolean;
    readonly redisOptions?: object;
  };
  readonly startupNodes: readonly unknown[];
  /** By slot: the addresses of its servers, the primary first. */
  readonly slots: readonly (readonly string[] | undefined)[];
  nodes(role: "all"): IoredisServer[];
  refreshSlotsCache(): void;
}

/** Whether a value looks like a client of ioredis or iovalkey. */
export function isIoredis(value: unknown): value is IoredisLike {
  const { duplicate, call, status } = (value ?? {}) as Partial<IoredisLike>;
  return typeof duplicate === "function" && typeof call === "function" && typeof status === "string";
}

export const isIoredisCluster = (client: IoredisLike): client is IoredisCluster => client.isCluster;

/** What a client's `status` means before it was ever ready. */
export const STATES: Readonly<Record<string, "connecting" | "ready">> = {
  wait: "connecting",
  connecting: "connecting",
  connect: "connecting",
  ready: "ready",
};

/** Our own connections: nothing waits for ever, nothing is sent twice. */
export const OURS = {
  maxRetriesPerRequest: 0,
  enableAutoPipelining: false,
  // What an application's client is set to, ours is not.
  stringNumbers: false,
  replyMapping: "legacy",
  // Ours is the only deadline.
  commandTimeout: undefined,
  connectTimeout: 500,
  // Longer than a busy event loop keeps replies waiting unread: that is not the server's silence.
  socketTimeout: 1500,
  keepAlive: 5000,
  // How long a closed connection may still hold the process.
  disconnectTimeout: 100,
} as const;

/** Sends a command and tells how it ended. What a client throws at once is an answer too. */
export function callOn(
  client: IoredisLike,
  command: string,
  args: readonly (string | number)[],
  done: (error: unknown, reply: unknown) => void,
): void {
  client.call(command, args as (string | number)[]).then(
    (reply) => done(undefined, reply),
    (error: unknown) => done(error, undefined),
  );
}

/** Writes everything that is sent within `act` to a server's socket at once, where that can be reached. */
export function corked({ stream }: Pick<IoredisServer, "stream">, act: () => void): void {
  if (typeof stream?.cork !== "function" || typeof stream.uncork !== "function") return act();
  stream.cork();
  act();
  stream.uncork();
}
