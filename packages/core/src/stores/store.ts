import type { Policy } from "../algorithms/policy.ts";
import type { StoreError } from "../errors.ts";

/** One request's question: which policies, under which keys, at which cost. */
export interface Check {
  /** The policies, in the order of the configuration. */
  readonly policies: readonly Policy[];
  /** One per policy. */
  readonly keys: readonly string[];
  /** Units asked of each policy. 0 looks and takes nothing. */
  readonly costs: readonly number[];
  /** When whoever asked stops waiting: milliseconds of `performance.now()`. */
  readonly deadline: number;
  /** Whether requests choose the numbers of some of the policies. */
  readonly varies?: boolean;
  /** Judge, and write nothing. */
  readonly peek: boolean;
  /** Ask, whatever is remembered: units come back as a rule. */
  readonly fresh?: boolean;
  /** Keys under which the identities may be blocked. */
  readonly blocks: readonly string[];
  /** The id of the leases that concurrency policies take; `undefined` when there is none. */
  readonly lease: string | undefined;
  /** Asked so many times at once, and granted as often as there is room. 1 where it is missing. */
  readonly times?: number;
  /** Under which key the grant is kept, and for how long (ms), to answer the same question again. */
  readonly nonce: Nonce | undefined;
}

export interface Nonce {
  readonly key: string;
  readonly keepMs: number;
  /** Whether it is of one command that a client may send again, and not of a question that a user may ask again. */
  readonly resent?: boolean;
}

/** What a store answers to a check: the raw state, which the algorithms explain. */
export interface Outcome {
  /** Whether every enforced policy let it pass; then all were charged. */
  readonly granted: boolean;
  /** How often it was granted, of a check that asks several times; `words` are of after the last. */
  readonly times?: number;
  /** The store's clock, µs: of the decision, or of the one that is replayed. */
  readonly now: number;
  /** The clock of each policy, µs, where several servers decided. */
  readonly nows?: readonly number[];
  /** Which of the check's policies `words` tell of, counted from 0; `undefined`: all. */
  readonly places?: readonly number[] | undefined;
  /** Integers of state, policy by policy. */
  readonly words: readonly number[];
  /** Set when an identity is blocked: µs left, or `Infinity`. Then `words` mean nothing. */
  readonly blockedUs: number | undefined;
  /** Whether an earlier refusal was remembered, and nobody asked. */
  readonly cached?: boolean;
  /** Whether this is the answer to an earlier check with the same nonce. */
  readonly replayed: boolean;
}

/** What comes after a decision, for one key. */
export interface Move {
  /**
   * - `credit`: units of an earlier charge come back
   * - `debit`: more is charged, room or not
   * - `renew`: leases last from now on
   */
  readonly kind: "credit" | "debit" | "renew";
  /** The policy that was charged. */
  readonly policy: Policy;
  /** Its key. */
  readonly key: string;
  /** Units that are moved; of `renew`, those in flight. */
  readonly units: number;
  /** Where the charge went, from its receipt: an integer whose meaning is the algorithm's. */
  readonly mark: number;
  /** The id of the leases that were taken; `undefined` where the policy has none. */
  readonly lease: string | undefined;
}

/** Called once per check, possibly at once. */
export type Done = (error: StoreError | undefined, outcome: Outcome | undefined) => void;

/** How many keys or units something changed. */
export type Changed = (error: StoreError | undefined, changed: number) => void;

/**
 * Keeps state and decides atomically: for each check, all of its policies are charged or none.
 * Checks of one batch are decided in order, each on its own.
 */
export interface Store {
  /** Its clock, whole µs, where that is not the time that passes here: what a process counts by itself goes by it too. */
  readonly nowUs?: (() => number) | undefined;
  /** Whether several checks at once cost less than one after the other: a store that is somewhere else. */
  readonly batches?: boolean;
  /** Whether it can be asked, as far as that is known without asking. Missing: always. */
  isConnected?(): boolean;
  /** Has somebody told whenever it can be asked again. One listener. */
  onConnected?(listener: () => void): void;
  /** Sends what is asked within `act` in as few packets as it can. */
  cork?(act: () => void): void;
  /** Has somebody told when newcomers are counted together, as there is no room for more. */
  onOverflow?(listener: () => void): void;
  /**
   * Decides the checks of a batch, in order, and calls the `done` of each once, possibly at once: with a StoreError
   * where it cannot be decided.
   */
  decide(batch: readonly Check[], done: readonly Done[]): void;
  /** Carries out what comes after decisions. Tells how many units were moved altogether. */
  settle(moves: readonly Move[], done: Changed): void;
  /** Forgets keys. */
  forget(keys: readonly string[], done: Changed): void;
  /** Grants kept under nonces are not given again. Missing: {@link forget} does it. */
  revoke?(nonces: readonly string[], done: Changed): void;
  /** Blocks under a key, for `ms` or, when `Infinity`, until it is forgotten. */
  block(key: string, ms: number, reason: string, done: Changed): void;
  /** Lets go of timers and of connections of its own. May be called twice. */
  close(): Promise<void>;
}
