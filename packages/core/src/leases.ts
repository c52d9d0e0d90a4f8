import type { Policy } from "./algorithms/policy.ts";
import type { Charge } from "./decision.ts";
import type { Move, Store } from "./stores/store.ts";
import { every } from "./timers.ts";

/** So many renewals keep a server for about 0.2 ms. */
const MOST_AT_ONCE = 64;

/**
 * The leases this process holds, renewed by one heartbeat for all of them, three times within the
 * shortest. The timer holds no process.
 */
export class Leases {
  readonly #store: Pick<Store, "settle">;
  readonly #held = new Map<string, readonly Move[]>();
  #heartbeat: NodeJS.Timeout | undefined;
  #everyMs = Infinity;

  constructor(store: Pick<Store, "settle">) {
    this.#store = store;
  }

  /** From now on a lease is renewed. */
  hold(lease: string, charges: readonly { charge: Charge; policy: Policy }[]): void {
    const moves = charges.map(
      ({ charge: { key, units, mark }, policy }) =>
        ({ kind: "renew", policy, key, units, mark, lease }) as const,
    );
    const leaseMs = Math.min(...charges.map(({ policy }) => policy.numbers.b / 1000));
    this.#held.set(lease, moves);
    this.#beatEvery(leaseMs / 3);
  }

  /** A lease that is given back, or no longer wanted. */
  drop(lease: string): void {
    this.#held.delete(lease);
    if (this.#held.size === 0) this.stop();
  }

  stop(): void {
    clearInterval(this.#heartbeat);
    this.#heartbeat = undefined;
    this.#everyMs = Infinity;
  }

  #beatEvery(ms: number): void {
    if (ms >= this.#everyMs) return;
    clearInterval(this.#heartbeat);
    this.#everyMs = ms;
    this.#heartbeat = every(ms, () => this.#beat());
  }

  #beat(): void {
    // What cannot be renewed now is tried again at the next beat, before it ends.
    const moves = [...this.#held.values()].flat();
    for (let i = 0; i < moves.length; i += MOST_AT_ONCE) {
      this.#store.settle(moves.slice(i, i + MOST_AT_ONCE), () => {});
    }
  }
}
