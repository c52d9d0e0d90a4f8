import type { StoreError, StoreErrorClass } from "../errors.ts";
import type { Events } from "../observe/events.ts";
import { OF_ONE_KEY } from "./breaker.ts";

/** Faults that stay until somebody changes a setting: told even when something else failed before. */
const OF_THE_SETUP: readonly StoreErrorClass[] = ["denied", "server"];

/** Whether a limiter's store answers, for readiness endpoints. */
export interface HealthReport {
  /** `degraded`: the failure rule answers, at least for some requests. */
  readonly state: "ok" | "degraded";
  /** Since when, milliseconds since 1970. */
  readonly since: number;
  /** What the store failed with last; `undefined`: never. */
  readonly lastError: StoreErrorClass | undefined;
  /** `open`: the store, or a server of a Cluster, is not asked any more, but looked at in the background. */
  readonly breaker: "closed" | "open";
}

const RULES = {
  open: 'the rule is "open", requests pass uncounted',
  closed: 'the rule is "closed", nobody passes',
  local: "this process decides by itself",
};

interface Outage {
  readonly since: number;
  readonly told: Set<StoreErrorClass>;
}

/** Whether the store answers. Each change is one event, however many requests see it; in a Cluster, of each server. */
export class Health {
  readonly #events: Events;
  readonly #rule: keyof typeof RULES;
  readonly #recovered: () => void;
  /** By the server's address; `undefined` where there is one only. */
  readonly #outages = new Map<string | undefined, Outage>();
  #since = Date.now();
  #lastError: StoreErrorClass | undefined;

  /**
   * @param rule what answers in the store's place, of the configuration
   * @param recovered called when the last outage is over
   */
  constructor(events: Events, rule: keyof typeof RULES, recovered: () => void) {
    this.#events = events;
    this.#rule = rule;
    this.#recovered = recovered;
  }

  failed({ reason, message }: StoreError, server: string | undefined): void {
    this.#lastError = reason;
    if (OF_ONE_KEY.includes(reason)) return;
    const outage = this.#outages.get(server);
    const news = !outage || (OF_THE_SETUP.includes(reason) && !outage.told.has(reason));
    if (!news) return;
    if (this.#outages.size === 0) this.#since = Date.now();
    if (outage) outage.told.add(reason);
    else this.#outages.set(server, { since: performance.now(), told: new Set([reason]) });
    this.#events.emit({ type: "storeError", reason, message, ...named(server) });
    this.#events.unheard(
      "TIDEGATE_STORE_AWAY",
      `The store cannot be asked: ${message}. Until it can, onFailure answers: ${RULES[this.#rule]}. Said once; onEvent and metrics tell of every outage.`,
    );
  }

  answered(server: string | undefined): void {
    if (this.#outages.size === 0) return;
    const outage = this.#outages.get(server);
    if (!outage) return;
    const afterMs = Math.round(performance.now() - outage.since);
    this.#outages.delete(server);
    if (this.#outages.size === 0) {
      this.#since = Date.now();
      this.#recovered();
    }
    this.#events.emit({ type: "recovered", afterMs, ...named(server) });
  }

  /** @param connected whether the store can be asked, as far as that is known without asking */
  report(breakerIsOpen: boolean, connected: boolean): HealthReport {
    return {
      state: this.#outages.size > 0 || !connected ? "degraded" : "ok",
      since: this.#since,
      lastError: this.#lastError,
      breaker: breakerIsOpen ? "open" : "closed",
    };
  }
}

/** Where there is one server only, an event names none. */
const named = (server: string | undefined) => (server === undefined ? {} : { server });
