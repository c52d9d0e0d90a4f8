import type { FailureRule, LocalRule } from "./algorithms/policy.ts";
import { ConfigError } from "./errors.ts";
import type { IdentitySource } from "./identity/identity.ts";
import { type NamedPolicy, named } from "./named-policies.ts";
import { oneOf, onlyKnown, under } from "./options.ts";

/** What answers when the store cannot. */
export interface Failure<R = any> {
  readonly rule: "open" | "closed" | "local";
  /** The policies of this process's own, under the rule `local`. */
  readonly local: readonly NamedPolicy<R>[];
}

/** What {@link failureOf} has to know of a configuration besides its policies. */
export interface Sharing<R> {
  readonly by: IdentitySource<R> | undefined;
  readonly instances: number | undefined;
}

const STRICTNESS = { open: 0, local: 1, closed: 2 };

const kindOf = (rule: FailureRule): Failure["rule"] => (typeof rule === "string" ? rule : "local");

/**
 * Of the rules of a request's policies the strictest. Policies on trial have no say.
 *
 * @param usual the rule of policies that say nothing of their own
 */
export function failureOf<R>(
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
  // What this process counts alone is a share already.
  policy: named.policy.scope === "process" ? named.policy : named.policy.shareOf(instances),
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

/** @throws ConfigError when it is no rule, or one that cannot work */
export function checkRule(option: string, rule: unknown, instances: number | undefined): FailureRule {
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
