import type { RedisInput } from "./clients/connection.ts";
import { type Cost, type FailureRule, isPolicy, type Mode, type Policy } from "./algorithms/policy.ts";
import type { Decision } from "./decision.ts";
import { ConfigError } from "./errors.ts";
import type { HeaderOptions } from "./header-options.ts";
import type { By, MaybePromise } from "./identity/identity.ts";
import type { TrustProxy } from "./identity/proxy.ts";
import type { EventListener } from "./observe/events.ts";
import type { Duration } from "./options.ts";
import type { Scripting } from "./stores/redis.ts";
import type { Store } from "./stores/store.ts";

/**
 * A limiter's configuration, the same for every framework.
 *
 * @typeParam R the framework's request
 * @typeParam S the framework's response
 */
export interface Config<R = any, S = any> {
  /** A Redis URL, or a client whose server is to be used. Omitted: this process's memory. */
  redis?: RedisInput | undefined;
  /**
   * Uses the client that is given as `redis` as it is, instead of a connection of its own. It is never closed and never
   * changed; as it may send a command twice, every charge is kept for a moment to be recognised. False by default.
   */
  shareConnection?: boolean;
  /**
   * How Redis runs what decides: as scripts, or as Redis Functions, which a server keeps like data. `"scripts"` by
   * default.
   */
  scripting?: Scripting;
  /** A store made beforehand, instead of `redis`. */
  store?: Store;
  /** Begins every key. Two services on one Redis give different ones. `"rl"` by default. */
  prefix?: string;
  /** The policies by name: all of them are charged for a request, or none. Their order is that of the headers. */
  policies?: Record<string, Policy | PerRequestPolicy<R>>;
  /**
   * Units per window: the shortest form, with `window`, of one sliding window named `default`. Either these two or
   * `policies` are needed.
   */
  limit?: number;
  /** The window of `limit`: whole milliseconds, or text such as `"1m"`. */
  window?: Duration;
  /** Who is counted, unless a policy says otherwise. In HTTP the client's address by default. */
  by?: By<R>;
  /** Units a request takes. 1 by default; 0 looks and takes nothing. */
  cost?: Cost<R>;
  /**
   * What holds for single routes, by `"METHOD /pattern"` or `"/pattern"` in the framework's own words. The first
   * that matches holds; `false`: not limited. In HTTP only.
   */
  routes?: Readonly<Record<string, RouteOverride<R> | false>>;
  /** `"shadow"`: every policy is on trial and refuses nobody. `"enforce"` by default: each policy as it says. */
  mode?: Mode;
  /** Addresses and networks that are not limited at all: `["10.0.0.0/8"]`. */
  allow?: readonly string[];
  /** Addresses and networks that are refused, always. Goes before `allow`. */
  deny?: readonly string[];
  /**
   * Which proxies to believe: how many, which networks, or a function. Instead of the framework's own setting;
   * Koa has none that could be used.
   */
  trustProxy?: TrustProxy;
  /**
   * CORS preflights: `"exempt"` leaves them alone, `"count"` limits them like other requests. `"exempt"` by default.
   */
  preflights?: "exempt" | "count";
  /** Requests that are not limited at all. */
  skip?: (request: R) => MaybePromise<boolean>;
  /** How long a decision may take, milliseconds. 50 by default. Holds for a request's own functions too. */
  timeoutMs?: number;
  /**
   * How long a request's own functions may take together, milliseconds. `timeoutMs` by default, which then bounds
   * functions and store together; given, the store has all of `timeoutMs` besides.
   */
  functionTimeoutMs?: number;
  /** What answers when the store cannot. `"open"` by default. */
  onFailure?: FailureRule;
  /**
   * How many processes share the limits: what the rule `"local"` and the scope `"process"` divide them by. None by
   * default: the rule is an error then, and by the scope every process has the whole limit.
   */
  instances?: number;
  /** Which header fields responses carry. */
  headers?: HeaderOptions;
  /**
   * Asked before a refusal is answered, whatever its reason. Status and headers are on the response by then. It may
   * return parts of another answer, or answer by itself. Not bounded by `timeoutMs`.
   */
  onLimited?: (refusal: Refusal, request: R, response: S) => MaybePromise<Answer | S | void>;
  /** Told of every degraded decision, outage, recovery, warning and audit. */
  onEvent?: EventListener;
  /**
   * Gives a request's units back after its response: `"success"` when that was below 400, `"failure"` when it was not.
   * Neither by default: what was charged stays charged.
   */
  giveBackOn?: "success" | "failure";
  /** Says after the response what a request cost. Instead of `giveBackOn`. */
  settle?: (response: ResponseOutcome<R>) => MaybePromise<Settlement>;
  /** The same question with the same key is charged once: a client's own key for its retries. */
  idempotencyKey?: (request: R) => MaybePromise<string | undefined>;
  /** How long a grant is kept for its idempotency key, milliseconds. 60,000 by default. */
  idempotencyMs?: number;
  /**
   * Refuses from this process's memory what Redis would refuse: an earlier refusal holds until its wait is over. True
   * by default, with `redis`. `maxMs`: for how long at most, milliseconds, 1,000 by default; so long may units that
   * another process gives back go unseen.
   */
  denyCache?: boolean | { maxMs?: number };
  /** Whether the questions of one turn of the event loop travel to the store together. True by default. */
  coalesce?: boolean;
  /** Whether decisions heed `limiter.block()`: one look more in the same script. False by default. */
  blocking?: boolean;
}

