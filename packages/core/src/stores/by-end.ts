/** Something that ends, as {@link ByEnd} keeps it. */
export interface Ending {
  /** When, µs. */
  ends: number;
  /** Where it is kept. Not to be touched by others. */
  bucket: Bucket | undefined;
  previous: Ending | undefined;
  next: Ending | undefined;
}

interface Bucket {
  readonly second: number;
  first: Ending | undefined;
  last: Ending | undefined;
}

/**
 * Things by the second in which they end. What ends soonest is found at once; putting, moving and
 * taking one costs the same however many there are, but for a second that nothing else ends in.
 */
export class ByEnd<T extends Ending> {
  readonly #buckets = new Map<number, Bucket>();
  /** A heap of the seconds that have a bucket: the least comes first. */
  readonly #seconds: number[] = [];

  /** Puts one in its place, also when its end has changed. */
  put(one: T): void {
    const second = Math.floor(one.ends / 1_000_000);
    if (one.bucket?.second === second) return;
    this.take(one);
    let bucket = this.#buckets.get(second);
    if (!bucket) {
      bucket = { second, first: undefined, last: undefined };
      this.#buckets.set(second, bucket);
      this.#push(second);
    }
    one.bucket = bucket;
    one.previous = bucket.last;
    if (bucket.last) bucket.last.next = one;
    else bucket.first = one;
    bucket.last = one;
  }

  take(one: T): void {
    const { bucket } = one;
    if (!bucket) return;
    if (one.previous) one.previous.next = one.next;
    else bucket.first = one.next;
    if (one.next) one.next.previous = one.previous;
    else bucket.last = one.previous;
    one.bucket = one.previous = one.next = undefined;
  }

  /** Of those that end in the soonest second the one that was put there first. */
  soonest(): T | undefined {
    for (;;) {
      const second = this.#seconds[0];
      if (second === undefined) return undefined;
      const first = this.#buckets.get(second)!.first;
      if (first) return first as T;
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
