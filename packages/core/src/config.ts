import type { Redis } from "ioredis";
import { isPolicy, type Policy, slidingWindow } from "./algorithms/policy.ts";
import { ConfigError } from "./errors.ts";
import type { FailureRule } from "./failure/fallback.ts";
import type { By, IdentitySource, MaybePromise } from "./identity/identity.ts";
import { toSource } from "./identity/sources.ts";
import type { EventListener } from "./observe/events.ts";
import { type Duration, flag, isCost, oneOf, onlyKnown, optionalFunction, wholeNumber } from "./options.ts";
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
  cost?: number | ((request: R) => MaybePromise<number>);
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
  readonly cost: number | ((request: R) => MaybePromise<number>);
  readonly skip: ((request: R) => MaybePromise<boolean>) | undefined;
  readonly timeoutMs: number;
  readonly onFailure: FailureRule;
  readonly onEvent: EventListener | undefined;
  readonly settle: ((response: ResponseOutcome<R>) => MaybePromise<Settlement>) | undefined;
  readonly idempotencyKey: ((request: R) => MaybePromise<string | undefined>) | undefined;
  readonly idempotencyMs: number;
  readonly blocking: boolean;
}

const KNOWN = [
  "redis",
  "store",
  "prefix",
  "policies",
  "limit",
  "window",
  "by",
  "cost",
  "skip",
  "timeoutMs",
  "onFailure",
  "onEvent",
  "settle",
  "giveBackOn",
  "idempotencyKey",
  "idempotencyMs",
  "blocking",
];
const LATER = [
  "routes",
  "trustProxy",
  "headers",
  "onLimited",
  "mode",
  "group",
  "allow",
  "deny",
  "shareConnection",
  "instances",
];

/**
 * A name that is valid as a String and as a Token of structured fields, and harmless in a key.
 * source: RFC 9651 §3.3.3, §3.3.4
 */
const POLICY_NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/;

/** @throws ConfigError for the first setting that cannot work */
export function settingsOf<R>(config: Config<R>): Settings<R> {
  onlyKnown("config", config, KNOWN, LATER);
  if (typeof config.cost !== "function" && config.cost !== undefined && !isCost(config.cost)) {
    throw new ConfigError(
      "TIDEGATE_OPTION_INVALID",
      "cost",
      config.cost,
      "give a whole number from 0, or a function of the request",
    );
  }
  optionalFunction("skip", config.skip);
  optionalFunction("onEvent", config.onEvent);
  optionalFunction("idempotencyKey", config.idempotencyKey);
  if (config.redis !== undefined && config.store !== undefined) {
    throw new ConfigError(
      "TIDEGATE_OPTION_INVALID",
      "store",
      config.store,
      "give either redis or a store, not both",
    );
  }
  return {
    prefix: prefixOf(config.prefix ?? "rl"),
    policies: namedPolicies(config),
    cost: config.cost ?? 1,
    skip: config.skip,
    timeoutMs: wholeNumber("timeoutMs", config.timeoutMs ?? 50, 1, 60_000),
    onFailure: failureRule(config.onFailure ?? "open"),
    onEvent: config.onEvent,
    settle: settleOf(config),
    idempotencyKey: config.idempotencyKey,
    idempotencyMs: wholeNumber("idempotencyMs", config.idempotencyMs ?? 60_000, 1, 86_400_000),
    blocking: flag("blocking", config.blocking ?? false),
  };
}

function settleOf<R>({ giveBackOn, settle }: Config<R>): Settings<R>["settle"] {
  optionalFunction("settle", settle);
  if (giveBackOn === undefined) return settle;
  if (settle !== undefined) {
    throw new ConfigError(
      "TIDEGATE_OPTION_INVALID",
      "giveBackOn",
      giveBackOn,
      "give either giveBackOn or settle, not both",
    );
  }
  const onSuccess = oneOf("giveBackOn", giveBackOn, ["success", "failure"]) === "success";
  return ({ status, aborted }) => {
    const success = !aborted && status !== undefined && status < 400;
    return success === onSuccess ? "giveBack" : "keep";
  };
}

