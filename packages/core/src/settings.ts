import { isPolicy } from "./algorithms/policy.ts";
import { slidingWindow } from "./algorithms/sliding-window.ts";
import type { Config, NamedPolicy, PerRequestPolicy, Settings } from "./config.ts";
import { ConfigError } from "./errors.ts";
import type { FailureRule } from "./failure/fallback.ts";
import type { By, IdentitySource } from "./identity/identity.ts";
import { toSource } from "./identity/sources.ts";
import { type Duration, flag, isCost, oneOf, onlyKnown, optionalFunction, wholeNumber } from "./options.ts";

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
