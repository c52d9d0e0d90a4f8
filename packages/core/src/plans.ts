import type { Cost, FailureRule, Mode } from "./algorithms/policy.ts";
import type { Config, Extension, ResponseOutcome, RouteOverride, Settlement } from "./config.ts";
import { ConfigError } from "./errors.ts";
import { checkRule, type Failure, failureOf, type Sharing } from "./failure-rules.ts";
import type { MaybePromise } from "./identity/identity.ts";
import { safeValue } from "./identity/key.ts";
import { byOf, groupOf, named, type NamedPolicy, notTooMany, policiesIn } from "./named-policies.ts";
import { freeName } from "./names.ts";
import { isCost, oneOf, onlyKnown, optionalFunction, under } from "./options.ts";

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

/** @throws ConfigError for the first setting that cannot work */
export function planOf<R>(config: Config<R>): Plan<R> {
  const mode = modeOf("mode", config.mode);
  const by = byOf<R>("by", config.by);
  const policies = named("policies", policiesIn("", config), by, mode, (name) => name, config.instances);
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
  const policies = unchanged
    ? base.policies
    : named(under(at, "policies"), given, by, mode, segmentFor, config.instances);
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
        : named(under(at, "policies"), policiesIn(at, extension), by, mode, segmentFor, config.instances),
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

function costOf<R>(option: string, cost: unknown): Cost<R> {
  if (typeof cost === "function" || isCost(cost)) return cost as Cost<R>;
  const advice = "give a whole number from 0, or a function of the request";
  throw new ConfigError("TIDEGATE_OPTION_INVALID", option, cost, advice);
}

function modeOf(option: string, mode: unknown): Mode | undefined {
  return mode === undefined ? undefined : oneOf<Mode>(option, mode, ["enforce", "shadow"]);
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
