/**
 * How one command travels through a client library, to one server. An implementation never changes
 * the client it is given, never retries, never queues while there is no connection, and leaves no
 * listener behind after `close`.
 */
export interface ScriptClient {
  /**
   * - `ready`: a command sent now goes out at once
   * - `connecting`: for the first time, and it is not known yet how that ends
   * - `down`: there is no connection; the client looks for one by itself
   */
  readonly state: ClientState;
  /** Why there is no connection, as the library says it; `undefined` when it did not say. Never shown: it may quote anything. */
  readonly trouble: unknown;
  /** Called at every change of `state`. One listener. */
  onState(listener: () => void): void;
  /**
   * Sends a command: its name, and its arguments as Redis takes them. `done` is called once, when the answer came or
   * the connection broke.
   */
  send(command: string, args: readonly (string | number)[], done: ClientDone): void;
  /** Whether a command may be sent a second time when a connection breaks. */
  readonly resends?: boolean;
  /** Leaves this connection for another, as it leads to a server that takes no writes. Missing where the connection is not ours. */
  renew?(): void;
  /** Writes what is sent within `act` at once. Missing where the library gives no way to. */
  cork?(act: () => void): void;
  /** Closes the connection if it is ours. May be called twice. */
  close(): Promise<void>;
}

/** How the servers of a Cluster are reached. The same rules as for {@link ScriptClient} hold. */
export interface ClusterClient {
  /** `ready`: it is known which server has which slots. */
  readonly state: ClientState;
  /**
   * Why there is no connection, as the library says it; `undefined` when it did not say. Never shown: it may quote
   * anything.
   */
  readonly trouble: unknown;
  /** Called when `state` changed, or which servers there are, or which of them has a slot. One listener. */
  onChange(listener: () => void): void;
  /** The address of the primary that has a slot; `undefined` when nobody is known to. */
  ownerOf(slot: number): string | undefined;
  /** The addresses of all primaries that have slots. */
  primaries(): readonly string[];
  /**
   * A server's client. What the server says belongs elsewhere (MOVED, ASK, TRYAGAIN) is sent on to there. Made once for
   * an address, and closed when it is no primary's any more.
   */
  node(address: string): ScriptClient;
  /** Begins every key on the server, and so chooses slots as well. Mostly empty. */
  readonly keyPrefix: string;
  /** Finds out anew who has which slots. May be called often. */
  refresh(): void;
  /** Closes the connections if they are ours. May be called twice. */
  close(): Promise<void>;
}

/** How a connection stands. {@link ScriptClient.state} says what each means. */
export type ClientState = "ready" | "connecting" | "down";

/**
 * How a command ended: with an error, or with what Redis replied.
 *
 * @param elsewhere whether another server answered than the one that was asked first
 */
export type ClientDone = (error: unknown, reply: unknown, elsewhere?: boolean) => void;

/** Whether a server's error says that another one is to be asked. Nothing was executed. */
export const isRedirection = (error: unknown): boolean =>
  error instanceof Error && /^(MOVED|ASK|TRYAGAIN)\b/.test(error.message);
