/**
 * How one command travels through a client library. An implementation never changes the client it
 * is given, never retries, never queues while there is no connection, and leaves no listener
 * behind after `close`.
 */
export interface ScriptClient {
  /**
   * - `ready`: a command sent now goes out at once
   * - `connecting`: for the first time, and it is not known yet how that ends
   * - `down`: there is no connection; the client looks for one by itself
   */
  readonly state: "ready" | "connecting" | "down";
  /** Why there is no connection, as the library says it; `undefined` when it did not say. Never shown: it may quote anything. */
  readonly trouble: unknown;
  /** Called at every change of `state`. One listener. */
  onState(listener: () => void): void;
  /** Sends a command. `done` is called once, when the answer came or the connection broke. */
  send(command: ClientCommand, args: readonly (string | number)[], done: ClientDone): void;
  /** Whether a command may be sent a second time when a connection breaks. */
  readonly resends?: boolean;
  /** Leaves this connection for another, as it leads to a server that takes no writes. Missing where the connection is not ours. */
  renew?(): void;
  /** Closes the connection if it is ours. May be called twice. */
  close(): Promise<void>;
}

export type ClientCommand = "evalsha" | "eval" | "script" | "info";

export type ClientDone = (error: unknown, reply: unknown) => void;
