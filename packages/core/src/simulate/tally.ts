import type { Policy } from "../algorithms/policy.ts";
import { Column } from "./column.ts";
import type { Watch } from "./watch.ts";

/** A policy in its place, as the configuration or a route has it. */
export interface Place {
  readonly name: string;
  /** What stands for it in keys. */
  readonly segment: string;
  /** The base, where requests choose. */
  readonly policy: Policy;
  /** Whether requests choose its numbers. */
  readonly varies: boolean;
  /** Whether each route is counted for itself. */
  readonly perRoute: boolean;
}

/** What a policy was asked by one request. */
export interface Asking {
  /** µs. */
  readonly now: number;
  readonly units: number;
  readonly allowed: boolean;
  /** Whether an earlier grant was given again: nothing was asked of the policy. */
  readonly replayed: boolean;
  /** How long it took, µs. */
  readonly lasted: number;
  /** Units charged once it was through, besides those it asked for; below 0: given back. */
  readonly more: number;
}

/** What became of the requests of one identity, by one policy. */
export class Counter {
  readonly tally: Tally;
  /** As reports name it. */
  readonly identity: string;
  /** Its number among those of the policy, from 0. */
  readonly number: number;
  requests = 0;
  refused = 0;
  /** Milliseconds since 1970. */
  firstRefusedAt: number | null = null;
  lastRefusedAt: number | null = null;

  constructor(tally: Tally, identity: string, number: number) {
    this.tally = tally;
    this.identity = identity;
    this.number = number;
  }

  count(asking: Asking): void {
    this.requests++;
    this.tally.count(this, asking);
    if (asking.allowed) return;
    this.refused++;
    this.firstRefusedAt ??= asking.now / 1000;
    this.lastRefusedAt = asking.now / 1000;
  }
}

/** What became of the requests that one policy was asked about. */
export class Tally {
  readonly place: Place;
  /** The routes that it counts alone. */
  readonly routes: string[] = [];
  /** Of what says who it counts; routes may say otherwise. */
  readonly watches = new Set<Watch>();
  /** Refusals over time. */
  readonly refusals: number[];
  /** Whether its units are settled after responses. */
  settles = false;
  /** Whether what requests cost in the end is known too late to be replayed. */
  settlesLater = false;
  requests = 0;
  refused = 0;
  units = 0;
  firstRefusedAt: number | null = null;
  lastRefusedAt: number | null = null;
  readonly counters: Counter[] = [];

  /** Requests that asked for units: in columns, as they are many. */
  rows = 0;
  /** By row, in the order in which they came: the number of the identity. */
  readonly who = new Column(4);
  /** µs. */
  readonly at = new Column(8);
  /** Units beyond one. */
  readonly further = new Column(8);
  readonly lasted = new Column(8);
  readonly more = new Column(8);

  /** Where an identity may have several keys: numbers that requests choose may be another algorithm's, and shards. */
  readonly #byIdentity: Map<string, Counter> | undefined;

  constructor(place: Place, refusals: number[]) {
    this.place = place;
    this.refusals = refusals;
    this.#byIdentity = place.varies || place.policy.shards ? new Map() : undefined;
  }

  /** Asked once for each key. */
  counterOf(identity: string): Counter {
    const known = this.#byIdentity?.get(identity);
    if (known) return known;
    const counter = new Counter(this, identity, this.counters.length);
    this.counters.push(counter);
    this.#byIdentity?.set(identity, counter);
    return counter;
  }

  count({ number }: Counter, { now, units, allowed, replayed, lasted, more }: Asking): void {
    this.requests++;
    if (!allowed) {
      this.refused++;
      this.firstRefusedAt ??= now / 1000;
      this.lastRefusedAt = now / 1000;
    }
    if (replayed || units === 0) return;
    this.units += units;
    const row = this.rows++;
    this.who.set(row, number);
    this.at.set(row, now);
    this.further.set(row, units - 1);
    this.more.set(row, more);
    if (more !== 0 || this.place.policy.algorithm.renew) this.lasted.set(row, lasted);
  }
}

/** A policy as readers are told of it: `burst`, or `burst of POST /login`. */
export const namedIn = ({ place, routes }: Tally): string =>
  routes.length > 0 ? `${place.name} of ${routes.join(", ")}` : place.name;
