import {
  type Cost,
  type FailureRule,
  isPolicy,
  type LocalRule,
  type Mode,
  type Policy,
} from "./algorithms/policy.ts";
import { slidingWindow } from "./algorithms/sliding-window.ts";
import type {
  Config,
  Extension,
  PerRequestPolicy,
  ResponseOutcome,
  RouteOverride,
  Settlement,
} from "./config.ts";
import { ConfigError } from "./errors.ts";
import type { By, IdentitySource, MaybePromise } from "./identity/identity.ts";
import { safeValue } from "./identity/key.ts";
import { toSource } from "./identity/sources.ts";
import { freeName } from "./names.ts";
import { type Duration, isCost, oneOf, onlyKnown, optionalFunction } from "./options.ts";

/** A policy in its place. */
export interface NamedPolicy<R = any> {
  readonly name: string;
  /** What stands for it in keys: its name, behind a group or route that it counts alone. */
  readonly segment: string;
  readonly policy: Policy;
  readonly choose: PerRequestPolicy<R>["choose"] | undefined;
  /** Who it counts; `undefined` when whoever asks has to say. */
  readonly by: IdentitySource<R> | undefined;
}

/** What holds for a request: the configuration's own, or what a route makes of it. */
export interface Plan<R = any> {
  /** The route, as the table names it; `undefined` for the configuration itself. */
  readonly route: string | undefined;
  readonly policies: readonly NamedPolicy<R>[];
  readonly cost: Cost<R>;
  /** The rule for policies that say nothing of their own. */
  readonly onFailure: FailureRule;
  /** What answers when the store cannot: the strictest rule of its policies. */
  readonly failure: Failure<R>;
  readonly mode: Mode | undefined;
  readonly settle: ((response: ResponseOutcome<R>) => MaybePromise<Settlement>) | undefined;
}

/** What answers when the store cannot. */
export interface Failure<R = any> {
  readonly rule: "open" | "closed" | "local";
  /** The policies of this process's own, under the rule `local`. */
  readonly local: readonly NamedPolicy<R>[];
}

/** What {@link failureOf} has to know of a configuration besides its policies. */
interface Sharing<R> {
  readonly by: IdentitySource<R> | undefined;
  readonly instances: number | undefined;
}

const OVERRIDES = [
  "policies",
  "limit",
  "window",
  "by",
  "cost",
  "onFailure",
  "mode",
  "group",
  "giveBackOn",
  "settle",
];

/**
 * A name that is valid as a String and as a Token of structured fields, and harmless in a key.
 * source: RFC 9651 §3.3.3, §3.3.4
 */
const NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/;

const MOST_POLICIES = 16;

/** @throws ConfigError for the first setting that cannot work */
export function planOf<R>(config: Config<R>): Plan<R> {
  const mode = modeOf("mode", config.mode);
  const by = byOf<R>("by", config.by);
  const policies = named("policies", policiesIn("", config), by, mode, (name) => name);
  const onFailure = config.onFailure ?? "open";
  return {
    route: undefined,
    policies,
    cost: config.cost === undefined ? 1 : costOf("cost", config.cost),
    onFailure,
    failure: failureOf("", policies, onFailure, { by, instances: config.instances }),
    mode,
    settle: settleOf("", config),
  };
}

/**
 * What a route makes of the configuration.
 *
 * @param route its name, in keys and in errors
 * @throws ConfigError for the first setting that cannot work
 */
export function routePlan<R>(
  config: Config<R>,
  base: Plan<R>,
  route: string,
  override: RouteOverride<R>,
): Plan<R> {
  const at = `routes.${route}`;
  onlyKnown(at, override, OVERRIDES);
  const mode = modeOf(`${at}.mode`, override.mode) ?? base.mode;
  const by = byOf(`${at}.by`, override.by) ?? byOf("by", config.by);
  const own = ["policies", "limit", "window"].some((option) => override[option as "limit"] !== undefined);
  const group = override.group === undefined ? undefined : groupOf(`${at}.group`, override.group);
  const place = group ?? safeValue(route);
  const usual = policiesIn("", config);
  const segmentFor = (name: string, value: unknown) => {
    // What the configuration counts anyway, it counts here too.
    const counted = group === undefined && (!own || usual[name] === value);
    return counted ? name : `${place}.${name}`;
  };
  const given = own ? policiesIn(at, override) : usual;
  const unchanged = !own && group === undefined && override.by === undefined && override.mode === undefined;
  const policies = unchanged ? base.policies : named(under(at, "policies"), given, by, mode, segmentFor);
  const onFailure = override.onFailure ?? base.onFailure;
  return {
    route,
    policies,
    cost: override.cost === undefined ? base.cost : costOf(`${at}.cost`, override.cost),
    onFailure,
    failure: failureOf(at, policies, onFailure, { by, instances: config.instances }),
    mode,
    settle:
      override.settle === undefined && override.giveBackOn === undefined
        ? base.settle
        : settleOf(at, override),
  };
}

