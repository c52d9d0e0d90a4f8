interface Ending<T> {
  readonly at: number;
  /** Its place among all that were put: of one moment, who came first goes first. */
  readonly order: number;
  readonly one: T;
}

/** Things that end, the soonest first: a heap. */
export class Endings<T> {
  readonly #heap: Ending<T>[] = [];
  #put = 0;

  get size(): number {
    return this.#heap.length;
  }

  /** When the next one ends; `Infinity`: there is none. */
  get soonest(): number {
    return this.#heap[0]?.at ?? Infinity;
  }

  put(at: number, one: T): void {
    const heap = this.#heap;
    const ending = { at, order: this.#put++, one };
    let place = heap.push(ending) - 1;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (!isBefore(ending, heap[parent]!)) break;
      heap[place] = heap[parent]!;
      place = parent;
    }
    heap[place] = ending;
  }

  /** Takes out the one that ends next; `undefined`: there is none. */
  take(): T | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first && last && first !== last) this.#sink(last);
    return first?.one;
  }

  #sink(ending: Ending<T>): void {
    const heap = this.#heap;
    let place = 0;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++;
      if (!isBefore(heap[child]!, ending)) break;
      heap[place] = heap[child]!;
      place = child;
    }
    heap[place] = ending;
  }
}

const isBefore = (one: Ending<unknown>, other: Ending<unknown>): boolean =>
  one.at < other.at || (one.at === other.at && one.order < other.order);
