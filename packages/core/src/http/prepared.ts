import type { Policy } from "../algorithms/policy.ts";
import type { IdentitySource } from "../identity/identity.ts";
import { ip } from "../identity/sources.ts";
import type { NamedPolicy } from "../named-policies.ts";
import { fixedPolicyField } from "./headers.ts";
import type { NamedLimit } from "./items.ts";

/** Policies as a request meets them, and what is the same for every request. */
export interface Prepared<R = any> {
  readonly policies: readonly WithBy<R>[];
  /** Each asked once per request, however many policies count by it. */
  readonly sources: readonly IdentitySource<R>[];
  /** This process's own policies, for a time without a store. */
  readonly local: readonly WithBy<R>[];
  readonly localLimits: readonly NamedLimit[];
  /** Whether functions say what these cost. */
  readonly localAsks: boolean;
  /** `undefined`: they depend on the request. */
  readonly limits: readonly NamedLimit[] | undefined;
  /** `RateLimit-Policy`, where it is the same for every request. */
  readonly policyField: string | undefined;
}

type WithBy<R> = NamedPolicy<R> & { readonly by: IdentitySource<R> };

const byAddress = ip();

/**
 * @param local policies of this process's own
 * @param partitioned whether fields tell partitions apart, which depend on the request
 */
export function prepare<R>(
  named: readonly NamedPolicy<R>[],
  local: readonly NamedPolicy<R>[],
  partitioned: boolean,
): Prepared<R> {
  const [policies, ofThisProcess] = [named.map(withBy), local.map(withBy)];
  const limits = policies.some(({ choose }) => choose) ? undefined : shownLimits(policies);
  return {
    policies,
    local: ofThisProcess,
    sources: [...new Set([...policies, ...ofThisProcess].map(({ by }) => by))],
    localLimits: shownLimits(ofThisProcess),
    localAsks: ofThisProcess.some(({ policy }) => typeof policy.cost === "function"),
    limits,
    policyField: limits && !partitioned ? fixedPolicyField(limits) : undefined,
  };
}

const withBy = <R>(policy: NamedPolicy<R>): WithBy<R> => ({ ...policy, by: policy.by ?? byAddress });

type Shown = { readonly name: string; readonly policy: Policy };

/** A policy on trial is not shown. */
export const isShown = ({ policy }: Pick<Shown, "policy">): boolean => policy.mode === "enforce";

export const shownLimits = (parts: readonly Shown[]): NamedLimit[] =>
  parts.filter(isShown).map(({ name, policy: { limit, windowMs, rolling, unit } }) => ({
    name,
    limit,
    windowMs,
    rolling,
    unit,
  }));
