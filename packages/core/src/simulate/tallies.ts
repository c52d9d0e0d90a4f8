import { safeValue } from "../identity/key.ts";
import type { Plan } from "../plans.ts";
import type { Settings } from "../settings.ts";
import { PREFIX } from "./simulated-config.ts";
import type { Steps } from "./steps.ts";
import { type Counter, Tally } from "./tally.ts";
import type { Watches } from "./watch.ts";

/** Finds the policy and the identity that a key stands for. */
export class Tallies {
  /** In the order of the configuration, then of its routes. */
  readonly all: readonly Tally[];
  readonly #bySegment = new Map<string, Tally>();
  /** Routes by what stands for them in keys. */
  readonly #routes = new Map<string, string>([["-", "no route"]]);

  constructor({ plan, routes }: Pick<Settings, "plan" | "routes">, steps: Steps, watches: Watches) {
    for (const { name } of routes) this.#routes.set(safeValue(name), name);
    for (const each of [plan, ...routes.map((route) => route.plan)])
      if (each) this.#learn(each, steps, watches);
    this.all = [...this.#bySegment.values()];
  }

  #learn({ policies, route, settle }: Plan, steps: Steps, watches: Watches): void {
    for (const { name, segment, policy, choose, by } of policies) {
      let tally = this.#bySegment.get(segment);
      if (!tally) {
        const place = {
          name,
          segment,
          policy,
          varies: choose !== undefined,
          perRoute: by?.perRoute ?? false,
        };
        this.#bySegment.set(segment, (tally = new Tally(place, steps.series())));
      }
      const watch = watches.of(by);
      if (watch) tally.watches.add(watch);
      if (settle) tally.settles = true;
      if (segment !== name && route !== undefined) tally.routes.push(route);
    }
  }

  /** @param key as `keyOf` and `shardOf` make them */
  counterOf(key: string): Counter {
    const end = key.indexOf("}");
    // What a shard is called stands behind a sign that no identity has.
    const shard = key.lastIndexOf("#", end);
    const identity = key.slice(PREFIX.length + 2, shard < 0 ? end : shard);
    const segment = key.slice(end + 2, key.lastIndexOf(":"));
    const tally = this.#bySegment.get(segment);
    if (tally) return tally.counterOf(identity);
    const { tally: ofName, route } = this.#perRoute(segment);
    return ofName.counterOf(`${identity} (${route})`);
  }

  /** Of a policy that counts each route for itself, its route stands before its name. */
  #perRoute(segment: string): { tally: Tally; route: string } {
    for (const tally of this.all) {
      const { name, perRoute } = tally.place;
      const route = this.#routes.get(segment.slice(0, -name.length - 1));
      if (perRoute && route !== undefined && segment.endsWith(`.${name}`)) return { tally, route };
    }
    throw new Error(`no policy of this configuration is counted as ${segment}`);
  }
}
