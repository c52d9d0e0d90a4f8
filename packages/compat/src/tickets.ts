import type { Decision } from "@tidegate/core";

/** Hits that may be taken back, over all keys: about 10 MB. The keys that came longest ago are forgotten first. */
const MOST = 20_000;

/** What this process counted and may have to take back: a hit can be taken back once, and only by what it was counted with. */
export class Tickets {
  readonly #most: number;
  readonly #byKey = new Map<string, Decision[]>();
  #size = 0;

  constructor(most: number = MOST) {
    this.#most = most;
  }

  get size(): number {
    return this.#size;
  }

  put(key: string, decision: Decision): void {
    const kept = this.#byKey.get(key) ?? [];
    let over = 0;
    while (over < kept.length && endOf(kept[over]!) <= decision.at) over++;
    if (over > 0) kept.splice(0, over);
    kept.push(decision);
    this.#size += 1 - over;
    this.#byKey.delete(key);
    this.#byKey.set(key, kept);
    if (this.#size > this.#most) this.#shrink(key, kept);
  }

  /** The latest, if there is one. */
  take(key: string): Decision | undefined {
    const kept = this.#byKey.get(key);
    const decision = kept?.pop();
    if (decision) this.#size--;
    if (kept?.length === 0) this.#byKey.delete(key);
    return decision;
  }

  #shrink(latest: string, kept: Decision[]): void {
    for (const [oldest] of this.#byKey) {
      if (this.#size <= this.#most || oldest === latest) break;
      this.drop(oldest);
    }
    if (this.#size > this.#most) this.#size -= kept.splice(0, this.#size - this.#most).length;
  }

  drop(key: string): void {
    this.#size -= this.#byKey.get(key)?.length ?? 0;
    this.#byKey.delete(key);
  }
}

/** When a charge is forgotten anyway, milliseconds since 1970 by the store's clock. */
const endOf = ({ at, verdicts: [verdict] }: Decision): number => at + (verdict?.fullMs ?? 0);
