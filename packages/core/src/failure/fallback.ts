import type { Decision, Degraded } from "../decision.ts";
import type { StoreErrorClass } from "../errors.ts";
import { memoryStore } from "../stores/memory.ts";
import type { Store } from "../stores/store.ts";

/** The answer of a rule that knows nothing of counts, and invents none. */
export const degradedDecision = (
  rule: "open" | "closed",
  reason: StoreErrorClass,
  cost: number,
): Decision => ({
  allowed: rule === "open",
  at: Date.now(),
  cost,
  verdicts: [],
  retryAfterMs: rule === "open" ? 0 : null,
  degraded: { rule, reason },
  blocked: false,
  replayed: false,
  cached: false,
  receipt: undefined,
});

/** The same decision, told as one that was made in the store's place. */
export const inPlaceOf = (decision: Decision, degraded: Degraded): Decision => ({ ...decision, degraded });

/** Identities that the rule `local` keeps at once: about 3 MB. What is refused is forgotten last. */
const MOST_LOCAL = 10_000;

/** This process's memory for the time without a store. Made when it is first needed. */
export class LocalMemory {
  readonly #overflowed: () => void;
  readonly #clock: Store["nowUs"];
  #store: Store | undefined;

  /**
   * @param overflowed called when newcomers are counted together
   * @param clock of the store that it stands in for
   */
  constructor(overflowed: () => void, clock: Store["nowUs"]) {
    this.#overflowed = overflowed;
    this.#clock = clock;
  }

  get store(): Store {
    return (this.#store ??= this.#made());
  }

  #made(): Store {
    const store = memoryStore({ maxEntries: MOST_LOCAL, nowUs: this.#clock });
    store.onOverflow?.(this.#overflowed);
    return store;
  }

  /** Forgets everything: the store is back, and only what it counts holds. */
  drop(): void {
    void this.#store?.close();
    this.#store = undefined;
  }
}
