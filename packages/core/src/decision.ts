import type { StoreErrorClass } from "./errors.ts";

/**
 * Why a policy says what it says.
 * - `ok`: it lets the request pass
 * - `limit`: not enough is left; it will be, in `nextMs`
 * - `never`: the cost is more than the policy ever allows at once
 * - `blocked`: the identity is blocked
 * - `concurrency`: too many are in flight
 */
export type Reason = "ok" | "limit" | "never" | "blocked" | "concurrency";

/** One policy's part of a decision. */
export interface Verdict {
  /** The policy's name, as in the configuration. */
  readonly policy: string;
  /** Whether this policy lets the request pass. Nothing is charged unless all of them do. */
  readonly allowed: boolean;
  /** Units: the limit, or the capacity of a bucket. */
  readonly limit: number;
  /** Units still there after this decision: whole, 0 to `limit`. */
  readonly remaining: number;
  /**
   * Milliseconds. When allowed: until one more whole unit is there (0 when all are). When refused:
   * until the same cost would pass if nobody else came; one millisecond less is refused. `null`:
   * never, or not known.
   */
  readonly nextMs: number | null;
  /** Milliseconds until the policy is as if never used. */
  readonly fullMs: number;
  /** Why it says so. */
  readonly reason: Reason;
  /** Whether the policy is on trial: then it refused nothing, whatever it says here. */
  readonly shadow: boolean;
}

/** The failure rule that answered in the store's place. Under `local` it knows this process's own counts. */
export interface Degraded {
  /** The rule that answered; `{ local: policies }` is `local`, too. */
  readonly rule: "open" | "closed" | "local";
  /** Why the store gave no decision. */
  readonly reason: StoreErrorClass;
}

/**
 * Proof of what a decision charged, for whoever gives units back. Opaque: its fields may change in
 * any version.
 */
export interface Receipt {
  /** The store's clock, µs. */
  readonly at: number;
  /** What each policy was charged. */
  readonly charges: readonly Charge[];
  /** The id of the leases taken, where a policy counts what is in flight. */
  readonly lease: string | undefined;
}

/** What one policy was charged. */
export interface Charge {
  /** The policy's name. */
  readonly policy: string;
  /** The key that was charged, as the store has it. */
  readonly key: string;
  /** Units that were taken. */
  readonly units: number;
  /** Where the units went: a window, or a first entry. Its meaning is the algorithm's. */
  readonly mark: number;
}

/** The answer to one request. */
export interface Decision {
  /** Whether the request may go on. */
  readonly allowed: boolean;
  /** When it was decided, by the store's clock: milliseconds since 1970. By this process's when `degraded`. */
  readonly at: number;
  /** Units the request asked of each policy that has no cost of its own. */
  readonly cost: number;
  /**
   * One per policy, in the order of the configuration. When `degraded`, those of this process's own policies under the
   * rule `local`, and otherwise none: nothing is known then.
   */
  readonly verdicts: readonly Verdict[];
  /**
   * Milliseconds until the same request would pass, the longest wait of the policies that refused.
   * 0 when allowed; `null`: never, or not known.
   */
  readonly retryAfterMs: number | null;
  /** Set when the store could not be asked and the failure rule answered. */
  readonly degraded: Degraded | undefined;
  /** Whether an identity of the request is blocked. */
  readonly blocked: boolean;
  /** Whether this is the answer to an earlier request with the same idempotency key. Nothing was charged for it. */
  readonly replayed: boolean;
  /** Whether it repeats an earlier refusal that still holds, and the store was not asked. */
  readonly cached: boolean;
  /** Set when something was charged. */
  readonly receipt: Receipt | undefined;
}
