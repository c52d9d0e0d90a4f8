import { isPolicy, type Mode, type Policy } from "./algorithms/policy.ts";
import { slidingWindow } from "./algorithms/sliding-window.ts";
import type { PerRequestPolicy, RouteOverride } from "./config.ts";
import { ConfigError } from "./errors.ts";
import type { By, IdentitySource } from "./identity/identity.ts";
import { safeValue } from "./identity/key.ts";
import { toSource } from "./identity/sources.ts";
import { type Duration, under } from "./options.ts";

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

/**
 * A name that is valid as a String and as a Token of structured fields, and harmless in a key.
 * source: RFC 9651 §3.3.3, §3.3.4
 */
const NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/;

const MOST_POLICIES = 16;

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

/** @param option where these policies stand */
export function named<R>(
  option: string,
  policies: Record<string, unknown>,
  by: IdentitySource<R> | undefined,
  mode: Mode | undefined,
  segmentFor: (name: string, value: unknown) => string,
  instances?: number,
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
      policy: placed(base, mode, instances),
      choose: choose && chosen(choose, (policy) => placed(policy, mode, instances)),
      by: byOf<R>(`${own}.by`, base.by) ?? by,
    };
  });
}

/** A policy as it stands in this configuration: in its mode, and with this process's share where it counts alone. */
function placed(policy: Policy, mode: Mode | undefined, instances: number | undefined): Policy {
  const own = policy.scope === "process" && instances !== undefined ? policy.shareOf(instances) : policy;
  return mode === undefined || own.mode === mode ? own : inMode(own, mode);
}

const inMode = (policy: Policy, mode: Mode): Policy =>
  Object.freeze({ ...policy, mode, shards: policy.shards?.map((shard) => inMode(shard, mode)) });

/** What is no policy is left for others to refuse. */
function chosen<R>(
  choose: PerRequestPolicy<R>["choose"],
  place: (policy: Policy) => Policy,
): PerRequestPolicy<R>["choose"] {
  const put = (policy: Policy) => (isPolicy(policy) ? place(policy) : policy);
  return (request) => {
    const made = choose(request);
    return typeof (made as PromiseLike<Policy>)?.then === "function"
      ? (made as PromiseLike<Policy>).then(put)
      : put(made as Policy);
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

type HasPolicies<R> = Pick<RouteOverride<R>, "policies" | "limit" | "window">;

/** The policies that a configuration or a part of one gives, by name; not checked yet. */
export function policiesIn<R>(
  at: string,
  { policies, limit, window }: HasPolicies<R>,
): Record<string, unknown> {
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

export function byOf<R>(option: string, by: unknown): IdentitySource<R> | undefined {
  if (by === undefined) return undefined;
  if (typeof by !== "function" && typeof (by as Partial<IdentitySource> | null)?.identify !== "function") {
    const advice = "give ip(), apiKey({ … }), globally() or a function of the request";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", option, by, advice);
  }
  return toSource(by as By<R>);
}

/** A name for a group: it stands in keys as a policy's does. */
export function groupOf(option: string, group: unknown): string {
  if (typeof group === "string" && NAME.test(group)) return group;
  const advice = "a group's name is 1 to 64 of A-Z a-z 0-9 _ . -, a letter first";
  throw new ConfigError("TIDEGATE_OPTION_INVALID", option, group, advice);
}

/** Every policy is a key that the server reads within one script. */
export function notTooMany(option: string, count: number): void {
  if (count <= MOST_POLICIES) return;
  const advice = `give at most ${MOST_POLICIES} policies`;
  throw new ConfigError("TIDEGATE_OPTION_INVALID", option, count, advice);
}
