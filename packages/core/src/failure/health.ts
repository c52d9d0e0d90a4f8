import type { StoreError, StoreErrorClass } from "../errors.ts";
import type { Events } from "../observe/events.ts";

/** Faults of one key: the store is well, and other identities do not notice. */
const OF_ONE_KEY: readonly StoreErrorClass[] = ["foreign", "broken"];

/** Faults that stay until somebody changes a setting: told even when something else failed before. */
const OF_THE_SETUP: readonly StoreErrorClass[] = ["denied", "server"];

interface Outage {
  readonly since: number;
  readonly told: Set<StoreErrorClass>;
}

/** Whether the store answers. Each change is one event, however many requests see it. */
export class Health {
  readonly #events: Events;
  #outage: Outage | undefined;

  constructor(events: Events) {
    this.#events = events;
  }

  failed({ reason, message }: StoreError): void {
    if (OF_ONE_KEY.includes(reason)) return;
    const news = !this.#outage || (OF_THE_SETUP.includes(reason) && !this.#outage.told.has(reason));
    this.#outage ??= { since: performance.now(), told: new Set() };
    if (!news) return;
    this.#outage.told.add(reason);
    this.#events.emit({ type: "storeError", reason, message });
  }

  answered(): void {
    if (!this.#outage) return;
    const afterMs = Math.round(performance.now() - this.#outage.since);
    this.#outage = undefined;
    this.#events.emit({ type: "recovered", afterMs });
  }
}
