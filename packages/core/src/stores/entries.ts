import { ByEnd, type Links, NONE } from "./by-end.ts";

/**
 * What an entry's last answer was, or that newcomers share it. The first three are forgotten in this order; what is
 * shared stands in no list.
 */
export type Shelf = typeof ADMITTED | typeof REFUSED | typeof BLOCKED | typeof SHARED;
export const [ADMITTED, REFUSED, BLOCKED, SHARED] = [0, 1, 2, 3] as const;

/**
 * Entries of a memory store, each a number. What they hold lies in arrays and not in objects: a third of the memory,
 * and nothing for the collector to walk through but their states.
 */
export class Entries implements Links {
  /** When each ends, µs. */
  ends = new Float64Array(FIRST);
  states: unknown[] = [];
  next = new Int32Array(FIRST);
  previous = new Int32Array(FIRST);
  #keys: string[] = [];
  readonly #byKey = new Map<string, number>();
  /** What newcomers share, by policy. */
  readonly #shared = new Map<string, number>();
  #shelfOf = new Uint8Array(FIRST);
  readonly #shelves = [new ByEnd(this), new ByEnd(this), new ByEnd(this)];
  /** The first of those that are free; the others follow by `next`. */
  #free = NONE;

  /** Without those that newcomers share. */
  get size(): number {
    return this.#byKey.size;
  }

  get sharedSize(): number {
    return this.#shared.size;
  }

  find(key: string): number {
    return this.#byKey.get(key) ?? NONE;
  }

  findShared(policy: string): number {
    return this.#shared.get(policy) ?? NONE;
  }

  /** The key that an entry has now: one that was forgotten leaves its number to another. */
  keyOf(entry: number): string {
    return this.#keys[entry]!;
  }

  shelfOf(entry: number): Shelf {
    return this.#shelfOf[entry] as Shelf;
  }

  /** A new one. It has its place in the order of forgetting once it was {@link keep kept}. */
  add(key: string, shelf: Shelf): number {
    putTogether(key);
    const entry = this.#place();
    this.#keys[entry] = key;
    this.#shelfOf[entry] = shelf;
    this.ends[entry] = NEVER_KEPT;
    (shelf === SHARED ? this.#shared : this.#byKey).set(key, entry);
    return entry;
  }

  /** Gives an entry its state, its end (µs) and its place. */
  keep(entry: number, state: unknown, ends: number, shelf: Shelf): void {
    this.states[entry] = state;
    const [before, second] = [secondOf(this.ends[entry]!), secondOf(ends)];
    const shelfBefore = this.#shelfOf[entry] as Shelf;
    this.ends[entry] = ends;
    if (shelfBefore === SHARED || (before === second && shelfBefore === shelf)) return;
    if (before !== NEVER_KEPT) this.#shelves[shelfBefore]!.take(entry, before);
    this.#shelfOf[entry] = shelf;
    this.#shelves[shelf]!.put(entry, second);
  }

  remove(entry: number): void {
    const shelf = this.#shelfOf[entry] as Shelf;
    if (shelf === SHARED) this.#shared.delete(this.#keys[entry]!);
    else {
      this.#byKey.delete(this.#keys[entry]!);
      const second = secondOf(this.ends[entry]!);
      if (second !== NEVER_KEPT) this.#shelves[shelf]!.take(entry, second);
    }
    this.#keys[entry] = "";
    this.states[entry] = undefined;
    this.next[entry] = this.#free;
    this.#free = entry;
  }

  /** What is as if never used; else, of those that were let in, what will be so soonest; `NONE` when all others are refused. */
  goesFirst(now: number): number {
    for (const shelf of this.#shelves) {
      const soonest = shelf.soonest();
      if (soonest !== NONE && this.ends[soonest]! <= now) return soonest;
    }
    return this.#shelves[ADMITTED]!.soonest();
  }

  /** Forgets all that has ended, and the room that it took where most of it is empty. */
  sweep(now: number): void {
    const second = secondOf(now);
    for (const shelf of this.#shelves) {
      let entry = shelf.soonest();
      while (entry !== NONE && secondOf(this.ends[entry]!) < second) {
        this.remove(entry);
        entry = shelf.soonest();
      }
      // In the second that is not over, some have ended.
      while (entry !== NONE && secondOf(this.ends[entry]!) === second) {
        const next = this.next[entry]!;
        if (this.ends[entry]! <= now) this.remove(entry);
        entry = next;
      }
    }
    for (const entry of this.#shared.values()) if (this.ends[entry]! <= now) this.remove(entry);
    if (this.ends.length > FIRST && (this.size + this.sharedSize) * 4 < this.ends.length) this.#shrink();
  }

  /** Numbers all anew. */
  #shrink(): void {
    const all = [...this.#byKey, ...this.#shared].map(([key, entry]) => ({
      key,
      state: this.states[entry],
      ends: this.ends[entry]!,
      shelf: this.#shelfOf[entry] as Shelf,
    }));
    this.clear();
    for (const { key, state, ends, shelf } of all) this.keep(this.add(key, shelf), state, ends, shelf);
  }

  clear(): void {
    this.#byKey.clear();
    this.#shared.clear();
    this.#keys = [];
    this.states = [];
    this.#free = NONE;
    for (const shelf of this.#shelves) shelf.clear();
    this.ends = new Float64Array(FIRST);
    this.next = new Int32Array(FIRST);
    this.previous = new Int32Array(FIRST);
    this.#shelfOf = new Uint8Array(FIRST);
  }

  #place(): number {
    const free = this.#free;
    if (free !== NONE) {
      this.#free = this.next[free]!;
      return free;
    }
    const entry = this.#keys.length;
    if (entry === this.ends.length) this.#grow(entry * 2);
    this.#keys.push("");
    this.states.push(undefined);
    return entry;
  }

  #grow(length: number): void {
    this.ends = grown(this.ends, new Float64Array(length));
    this.next = grown(this.next, new Int32Array(length));
    this.previous = grown(this.previous, new Int32Array(length));
    this.#shelfOf = grown(this.#shelfOf, new Uint8Array(length));
  }
}

const FIRST = 64;

/** No moment, and no second of one. */
const NEVER_KEPT = -1;

const secondOf = (us: number): number => Math.floor(us / 1_000_000);

/** Looks at a letter, which makes one piece of a text. What was joined from pieces keeps them: 110 bytes more for a key. */
const putTogether = (text: string): number => text.charCodeAt(0);

function grown<T extends Float64Array | Int32Array | Uint8Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
