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
  /** `open`: the store is not asked any more, but looked at in the background. */
  readonly breaker: "closed" | "open";
}

interface Outage {
  readonly since: number;
  readonly told: Set<StoreErrorClass>;
}

/** Whether the store answers. Each change is one event, however many requests see it. */
export class Health {
  readonly #events: Events;
  readonly #recovered: () => void;
  #outage: Outage | undefined;
  #since = Date.now();
  #lastError: StoreErrorClass | undefined;

  /** @param recovered called at the end of every outage */
  constructor(events: Events, recovered: () => void) {
    this.#events = events;
    this.#recovered = recovered;
  }

  failed({ reason, message }: StoreError): void {
    this.#lastError = reason;
    if (OF_ONE_KEY.includes(reason)) return;
    const news = !this.#outage || (OF_THE_SETUP.includes(reason) && !this.#outage.told.has(reason));
    if (!this.#outage) {
      this.#outage = { since: performance.now(), told: new Set() };
      this.#since = Date.now();
    }
    if (!news) return;
    this.#outage.told.add(reason);
    this.#events.emit({ type: "storeError", reason, message });
  }

  answered(): void {
    if (!this.#outage) return;
    const afterMs = Math.round(performance.now() - this.#outage.since);
    this.#outage = undefined;
    this.#since = Date.now();
    this.#recovered();
    this.#events.emit({ type: "recovered", afterMs });
  }

  /** @param connected whether the store can be asked, as far as that is known without asking */
  report(breakerIsOpen: boolean, connected: boolean): HealthReport {
    return {
      state: this.#outage || !connected ? "degraded" : "ok",
      since: this.#since,
      lastError: this.#lastError,
      breaker: breakerIsOpen ? "open" : "closed",
    };
  }
}
