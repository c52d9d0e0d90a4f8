import type { StoreError, StoreErrorClass } from "../errors.ts";
import type { Events } from "../observe/events.ts";

/** Faults of one key: the store is well, and other identities do not notice. */
const OF_ONE_KEY: readonly StoreErrorClass[] = ["foreign", "broken"];

/** Whether the store answers. Each change is one event, however many requests see it. */
export class Health {
  readonly #events: Events;
  #degradedSince: number | undefined;

  constructor(events: Events) {
    this.#events = events;
  }

  failed(error: StoreError): void {
    if (this.#degradedSince !== undefined || OF_ONE_KEY.includes(error.reason)) return;
    this.#degradedSince = performance.now();
    this.#events.emit({ type: "storeError", reason: error.reason, message: error.message });
  }

  answered(): void {
    if (this.#degradedSince === undefined) return;
    const afterMs = Math.round(performance.now() - this.#degradedSince);
    this.#degradedSince = undefined;
    this.#events.emit({ type: "recovered", afterMs });
  }
}
