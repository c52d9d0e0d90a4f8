import { TAGS } from "./algorithms/index.ts";
import { type Identity, identityText } from "./identity/identity.ts";
import { blockKeyOf, keyOf, shardOf } from "./identity/key.ts";
import { type NamedPolicy, segmentOf } from "./named-policies.ts";
import type { Events } from "./observe/events.ts";
import type { Plan } from "./plans.ts";
import type { Settings } from "./settings.ts";
import type { Changed, Store } from "./stores/store.ts";

/** What people do by hand. Each leaves an audit event. */
export interface Manage<R = any> {
  /** Policies that a reset is to find, besides those of the configuration and its routes. */
  learn(plan: Pick<Plan<R>, "policies">): void;
  /** Routes that a reset is to find where policies count each for itself, besides those of the configuration. */
  learnRoute(name: string): void;
  /** The names of all policies that a reset finds. */
  names(): string[];
  reset(identity: Identity, names: readonly string[] | undefined, done: Changed): void;
  /** For `ms`, or for ever when `Infinity`. */
  block(identity: Identity, ms: number, reason: string, done: Changed): void;
  unblock(identity: Identity, done: Changed): void;
}

export function manageOf<R>(
  settings: Settings<R>,
  store: Pick<Store, "forget" | "block">,
  events: Events,
): Manage<R> {
  const policies = new Set<NamedPolicy<R>>(settings.plan.policies);
  const routes = new Set(settings.routes.map(({ name }) => name));
  for (const { plan } of settings.routes) if (plan) learn(plan);

  function learn(plan: Pick<Plan<R>, "policies">): void {
    for (const policy of plan.policies) policies.add(policy);
  }

  function audit(
    action: "reset" | "block" | "unblock",
    identity: Identity,
    reason: string,
    done: Changed,
  ): Changed {
    return (error, changed) => {
      if (!error) events.emit({ type: "audit", action, identity: identityText(identity), reason });
      done(error, changed);
    };
  }

  /** Every key under which a policy may have counted an identity. */
  function keysOf(named: NamedPolicy<R>, identity: Identity): string[] {
    const { policy, choose, by } = named;
    const places = by?.perRoute ? [undefined, ...routes] : [undefined];
    const segments = places.map((route) => segmentOf(named, by?.perRoute, route));
    const tags = choose ? TAGS : [policy.algorithm.tag];
    const counted = [identity, ...(policy.shards ?? []).map((_, shard) => shardOf(identity, shard))];
    return counted.flatMap((one) =>
      segments.flatMap((segment) => tags.map((tag) => keyOf(settings.prefix, one, segment, tag))),
    );
  }

  return {
    learn,
    learnRoute: (name) => void routes.add(name),
    names: () => [...new Set([...policies].map(({ name }) => name))],
    reset(identity, names, done) {
      const chosen = [...policies].filter(({ name }) => names?.includes(name) ?? true);
      // A policy that counts all together is forgotten when it is asked for by name.
      const keys = chosen.flatMap((named) => keysOf(named, (names && named.by?.constant) ?? identity));
      const told = [...new Set(chosen.map(({ name }) => name))].join(", ");
      store.forget([...new Set(keys)], audit("reset", identity, told, done));
    },
    block(identity, ms, reason, done) {
      store.block(blockKeyOf(settings.prefix, identity), ms, reason, audit("block", identity, reason, done));
    },
    unblock(identity, done) {
      store.forget([blockKeyOf(settings.prefix, identity)], audit("unblock", identity, "", done));
    },
  };
}
