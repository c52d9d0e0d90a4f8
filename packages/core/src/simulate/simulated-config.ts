import { isPolicy, type Policy } from "../algorithms/policy.ts";
import type { Config, PerRequestPolicy, RouteOverride } from "../config.ts";
import { isThenable } from "../identity/sources.ts";
import type { EventListener } from "../observe/events.ts";
import type { Store } from "../stores/store.ts";
import type { Settling } from "./settling.ts";
import type { Watches } from "./watch.ts";

/** Longer than any function of a configuration takes: no deadline is to decide here. */
const LONG_MS = 60_000;

/** Names simulated decisions to whoever watches the channels of a process. */
export const PREFIX = "simulation";

export interface Surroundings {
  readonly store: Store;
  readonly onEvent: EventListener;
  readonly settling: Settling;
  readonly watches: Watches;
}

/**
 * The configuration as it is simulated. Where it is stored, what answers when that fails, who stood between and what
 * responses say does not matter here; what a process would count alone is counted once for all.
 */
export function simulatedConfig(config: Config, surroundings: Surroundings): Config {
  const { store, onEvent, settling, watches } = surroundings;
  const own: Config = { ...config };
  for (const option of WITHOUT) delete own[option];
  if (config.by !== undefined) own.by = watches.watched(config.by);
  const placed = placing(watches);
  if (isRecord(config.policies)) own.policies = placed.all(config.policies);
  if (isRecord(config.routes)) own.routes = routesOf(config.routes, placed, surroundings);
  if (typeof config.settle === "function") own.settle = settling.once(config.settle);
  return {
    ...own,
    store,
    prefix: PREFIX,
    onEvent,
    timeoutMs: LONG_MS,
    functionTimeoutMs: LONG_MS,
    headers: { standard: false, retryAfter: false },
    denyCache: false,
    blocking: false,
  };
}

const WITHOUT = ["redis", "shareConnection", "scripting", "trustProxy", "onFailure", "onLimited"] as const;

type Given = Policy | PerRequestPolicy;

/** Policies as they are counted here. The same object for the same one: by that a route shares what others count. */
function placing(watches: Watches) {
  const known = new Map<unknown, Given>();
  const all = (policies: Readonly<Record<string, Given>>): Record<string, Given> =>
    Object.fromEntries(Object.entries(policies).map(([name, value]) => [name, one(value)]));

  function one(value: Given): Given {
    let made = known.get(value);
    if (!made) known.set(value, (made = isPolicy(value) ? inStore(value) : chosenInStore(value)));
    return made;
  }

  function inStore(policy: Policy): Policy {
    const by = watches.watched(policy.by);
    if (policy.scope === "shared" && policy.onFailure === undefined && by === policy.by) return policy;
    return Object.freeze({ ...policy, by, scope: "shared", onFailure: undefined });
  }

  /** What is no policy is left for others to refuse. */
  function chosenInStore(value: PerRequestPolicy): PerRequestPolicy {
    if (!isPolicy(value?.base) || typeof value.choose !== "function") return value;
    const place = (policy: Policy) => (isPolicy(policy) ? inStore(policy) : policy);
    return {
      base: inStore(value.base),
      choose(request) {
        const chosen = value.choose(request);
        return isThenable(chosen) ? chosen.then(place) : place(chosen);
      },
    };
  }

  return { all };
}

function routesOf(
  routes: NonNullable<Config["routes"]>,
  placed: ReturnType<typeof placing>,
  { settling, watches }: Surroundings,
): Record<string, RouteOverride | false> {
  const own = Object.entries(routes).map(([route, override]): [string, RouteOverride | false] => {
    if (!isRecord(override)) return [route, override];
    const { onFailure: _, ...rest } = override as RouteOverride;
    if (rest.by !== undefined) rest.by = watches.watched(rest.by);
    if (isRecord(rest.policies)) rest.policies = placed.all(rest.policies);
    if (typeof rest.settle === "function") rest.settle = settling.once(rest.settle);
    return [route, rest];
  });
  return Object.fromEntries(own);
}

const isRecord = (value: unknown): value is Record<string, never> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
