import type { Policy } from "../algorithms/policy.ts";
import type { StoreError } from "../errors.ts";

/** One request's question: which policies, under which keys, at which cost. */
export interface Check {
  readonly policies: readonly Policy[];
  /** One per policy. */
  readonly keys: readonly string[];
  /** Units asked of each policy. 0 looks and takes nothing. */
  readonly cost: number;
  /** When whoever asked stops waiting: milliseconds of `performance.now()`. */
  readonly deadline: number;
}

/** What a store answers to a check: the raw state, which the algorithms explain. */
export interface Outcome {
  /** Whether every policy let it pass and all were charged. */
  readonly granted: boolean;
  /** The store's clock, µs. */
  readonly now: number;
  /** Integers of state, policy by policy. */
  readonly words: readonly number[];
}

/** Called once per check, possibly at once. */
export type Done = (error: StoreError | undefined, outcome: Outcome | undefined) => void;

/**
 * Keeps state and decides atomically: for each check, all of its policies are charged or none.
 * Checks of one batch are decided in order, each on its own.
 */
export interface Store {
  decide(batch: readonly Check[], done: readonly Done[]): void;
  /** Lets go of timers and of connections of its own. May be called twice. */
  close(): Promise<void>;
}
