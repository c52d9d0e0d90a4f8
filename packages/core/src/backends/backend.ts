import type { StoreError } from "../errors.ts";
import type { Timely } from "../failure/deadline.ts";
import type { Changed, Check, Move } from "../stores/store.ts";

/**
 * Where a limiter's questions go: one store, or the servers of a Cluster, each behind a deadline and
 * a breaker of its own.
 */
export interface Backend extends Timely {
  /** Whether something is not asked any more, but looked at in the background. */
  readonly isOpen: boolean;
  /** Whether everything can be asked, as far as that is known without asking. */
  readonly isConnected: boolean;
  settle(moves: readonly Move[], done: Changed): void;
  forget(keys: readonly string[], done: Changed): void;
  revoke(nonces: readonly string[], done: Changed): void;
  block(key: string, ms: number, reason: string, done: Changed): void;
  /** Has somebody told of keys that it gave units back to by itself, both when that is sent and when it is done. One listener. */
  onGiveBack?(listener: (keys: readonly string[]) => void): void;
  /** Looks at nothing in the background any more. What comes is still carried out. */
  stop(): void;
  /** Lets go of timers and of connections of its own. May be called twice. */
  close(): Promise<void>;
}

export interface BackendOptions {
  /** How long a store has to answer when it is looked at. */
  readonly timeoutMs: number;
  readonly watcher: Watcher;
  /** Whether the questions of one turn go together. */
  readonly coalesces: boolean;
  /** Whether somebody else closes the store. */
  readonly keepsStore?: boolean;
}

/** One of the servers of a Cluster. */
export interface ServerOptions {
  readonly address: string;
  /** Only checks of one slot may go together. */
  readonly slotOf: (check: Check) => number;
}

/** Told of everything that says how a server does. `server`: its address, where there are several. */
export interface Watcher {
  /** It answered; or nobody asks it any more, as it has left. */
  answered(server: string | undefined): void;
  failed(error: StoreError, server: string | undefined): void;
  /** So many decisions went out in one call. */
  readonly asked: (decisions: number) => void;
  /** Its breaker opened or closed. */
  breaker(isOpen: boolean): void;
}
