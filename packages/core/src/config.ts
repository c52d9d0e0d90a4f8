import type { Redis } from "ioredis";
import { type Cost, isPolicy, type Policy } from "./algorithms/policy.ts";
import { ConfigError } from "./errors.ts";
import type { FailureRule } from "./failure/fallback.ts";
import type { By, IdentitySource, MaybePromise } from "./identity/identity.ts";
import type { EventListener } from "./observe/events.ts";
import type { Duration } from "./options.ts";
import type { Store } from "./stores/store.ts";

/**
 * A limiter's configuration, the same for every framework.
 *
 * @typeParam R the framework's request
 */
export interface Config<R = any> {
  /** A Redis URL, or a client whose server is to be used. Omitted: this process's memory. */
  redis?: string | Redis | undefined;
  /** A store made beforehand, instead of `redis`. */
  store?: Store;
  /** Begins every key. Two services on one Redis give different ones. `"rl"` by default. */
  prefix?: string;
  /** The policies by name: all of them are charged for a request, or none. Their order is that of the headers. */
  policies?: Record<string, Policy | PerRequestPolicy<R>>;
  /** The shortest form, with `window`: one sliding window named `default`. */
  limit?: number;
  window?: Duration;
  /** Who is counted, unless a policy says otherwise. In HTTP the client's address by default. */
  by?: By<R>;
  /** Units a request takes. 1 by default; 0 looks and takes nothing. */
  cost?: Cost<R>;
  /** Requests that are not limited at all. */
  skip?: (request: R) => MaybePromise<boolean>;
  /** How long a decision may take, milliseconds. 50 by default. Holds for a request's own functions too. */
  timeoutMs?: number;
  /** What answers when the store cannot. `"open"` by default. */
  onFailure?: FailureRule;
  /** Told of every degraded decision, warning, recovery and audit. */
  onEvent?: EventListener;
  /** Gives a request's units back after its response: when that was below 400, or when it was not. */
  giveBackOn?: "success" | "failure";
  /** Says after the response what a request cost. Instead of `giveBackOn`. */
  settle?: (response: ResponseOutcome<R>) => MaybePromise<Settlement>;
  /** The same question with the same key is charged once: a client's own key for its retries. */
  idempotencyKey?: (request: R) => MaybePromise<string | undefined>;
  /** How long a grant is kept for its idempotency key, milliseconds. One minute by default. */
  idempotencyMs?: number;
  /** Whether decisions heed `limiter.block()`: one look more in the same script. Off by default. */
  blocking?: boolean;
}

/** How a request ended. */
export interface ResponseOutcome<R = any> {
  readonly request: R;
  /** The status, where a response was begun. */
  readonly status: number | undefined;
  /** Whether the client went away before the response was whole. */
  readonly aborted: boolean;
}

/**
 * What became of a request:
 * - `keep`: it cost what it was charged
 * - `giveBack`: it cost nothing
 * - a number: it cost so many units, of each policy that has no cost of its own
 * - a record: it cost so many units by policy
 */
export type Settlement = "keep" | "giveBack" | number | Readonly<Record<string, number>>;

/** A policy whose numbers a request decides. */
export interface PerRequestPolicy<R = any> {
  /** Used when `choose` fails, and for everything that must be known beforehand. */
  readonly base: Policy;
  readonly choose: (request: R) => MaybePromise<Policy>;
}

/**
 * A policy chosen per request, for plans and tiers. When `choose` throws, is too slow or returns
 * no policy, `base` is used: a request is never uncounted.
 *
 * @throws ConfigError when `base` is no policy or `choose` no function
 */
export function perRequest<R = any>(
  base: Policy,
  choose: (request: R) => MaybePromise<Policy>,
): PerRequestPolicy<R> {
  if (!isPolicy(base))
    throw new ConfigError(
      "TIDEGATE_OPTION_INVALID",
      "perRequest.base",
      base,
      "give a policy such as tokenBucket({ … })",
    );
  if (typeof choose !== "function")
    throw new ConfigError(
      "TIDEGATE_OPTION_INVALID",
      "perRequest.choose",
      choose,
      "give a function from a request to a policy",
    );
  return { base, choose };
}

/** A policy in its place. */
export interface NamedPolicy<R = any> {
  readonly name: string;
  readonly policy: Policy;
  readonly choose: PerRequestPolicy<R>["choose"] | undefined;
  /** Who it counts; `undefined` when whoever asks has to say. */
  readonly by: IdentitySource<R> | undefined;
}

/** A configuration that has been checked. */
export interface Settings<R = any> {
  readonly prefix: string;
  readonly policies: readonly NamedPolicy<R>[];
  readonly cost: Cost<R>;
  readonly skip: ((request: R) => MaybePromise<boolean>) | undefined;
  readonly timeoutMs: number;
  readonly onFailure: FailureRule;
  readonly onEvent: EventListener | undefined;
  readonly settle: ((response: ResponseOutcome<R>) => MaybePromise<Settlement>) | undefined;
  readonly idempotencyKey: ((request: R) => MaybePromise<string | undefined>) | undefined;
  readonly idempotencyMs: number;
  readonly blocking: boolean;
}
