import type { Config } from "./config.ts";
import { ConfigError } from "./errors.ts";
import { type HeaderSettings, headerSettings } from "./header-options.ts";
import type { MaybePromise } from "./identity/identity.ts";
import { networks, type Proxies, proxiesOf } from "./identity/proxy.ts";
import type { EventListener } from "./observe/events.ts";
import { flag, oneOf, onlyKnown, optionalFunction, wholeNumber } from "./options.ts";
import { checkSegments, type Plan, planOf, routePlan } from "./plans.ts";

/** A configuration that has been checked. */
export interface Settings<R = any, S = any> {
  readonly prefix: string;
  /** What holds where no route says otherwise. */
  readonly plan: Plan<R>;
  /** What holds on routes, in the order in which they are looked at; `false`: not limited. */
  readonly routes: readonly RouteSetting<R>[];
  readonly skip: ((request: R) => MaybePromise<boolean>) | undefined;
  readonly allows: ((address: string) => boolean) | undefined;
  readonly denies: ((address: string) => boolean) | undefined;
  /** Of its own; `undefined`: the framework's. */
  readonly proxies: Proxies | undefined;
  readonly countsPreflights: boolean;
  readonly headers: HeaderSettings;
  readonly onLimited: Config<R, S>["onLimited"];
  readonly timeoutMs: number;
  /** `undefined`: a part of `timeoutMs`. */
  readonly functionTimeoutMs: number | undefined;
  readonly onEvent: EventListener | undefined;
  readonly idempotencyKey: ((request: R) => MaybePromise<string | undefined>) | undefined;
  readonly idempotencyMs: number;
  readonly blocking: boolean;
  /** For how long a refusal is believed, milliseconds; `undefined`: not at all. */
  readonly denyMs: number | undefined;
  readonly coalesces: boolean;
}

/** A line of the `routes` table. */
export interface RouteSetting<R = any> {
  /** As the table writes it. */
  readonly name: string;
  /** In capitals; `undefined`: any. */
  readonly method: string | undefined;
  /** In the framework's own words. */
  readonly pattern: string;
  readonly plan: Plan<R> | false;
}

const KNOWN = [
  "redis",
  "shareConnection",
  "scripting",
  "store",
  "prefix",
  "policies",
  "limit",
  "window",
  "by",
  "cost",
  "routes",
  "mode",
  "allow",
  "deny",
  "trustProxy",
  "preflights",
  "skip",
  "timeoutMs",
  "functionTimeoutMs",
  "onFailure",
  "instances",
  "headers",
  "onLimited",
  "onEvent",
  "settle",
  "giveBackOn",
  "idempotencyKey",
  "idempotencyMs",
  "blocking",
  "denyCache",
  "coalesce",
];
/** @throws ConfigError for the first setting that cannot work */
export function settingsOf<R, S>(config: Config<R, S>): Settings<R, S> {
  onlyKnown("config", config, KNOWN);
  for (const option of ["skip", "onEvent", "onLimited", "idempotencyKey"] as const)
    optionalFunction(option, config[option]);
  if (config.redis !== undefined && config.store !== undefined) {
    const advice = "give either redis or a store, not both";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "store", config.store, advice);
  }
  if (config.instances !== undefined) wholeNumber("instances", config.instances, 1, 100_000);
  if (flag("shareConnection", config.shareConnection ?? false) && typeof config.redis !== "object") {
    const advice = "give the client whose connection is to be shared as redis";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "shareConnection", config.shareConnection, advice);
  }
  if (config.scripting !== undefined) oneOf("scripting", config.scripting, ["scripts", "functions"]);
  const plan = planOf(config);
  const routes = routesOf(config, plan);
  checkSegments([plan, ...routes.flatMap((route) => route.plan || [])]);
  return {
    prefix: prefixOf(config.prefix ?? "rl"),
    plan,
    routes,
    skip: config.skip,
    allows: config.allow && networks("allow", config.allow),
    denies: config.deny && networks("deny", config.deny),
    proxies: config.trustProxy === undefined ? undefined : proxiesOf(config.trustProxy),
    countsPreflights: oneOf("preflights", config.preflights ?? "exempt", ["exempt", "count"]) === "count",
    headers: headerSettings(config.headers),
    onLimited: config.onLimited,
    timeoutMs: wholeNumber("timeoutMs", config.timeoutMs ?? 50, 1, 60_000),
    functionTimeoutMs:
      config.functionTimeoutMs === undefined
        ? undefined
        : wholeNumber("functionTimeoutMs", config.functionTimeoutMs, 1, 60_000),
    onEvent: config.onEvent,
    idempotencyKey: config.idempotencyKey,
    idempotencyMs: wholeNumber("idempotencyMs", config.idempotencyMs ?? 60_000, 1, 86_400_000),
    blocking: flag("blocking", config.blocking ?? false),
    denyMs: denyMsOf(config),
    coalesces: flag("coalesce", config.coalesce ?? true),
  };
}

/** A store made by hand may go by a clock of its own. */
function denyMsOf({ denyCache, redis }: Config): number | undefined {
  const given = denyCache ?? redis !== undefined;
  if (typeof given === "boolean") return given ? 1000 : undefined;
  onlyKnown("denyCache", given, ["maxMs"]);
  return wholeNumber("denyCache.maxMs", given.maxMs ?? 1000, 1, 60_000);
}

function prefixOf(prefix: unknown): string {
  // Braces would choose the slot of every key; control characters have no place in a log.
  if (typeof prefix !== "string" || !/^[^{}\u0000-\u001f\u007f]{1,64}$/.test(prefix)) {
    const advice = "give 1 to 64 characters without braces or control characters";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "prefix", prefix, advice);
  }
  return prefix;
}

function routesOf<R>(config: Config<R>, base: Plan<R>): RouteSetting<R>[] {
  const { routes = {} } = config;
  if (typeof routes !== "object" || routes === null || Array.isArray(routes)) {
    const advice = 'give an object such as { "POST /login": { … }, "GET /health": false }';
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "routes", routes, advice);
  }
  return Object.entries(routes).map(([name, override]) => {
    const { method, pattern } = routeOf(name);
    return { name, method, pattern, plan: override !== false && routePlan(config, base, name, override) };
  });
}

/** `"METHOD /pattern"`, or `"/pattern"` for every method. */
function routeOf(name: string): { method: string | undefined; pattern: string } {
  const [, method, pattern] = /^(?:([A-Z-]+) +)?([/*].*)$/.exec(name) ?? [];
  if (pattern !== undefined) return { method, pattern };
  const advice = 'name a method in capitals and a path, "POST /login", or a path alone, "/login"';
  throw new ConfigError("TIDEGATE_ROUTE", "routes", name, advice);
}
