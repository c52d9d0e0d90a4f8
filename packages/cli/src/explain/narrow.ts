/** What of a policy file counts somebody, plan by plan. */
import {
  type By,
  type Config,
  type Identity,
  type Policy,
  type RouteOverride,
  slidingWindow,
} from "@tidegate/core";
import { policiesIn } from "../policies.ts";
import { countedBy } from "../counted.ts";
import type { Somebody } from "../who.ts";

/** What holds everywhere, or on a route, of that which counts somebody. */
export interface Narrowed {
  /** As the file names it; `undefined`: what holds where no route says otherwise. */
  readonly route: string | undefined;
  readonly config: Config;
  /** By policy, in the file's order. Those that count nobody of these are not there. */
  readonly policies: Readonly<Record<string, Policy>>;
  /** Policies that count others than these. */
  readonly leftOut: readonly string[];
  /** Whether a policy counts these in particular, and not everybody together. */
  readonly personal: boolean;
}

type Policies = Readonly<Record<string, Policy>>;

export function narrowedPlans(config: Config, people: readonly Somebody[]): Narrowed[] {
  const wrapped = wrapper(people);
  const usual = policiesIn(config) ?? {};
  const { limit: _, window: __, routes, ...rest } = config;
  const plan = (route: string | undefined, override: RouteOverride): Narrowed => {
    const by = override.by ?? config.by;
    const own = policiesIn(override);
    const narrow = (policies: Policies) => narrowed(policies, by, people, wrapped);
    const [mine, theirs] = [narrow(usual), own && narrow(own)];
    const held = theirs ?? mine;
    const who = countedBy(by, people);
    const { limit: _, window: __, policies: ___, by: ____, ...given } = override;
    const ours = { ...given, ...(theirs && { policies: theirs.kept }) };
    return {
      route,
      config: {
        ...rest,
        policies: Object.keys(mine.kept).length > 0 ? mine.kept : NOBODYS,
        ...(who && { by: () => who }),
        ...(route !== undefined && { routes: { [route]: ours } }),
      },
      policies: held.kept,
      leftOut: held.leftOut,
      personal: held.personal,
    };
  };
  const onRoutes = Object.entries(routes ?? {}).flatMap(([name, override]) =>
    override === false ? [] : [plan(name, override)],
  );
  return [plan(undefined, {}), ...onRoutes];
}

/** A configuration needs a policy, also where only a route's are asked about. */
const NOBODYS: Policies = { nobodys: slidingWindow({ limit: 1, window: 1000 }) };

/**
 * A policy with a `by` of its own, counting whom it would count. Each becomes one object: core tells by the object
 * whether a route's policy is the configuration's own.
 */
function wrapper(people: readonly Somebody[]) {
  const made = new Map<Policy, { readonly policy: Policy; readonly who: Identity | undefined }>();
  return (policy: Policy) => {
    const known = made.get(policy);
    if (known) return known;
    const who = countedBy(policy.by, people);
    const one = { policy: who ? Object.freeze({ ...policy, by: () => who }) : policy, who };
    made.set(policy, one);
    return one;
  };
}

function narrowed(
  policies: Policies,
  by: By | undefined,
  people: readonly Somebody[],
  wrapped: ReturnType<typeof wrapper>,
) {
  const kept: Record<string, Policy> = {};
  const leftOut: string[] = [];
  let personal = false;
  for (const [name, policy] of Object.entries(policies)) {
    const one = policy.by ? wrapped(policy) : { policy, who: countedBy(by, people) };
    if (!one.who) {
      leftOut.push(name);
      continue;
    }
    kept[name] = one.policy;
    personal ||= one.who.kind !== "all" || people.some(({ kind }) => kind === "all");
  }
  return { kept, leftOut, personal };
}
