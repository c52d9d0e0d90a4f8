/** Each entry's neighbours among those that end in the same second; `NONE`: there is none on that side. */
export interface Links {
  next: Int32Array;
  previous: Int32Array;
}

export const NONE = -1;

/** The entries that end in one second, in the order in which they came. */
interface Bucket {
  first: number;
  last: number;
}

/**
 * Entries, by number, in lists by the second in which they end. What ends soonest is found at once; putting and taking
 * one costs the same however many there are, but for a second that nothing else ends in.
 */
export class ByEnd {
  readonly #links: Links;
  readonly #buckets = new Map<number, Bucket>();
  /** A heap of the seconds that have a bucket: the least comes first. */
  readonly #seconds: number[] = [];

  /** @param links shared with others of its kind: an entry is in one list at most */
  constructor(links: Links) {
    this.#links = links;
  }

  put(entry: number, second: number): void {
    const { next, previous } = this.#links;
    let bucket = this.#buckets.get(second);
    if (!bucket) {
      bucket = { first: NONE, last: NONE };
      this.#buckets.set(second, bucket);
      this.#push(second);
    }
    next[entry] = NONE;
    previous[entry] = bucket.last;
    if (bucket.last === NONE) bucket.first = entry;
    else next[bucket.last] = entry;
    bucket.last = entry;
  }

  /** @param second in which it was put */
  take(entry: number, second: number): void {
    const { next, previous } = this.#links;
    const [before, after] = [previous[entry]!, next[entry]!];
    if (before !== NONE) next[before] = after;
    else this.#buckets.get(second)!.first = after;
    if (after !== NONE) previous[after] = before;
    else this.#buckets.get(second)!.last = before;
  }

  /** Of those that end in the soonest second the one that was put there first; `NONE` when there are none. */
  soonest(): number {
    for (;;) {
      const second = this.#seconds[0];
      if (second === undefined) return NONE;
      const { first } = this.#buckets.get(second)!;
      if (first !== NONE) return first;
      this.#buckets.delete(second);
      this.#pop();
    }
  }

  clear(): void {
    this.#buckets.clear();
    this.#seconds.length = 0;
  }

  #push(second: number): void {
    const heap = this.#seconds;
    let at = heap.push(second) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (heap[parent]! <= second) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = second;
  }

  #pop(): void {
    const heap = this.#seconds;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1]! < heap[child]!) child++;
      if (heap[child]! >= last) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
  }
}