function failureRule(given: unknown): FailureRule {
  if (typeof given === "object" && given !== null) {
    throw new ConfigError(
      "TIDEGATE_OPTION_NOT_YET",
      "onFailure",
      given,
      `this version offers "open" and "closed" only`,
    );
  }
  return oneOf("onFailure", given, ["open", "closed"]);
}

function prefixOf(prefix: unknown): string {
  // Braces would choose the slot of every key; control characters have no place in a log.
  if (typeof prefix !== "string" || !/^[^{}\u0000-\u001f\u007f]{1,64}$/.test(prefix)) {
    throw new ConfigError(
      "TIDEGATE_OPTION_INVALID",
      "prefix",
      prefix,
      "give 1 to 64 characters without braces or control characters",
    );
  }
  return prefix;
}

function namedPolicies<R>(config: Config<R>): NamedPolicy<R>[] {
  const by = config.by === undefined ? undefined : sourceOf<R>("by", config.by);
  const entries = Object.entries(given(config));
  if (entries.length === 0)
    throw new ConfigError("TIDEGATE_POLICY_MISSING", "policies", config.policies, "name at least one policy");
  if (entries.length > 16)
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "policies", entries.length, "give at most 16 policies");

  const seen = new Map<string, string>();
  return entries.map(([name, value]) => {
    if (!POLICY_NAME.test(name)) {
      throw new ConfigError(
        "TIDEGATE_POLICY_NAME",
        "policies",
        name,
        "name policies by a letter and up to 63 letters, digits, _, . or -",
      );
    }
    const twin = seen.get(name.toLowerCase());
    if (twin !== undefined) {
      throw new ConfigError(
        "TIDEGATE_POLICY_DUPLICATE",
        `policies.${name}`,
        name,
        `names that differ in case only are one name: rename it or ${twin}`,
      );
    }
    seen.set(name.toLowerCase(), name);
    const { base, choose } = isPolicy(value)
      ? { base: value, choose: undefined }
      : perRequestOf<R>(name, value);
    return {
      name,
      policy: base,
      choose,
      by: base.by === undefined ? by : sourceOf<R>(`policies.${name}.by`, base.by),
    };
  });
}

function given<R>({ policies, limit, window }: Config<R>): Record<string, unknown> {
  if (limit === undefined && window === undefined) {
    if (typeof policies === "object" && policies !== null && !Array.isArray(policies)) return policies;
    const advice =
      typeof policies === "function"
        ? "give the policies themselves, and make single ones depend on the request with perRequest()"
        : "name policies, or give limit and window";
    throw new ConfigError("TIDEGATE_POLICY_MISSING", "policies", policies, advice);
  }
  if (policies !== undefined)
    throw new ConfigError(
      "TIDEGATE_OPTION_INVALID",
      "limit",
      limit,
      "give either limit and window, or policies",
    );
  return { default: slidingWindow({ limit: limit as number, window: window as Duration }) };
}

function perRequestOf<R>(name: string, value: unknown): PerRequestPolicy<R> {
  const { base, choose } = (value ?? {}) as Partial<PerRequestPolicy<R>>;
  if (!isPolicy(base) || typeof choose !== "function") {
    throw new ConfigError(
      "TIDEGATE_OPTION_INVALID",
      `policies.${name}`,
      value,
      "give a policy such as tokenBucket({ … })",
    );
  }
  return { base, choose };
}

function sourceOf<R>(option: string, by: unknown): IdentitySource<R> {
  if (typeof by !== "function" && typeof (by as Partial<IdentitySource> | null)?.identify !== "function") {
    throw new ConfigError(
      "TIDEGATE_OPTION_INVALID",
      option,
      by,
      "give ip(), apiKey({ … }), globally() or a function of the request",
    );
  }
  return toSource(by as By<R>);
}
