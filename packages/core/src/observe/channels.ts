import { channel } from "node:diagnostics_channel";
import type { Decision } from "../decision.ts";
import type { StoreErrorClass } from "../errors.ts";

/** What `tidegate:decision` tells of every decision. Nobody is named in it. */
export interface DecisionMessage {
  /** Of the limiter's keys: tells several limiters of a process apart. */
  readonly prefix: string;
  /** Whether the request was let in. */
  readonly allowed: boolean;
  /** Of each policy, what it said. `unknown`: the store could not be asked, and no policy of this process's either. */
  readonly policies: readonly { readonly name: string; readonly outcome: PolicyOutcome }[];
  /** The failure rule that answered; `undefined`: the store did. */
  readonly rule: "open" | "closed" | "local" | undefined;
  /** Why the store could not be asked; `undefined`: it could. */
  readonly reason: StoreErrorClass | undefined;
  /** Whether it repeats an earlier refusal, and the store was not asked. */
  readonly cached: boolean;
  /** How long it took, milliseconds. */
  readonly ms: number;
}

/** What a policy said: `shadow-refused` of one on trial, `unknown` where the store could not be asked. */
export type PolicyOutcome = "allowed" | "refused" | "shadow-refused" | "unknown";

/** What `tidegate:breaker` tells. */
export interface BreakerMessage {
  /** Of the limiter's keys: tells several limiters of a process apart. */
  readonly prefix: string;
  /** `open`: the store is not asked any more; `closed`: it is again. */
  readonly state: "open" | "closed";
}

/**
 * What `tidegate:late` tells. `late`: the store granted a request when its answer had been given already. `double`: a
 * shared connection sent a command twice, and it was charged once.
 */
export interface LateMessage {
  /** Of the limiter's keys: tells several limiters of a process apart. */
  readonly prefix: string;
  /** Which of the two it was. */
  readonly kind: "late" | "double";
}

/** What `tidegate:batch` tells of each run of the deciding script. */
export interface BatchMessage {
  /** Of the limiter's keys: tells several limiters of a process apart. */
  readonly prefix: string;
  /** How many decisions it made. */
  readonly decisions: number;
}

const batches = channel("tidegate:batch");
const decisions = channel("tidegate:decision");
const breakers = channel("tidegate:breaker");
const lates = channel("tidegate:late");

/** Whether anybody wants to hear of decisions: only then is a message of one made. */
export const decisionsAreWatched = (): boolean => decisions.hasSubscribers;

/** @param names of the policies that were asked, for a decision that knows none */
export function tellDecision(prefix: string, names: readonly string[], decision: Decision, ms: number): void {
  const { allowed, verdicts, degraded, cached } = decision;
  const policies =
    verdicts.length > 0
      ? verdicts.map((verdict) => ({ name: verdict.policy, outcome: outcomeOf(verdict) }))
      : names.map((name) => ({ name, outcome: "unknown" as const }));
  const message: DecisionMessage = {
    prefix,
    allowed,
    policies,
    rule: degraded?.rule,
    reason: degraded?.reason,
    cached,
    ms,
  };
  decisions.publish(message);
}

function outcomeOf({ allowed, shadow }: { allowed: boolean; shadow: boolean }): PolicyOutcome {
  if (allowed) return "allowed";
  return shadow ? "shadow-refused" : "refused";
}

export function tellBatch(prefix: string, decisions: number): void {
  if (!batches.hasSubscribers) return;
  const message: BatchMessage = { prefix, decisions };
  batches.publish(message);
}

export function tellBreaker(prefix: string, isOpen: boolean): void {
  const message: BreakerMessage = { prefix, state: isOpen ? "open" : "closed" };
  breakers.publish(message);
}

export function tellLate(prefix: string, kind: LateMessage["kind"]): void {
  const message: LateMessage = { prefix, kind };
  lates.publish(message);
}