/** What a limiter adds to another. What is `undefined` stays as it is there. */
export interface Added<R = any> {
  readonly policies: readonly NamedPolicy<R>[];
  readonly cost: Cost<R> | undefined;
  readonly onFailure: FailureRule | undefined;
  readonly settle: Plan<R>["settle"];
  readonly sharing: Sharing<R>;
}

/** @throws ConfigError for the first setting that cannot work */
export function additionOf<R>(config: Config<R>, base: Plan<R>, extension: Extension<R>): Added<R> {
  const at = "with";
  // No shortest form: on two routes its one name would be one budget.
  const known = OVERRIDES.filter((option) => option !== "limit" && option !== "window");
  onlyKnown(at, extension, known);
  const { cost, onFailure, giveBackOn, settle, group } = extension;
  const place = group === undefined ? undefined : groupOf(`${at}.group`, group);
  const by = byOf(`${at}.by`, extension.by) ?? byOf("by", config.by);
  const mode = modeOf(`${at}.mode`, extension.mode) ?? base.mode;
  const segmentFor = (name: string) => (place === undefined ? name : `${place}.${name}`);
  return {
    policies:
      extension.policies === undefined
        ? []
        : named(under(at, "policies"), policiesIn(at, extension), by, mode, segmentFor),
    cost: cost === undefined ? undefined : costOf(`${at}.cost`, cost),
    onFailure:
      onFailure === undefined ? undefined : checkRule(`${at}.onFailure`, onFailure, config.instances),
    settle: giveBackOn === undefined && settle === undefined ? undefined : settleOf(at, extension),
    sharing: { by, instances: config.instances },
  };
}

/**
 * Whether a limiter can be extended so.
 *
 * @throws ConfigError when a name stands in both
 */
export function checkExtension(base: readonly NamedPolicy[], added: readonly NamedPolicy[]): void {
  const names = new Set(base.map(({ name }) => name.toLowerCase()));
  const twin = added.find(({ name }) => names.has(name.toLowerCase()));
  if (!twin) return;
  const advice = "the limiter that this one extends has a policy of that name; rename one";
  throw new ConfigError("TIDEGATE_POLICY_DUPLICATE", `with.policies.${twin.name}`, twin.name, advice);
}

/** A plan with more in it. Where a route has a policy of the same name by itself, both hold, told apart by a number. */
export function extendedPlan<R>(base: Plan<R>, added: Added<R>): Plan<R> {
  const names = new Set(base.policies.map(({ name }) => name.toLowerCase()));
  const more = added.policies.map((each) => {
    const name = freeName(each.name, names);
    // The same object wherever it can be: by it a request knows what it has been asked.
    return name === each.name ? each : { ...each, name };
  });
  const policies = [...base.policies, ...more];
  notTooMany("with.policies", policies.length);
  const onFailure = added.onFailure ?? base.onFailure;
  return {
    ...base,
    policies,
    cost: added.cost ?? base.cost,
    onFailure,
    failure: failureOf("with", policies, onFailure, added.sharing),
    settle: added.settle ?? base.settle,
  };
}

/**
 * Whether what two policies count would meet under one key.
 *
 * @throws ConfigError when a group and a policy of its read like the name of another policy
 */
export function checkSegments(plans: readonly Plan[]): void {
  const names = new Map<string, string>();
  for (const { segment, name } of plans.flatMap(({ policies }) => policies)) {
    const other = names.get(segment) ?? name;
    names.set(segment, name);
    if (other === name) continue;
    const advice = `it would share its keys with a policy of a group, named ${segment} together; rename one`;
    const longer = other.length > name.length ? other : name;
    throw new ConfigError("TIDEGATE_POLICY_DUPLICATE", `policies.${longer}`, longer, advice);
  }
}

/**
 * What stands for a policy in a key. Where each route is counted for itself, that is the route's name as well, unless
 * the policy is counted for one route or group alone anyway. All routes without a name are one.
 *
 * @param route as the `routes` table or the framework names it
 */
export function segmentOf(
  { name, segment }: NamedPolicy,
  perRoute: boolean | undefined,
  route: string | undefined,
): string {
  return perRoute && segment === name ? `${safeValue(route ?? "-")}.${name}` : segment;
}