/** How a request ended. */
export interface ResponseOutcome<R = any> {
  /** The framework's own request. */
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
  /** Says which policy holds for a request. */
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

/** What is different on a route. Everything left out is as in the configuration. */
export interface RouteOverride<R = any> {
  /**
   * Instead of the configuration's. Counted for this route alone, but for those that are the configuration's own
   * objects under their own names: these count on.
   */
  policies?: Readonly<Record<string, Policy | PerRequestPolicy<R>>>;
  /**
   * Units per window: the shortest form, with `window`, of one sliding window named `default`, for this route alone.
   */
  limit?: number;
  /** The window of `limit`: whole milliseconds, or text such as `"1m"`. */
  window?: Duration;
  /** Who is counted on this route, unless a policy says otherwise. */
  by?: By<R>;
  /** Units a request of this route takes. */
  cost?: Cost<R>;
  /** What answers on this route when the store cannot. */
  onFailure?: FailureRule;
  /** `"shadow"`: every policy of this route is on trial. */
  mode?: Mode;
  /** Routes of one group share what their policies count. */
  group?: string;
  /**
   * Gives a request's units back after its response: `"success"` when that was below 400, `"failure"` when it was not.
   */
  giveBackOn?: "success" | "failure";
  /** Says after the response what a request of this route cost. Instead of `giveBackOn`. */
  settle?: (response: ResponseOutcome<R>) => MaybePromise<Settlement>;
}

/** What a limiter adds on a route to the one that it extends. Its policies have names of their own. */
export type Extension<R = any> = Omit<RouteOverride<R>, "limit" | "window">;

/** A refusal that is about to be answered. */
export interface Refusal {
  /**
   * - `limit`: a policy has no room
   * - `blocked`: the identity is blocked, or its address on the `deny` list
   * - `closed`: the store could not be asked, and the rule is to let nobody pass
   */
  readonly kind: "limit" | "blocked" | "closed";
  /** The decision that refuses. */
  readonly decision: Decision;
  /** 429, or 503 for `closed`. */
  readonly status: number;
  /** Whole seconds, as in Retry-After; `undefined` when no wait helps. */
  readonly retryAfterSeconds: number | undefined;
  /** The policies that refused, in the order of the configuration. */
  readonly violatedPolicies: readonly string[];
}

/** What to answer instead of the problem that tidegate writes. */
export interface Answer {
  /** 400 to 599. */
  status?: number;
  /** The problem's `type`, where the body stays ours. */
  type?: string;
  /** The problem's `title`, where the body stays ours. */
  title?: string;
  /** An object is sent as JSON, text as plain text. */
  body?: string | object;
  /** Of `body`, where it is something else. */
  contentType?: string;
}
