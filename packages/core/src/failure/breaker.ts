import type { StoreError, StoreErrorClass } from "../errors.ts";
import type { Check } from "../stores/store.ts";
import { every } from "../timers.ts";
import type { Timely } from "./deadline.ts";

/** So many failures one after the other open it: a slow moment is none. */
const FAILURES = 5;

/** How often an open one looks whether the store answers again, milliseconds. */
const PROBE_MS = 200;

/** Faults of one key or one slot: the store is well, and other identities do not notice. */
export const OF_ONE_KEY: readonly StoreErrorClass[] = ["foreign", "broken", "moving"];

/** Asks the tier behind while that answers; once it does not, answers at once. Looks in the background from the first failure on. */
export interface Breaker extends Timely {
  readonly isOpen: boolean;
  /** Looks now, where it looks at all: something says that the store may be back. Tells whether it looks. */
  look(): boolean;
  /** Stops looking. */
  stop(): void;
}

export interface BreakerListener {
  /** It opened, or closed. */
  changed(isOpen: boolean): void;
  /** The store answered a look. */
  answered(): void;
}

/** @param timeoutMs how long the store has to answer when it is looked at */
export function withBreaker(next: Timely, timeoutMs: number, listener: BreakerListener): Breaker {
  let failures = 0;
  /** What the store failed with last. */
  let last: StoreError | undefined;
  let isOpen = false;
  /** The question it is looked at with: the last that failed, but for everything that would leave a trace. */
  let question: Check | undefined;
  let looking = false;
  let timer: NodeJS.Timeout | undefined;
  let over = false;

  function failed(error: StoreError, check: Check): void {
    last = error;
    failures++;
    question = { ...check, peek: true, lease: undefined, nonce: undefined };
    if (!over) timer ??= every(PROBE_MS, probe);
    if (isOpen || failures < FAILURES) return;
    isOpen = true;
    listener.changed(true);
  }

  function succeeded(): void {
    failures = 0;
    rest();
    if (!isOpen) return;
    isOpen = false;
    listener.changed(false);
  }

  function probe(): void {
    if (looking || !timer || !question) return;
    looking = true;
    next.decide(
      { ...question, deadline: performance.now() + timeoutMs },
      (error) => {
        looking = false;
        if (error && !OF_ONE_KEY.includes(error.reason)) {
          last = error;
          return;
        }
        succeeded();
        listener.answered();
      },
      () => {},
    );
  }

  function rest(): void {
    clearInterval(timer);
    timer = undefined;
  }

  return {
    get isOpen() {
      return isOpen;
    },
    decide(check, done, late) {
      if (isOpen) return done(last, undefined);
      next.decide(
        check,
        (error, outcome) => {
          if (!error || OF_ONE_KEY.includes(error.reason)) succeeded();
          else failed(error, check);
          done(error, outcome);
        },
        late,
      );
    },
    look() {
      probe();
      return timer !== undefined;
    },
    stop() {
      over = true;
      rest();
    },
  };
}