/** Every policy is a key that the server reads within one script. */
function notTooMany(option: string, count: number): void {
  if (count <= MOST_POLICIES) return;
  const advice = `give at most ${MOST_POLICIES} policies`;
  throw new ConfigError("TIDEGATE_OPTION_INVALID", option, count, advice);
}

type HasPolicies<R> = Pick<RouteOverride<R>, "policies" | "limit" | "window">;

function policiesIn<R>(at: string, { policies, limit, window }: HasPolicies<R>): Record<string, unknown> {
  const option = under(at, "policies");
  if (limit === undefined && window === undefined) {
    if (typeof policies === "object" && policies !== null && !Array.isArray(policies)) return policies;
    const advice =
      typeof policies === "function"
        ? "give the policies themselves, and make single ones depend on the request with perRequest()"
        : "name policies, or give limit and window";
    throw new ConfigError("TIDEGATE_POLICY_MISSING", option, policies, advice);
  }
  if (policies !== undefined) {
    const advice = "give either limit and window, or policies";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", under(at, "limit"), limit, advice);
  }
  return { default: slidingWindow({ limit: limit as number, window: window as Duration }) };
}

/** @param option where these policies stand */
function named<R>(
  option: string,
  policies: Record<string, unknown>,
  by: IdentitySource<R> | undefined,
  mode: Mode | undefined,
  segmentFor: (name: string, value: unknown) => string,
): NamedPolicy<R>[] {
  const entries = Object.entries(policies);
  if (entries.length === 0)
    throw new ConfigError("TIDEGATE_POLICY_MISSING", option, policies, "name at least one policy");
  notTooMany(option, entries.length);
  const seen = new Map<string, string>();
  return entries.map(([name, value]) => {
    const own = `${option}.${name}`;
    if (!NAME.test(name)) {
      throw new ConfigError(
        "TIDEGATE_POLICY_NAME",
        option,
        name,
        "a name is 1 to 64 of A-Z a-z 0-9 _ . -, a letter first",
      );
    }
    const twin = seen.get(name.toLowerCase());
    if (twin !== undefined) {
      throw new ConfigError(
        "TIDEGATE_POLICY_DUPLICATE",
        own,
        name,
        `names that differ in case only are one name: rename it or ${twin}`,
      );
    }
    seen.set(name.toLowerCase(), name);
    const { base, choose } = isPolicy(value)
      ? { base: value, choose: undefined }
      : perRequestOf<R>(own, value);
    return {
      name,
      segment: segmentFor(name, value),
      policy: inMode(base, mode),
      choose: choose && mode ? chosenInMode(choose, mode) : choose,
      by: byOf<R>(`${own}.by`, base.by) ?? by,
    };
  });
}

const inMode = (policy: Policy, mode: Mode | undefined): Policy =>
  mode === undefined || policy.mode === mode ? policy : Object.freeze({ ...policy, mode });

/** What is no policy is left for others to refuse. */
function chosenInMode<R>(choose: PerRequestPolicy<R>["choose"], mode: Mode): PerRequestPolicy<R>["choose"] {
  const put = (policy: Policy) => (isPolicy(policy) ? inMode(policy, mode) : policy);
  return (request) => {
    const chosen = choose(request);
    return typeof (chosen as PromiseLike<Policy>)?.then === "function"
      ? (chosen as PromiseLike<Policy>).then(put)
      : put(chosen as Policy);
  };
}

function perRequestOf<R>(option: string, value: unknown): PerRequestPolicy<R> {
  const { base, choose } = (value ?? {}) as Partial<PerRequestPolicy<R>>;
  if (!isPolicy(base) || typeof choose !== "function") {
    const advice = "give a policy such as tokenBucket({ … })";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", option, value, advice);
  }
  return { base, choose };
}

function byOf<R>(option: string, by: unknown): IdentitySource<R> | undefined {
  if (by === undefined) return undefined;
  if (typeof by !== "function" && typeof (by as Partial<IdentitySource> | null)?.identify !== "function") {
    const advice = "give ip(), apiKey({ … }), globally() or a function of the request";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", option, by, advice);
  }
  return toSource(by as By<R>);
}

function costOf<R>(option: string, cost: unknown): Cost<R> {
  if (typeof cost === "function" || isCost(cost)) return cost as Cost<R>;
  const advice = "give a whole number from 0, or a function of the request";
  throw new ConfigError("TIDEGATE_OPTION_INVALID", option, cost, advice);
}

