import type { PastRequest } from "@tidegate/core/simulate";

/**
 * How many requests are looked ahead. Servers write a line when a request ends, or write when it began: either way the
 * lines of requests that ran at the same time are a little out of order.
 */
const AHEAD = 10_000;

/** Hands out requests in order of time, as far as {@link AHEAD} reaches; equal times in the order they came. */
export class InOrder {
  /** Each no earlier than the one before: all of a log that is in order. */
  readonly #run: PastRequest[] = [];
  #runHead = 0;
  /** A heap of those that came too late for the run. */
  readonly #late: Late[] = [];
  #count = 0;
  #ended = false;

  /** Whether it came earlier than one before it. */
  add(request: PastRequest): boolean {
    const last = this.#run.at(-1);
    const late = last !== undefined && request.at < last.at;
    if (late) pushLate(this.#late, { request, nth: this.#count++ });
    else this.#run.push(request);
    return late;
  }

  end(): void {
    this.#ended = true;
  }

  /** The first that is left; undefined when more have to come first, or all are out. */
  head(): PastRequest | undefined {
    const size = this.#run.length - this.#runHead + this.#late.length;
    if (size === 0 || (size <= AHEAD && !this.#ended)) return undefined;
    const run = this.#run[this.#runHead];
    const late = this.#late[0]?.request;
    if (run === undefined || late === undefined) return run ?? late;
    return late.at < run.at ? late : run;
  }

  /** Takes away what {@link head} gave. */
  drop(): void {
    const run = this.#run[this.#runHead];
    const late = this.#late[0]?.request;
    if (run === undefined || (late !== undefined && late.at < run.at)) popLate(this.#late);
    else this.#runHead++;
    if (this.#runHead < AHEAD) return;
    this.#run.splice(0, this.#runHead - KEPT);
    this.#runHead = KEPT;
  }
}

/** Of what the run has handed out, one stays: it tells whether what comes next is late. */
const KEPT = 1;

interface Late {
  readonly request: PastRequest;
  /** Of equal times the first comes first. */
  readonly nth: number;
}

const before = (a: Late, b: Late): boolean =>
  a.request.at < b.request.at || (a.request.at === b.request.at && a.nth < b.nth);

function pushLate(heap: Late[], item: Late): void {
  let at = heap.push(item) - 1;
  while (at > 0) {
    const up = (at - 1) >> 1;
    if (!before(item, heap[up]!)) break;
    heap[at] = heap[up]!;
    at = up;
  }
  heap[at] = item;
}

function popLate(heap: Late[]): void {
  const item = heap.pop();
  if (item === undefined || heap.length === 0) return;
  let at = 0;
  for (;;) {
    const left = 2 * at + 1;
    if (left >= heap.length) break;
    const child = left + 1 < heap.length && before(heap[left + 1]!, heap[left]!) ? left + 1 : left;
    if (!before(heap[child]!, item)) break;
    heap[at] = heap[child]!;
    at = child;
  }
  heap[at] = item;
}
