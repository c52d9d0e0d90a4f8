import { AsyncResource } from "node:async_hooks";

/**
 * A timer made within a request would keep all that the request's AsyncLocalStorage holds for as long
 * as it runs. Ours outlive requests, so they are made in a context of their own.
 */
const outside = new AsyncResource("tidegate");

/** Repeats until it is cleared, and holds no process. */
export const every = (ms: number, act: () => void): NodeJS.Timeout =>
  outside.runInAsyncScope(() => setInterval(act, ms).unref());

/**
 * One timer for whatever comes next. While nothing is waited for it holds no process, and is left as
 * it is: the next one comes soon.
 */
export class Alarm {
  readonly #ring: () => void;
  #timer: NodeJS.Timeout | undefined;
  #at = Infinity;
  #rests = false;

  constructor(ring: () => void) {
    this.#ring = ring;
  }

  /** Rings at a moment, milliseconds of `performance.now()`, or sooner where it was set for sooner. */
  setFor(at: number): void {
    if (this.#rests) this.#timer?.ref();
    this.#rests = false;
    if (at >= this.#at) return;
    clearTimeout(this.#timer);
    this.#at = at;
    // A timer may be early by a part of a millisecond.
    const ms = Math.max(1, Math.ceil(at - performance.now()));
    this.#timer = outside.runInAsyncScope(() => setTimeout(() => this.#rang(), ms));
  }

  /** Nothing is waited for. */
  rest(): void {
    this.#rests = true;
    this.#timer?.unref();
  }

  /** Nothing is waited for any more. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#at = Infinity;
  }

  #rang(): void {
    this.#timer = undefined;
    this.#at = Infinity;
    if (!this.#rests) this.#ring();
  }
}