function modeOf(option: string, mode: unknown): Mode | undefined {
  return mode === undefined ? undefined : oneOf<Mode>(option, mode, ["enforce", "shadow"]);
}

function groupOf(option: string, group: unknown): string {
  if (typeof group === "string" && NAME.test(group)) return group;
  const advice = "a group's name is 1 to 64 of A-Z a-z 0-9 _ . -, a letter first";
  throw new ConfigError("TIDEGATE_OPTION_INVALID", option, group, advice);
}

const STRICTNESS = { open: 0, local: 1, closed: 2 };

const kindOf = (rule: FailureRule): Failure["rule"] => (typeof rule === "string" ? rule : "local");

/**
 * Of the rules of a request's policies the strictest. Policies on trial have no say.
 *
 * @param usual the rule of policies that say nothing of their own
 */
function failureOf<R>(
  at: string,
  policies: readonly NamedPolicy<R>[],
  usual: FailureRule,
  { by, instances }: Sharing<R>,
): Failure<R> {
  checkRule(under(at, "onFailure"), usual, instances);
  const local: NamedPolicy<R>[] = [];
  let strictest: Failure["rule"] = "open";
  for (const named of policies) {
    const { name, policy } = named;
    if (policy.mode === "shadow") continue;
    const option = under(at, `policies.${name}.onFailure`);
    const rule = policy.onFailure === undefined ? usual : checkRule(option, policy.onFailure, instances);
    const kind = kindOf(rule);
    if (STRICTNESS[kind] > STRICTNESS[strictest]) strictest = kind;
    if (kind !== "local") continue;
    const own =
      rule === "local" ? [shareOf(named, instances!)] : localPolicies(option, rule, named, usual, by);
    for (const each of own) addLocal(option, local, each);
  }
  return { rule: strictest, local: strictest === "local" ? local : [] };
}

const shareOf = <R>(named: NamedPolicy<R>, instances: number): NamedPolicy<R> => ({
  ...named,
  policy: named.policy.shareOf(instances),
  choose: undefined,
});

/** The policies of a rule: whose own rule it is, they count as that policy does. */
function localPolicies<R>(
  option: string,
  rule: FailureRule,
  owner: NamedPolicy<R>,
  usual: FailureRule,
  by: IdentitySource<R> | undefined,
): NamedPolicy<R>[] {
  const { local } = rule as LocalRule;
  return named(`${option}.local`, local, rule === usual ? by : owner.by, undefined, (name) => name);
}

/** The rule of a whole limiter brings its policies once, however many policies it answers for. */
function addLocal<R>(option: string, all: NamedPolicy<R>[], one: NamedPolicy<R>): void {
  const twin = all.find(({ name }) => name.toLowerCase() === one.name.toLowerCase());
  if (!twin) all.push(one);
  else if (twin.policy !== one.policy) {
    const advice = "two local policies of one request have this name; rename one";
    throw new ConfigError("TIDEGATE_POLICY_DUPLICATE", option, one.name, advice);
  }
}

function checkRule(option: string, rule: unknown, instances: number | undefined): FailureRule {
  if (rule === "local" && instances === undefined) {
    const advice = "say by instances how many processes share the limits, or give { local: policies }";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", option, rule, advice);
  }
  if (typeof rule !== "object" || rule === null)
    return oneOf<"open" | "closed" | "local">(option, rule, ["open", "closed", "local"]);
  onlyKnown(option, rule, ["local"]);
  const { local } = rule as Partial<LocalRule>;
  if (typeof local !== "object" || local === null || Array.isArray(local)) {
    const advice = "give this process's own policies by name";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", `${option}.local`, local, advice);
  }
  named(`${option}.local`, local, undefined, undefined, (name) => name);
  return rule as LocalRule;
}

type Settles<R> = Pick<RouteOverride<R>, "giveBackOn" | "settle">;

function settleOf<R>(at: string, { giveBackOn, settle }: Settles<R>): Plan<R>["settle"] {
  optionalFunction(under(at, "settle"), settle);
  if (giveBackOn === undefined) return settle;
  const option = under(at, "giveBackOn");
  if (settle !== undefined) {
    const advice = "give either giveBackOn or settle, not both";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", option, giveBackOn, advice);
  }
  const onSuccess = oneOf(option, giveBackOn, ["success", "failure"]) === "success";
  return ({ status, aborted }) => {
    const success = !aborted && status !== undefined && status < 400;
    return success === onSuccess ? "giveBack" : "keep";
  };
}

const under = (at: string, option: string): string => (at === "" ? option : `${at}.${option}`);
