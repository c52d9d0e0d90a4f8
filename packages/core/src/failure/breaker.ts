import type { StoreError, StoreErrorClass } from "../errors.ts";
import type { Check } from "../stores/store.ts";
import { every } from "../timers.ts";
import type { Timely } from "./deadline.ts";

/** So many failures one after the other open it: a slow moment is none. */
const FAILURES = 5;

/** How often an open one looks whether the store answers again, milliseconds. */
const PROBE_MS = 200;

/** Faults of one key: the store is well, and other identities do not notice. */
export const OF_ONE_KEY: readonly StoreErrorClass[] = ["foreign", "broken"];

/** Asks the tier behind while that answers; once it does not, answers at once, and looks in the background. */
export interface Breaker extends Timely {
  readonly isOpen: boolean;
  /** Stops looking. */
  stop(): void;
}

/**
 * @param timeoutMs how long the store has to answer when it is looked at
 * @param changed told of every change
 */
export function withBreaker(next: Timely, timeoutMs: number, changed: (isOpen: boolean) => void): Breaker {
  let failures = 0;
  /** What the store failed with last, and the question it is looked at with: the last that failed. */
  let open: { error: StoreError; readonly check: Check } | undefined;
  let probing = false;
  let timer: NodeJS.Timeout | undefined;

  function decide(
    check: Check,
    done: Parameters<Timely["decide"]>[1],
    late: Parameters<Timely["decide"]>[2],
  ) {
    if (open) return done(open.error, undefined);
    next.decide(
      check,
      (error, outcome) => {
        if (!error || OF_ONE_KEY.includes(error.reason)) close();
        else failed(error, check);
        done(error, outcome);
      },
      late,
    );
  }

  function failed(error: StoreError, check: Check): void {
    failures++;
    if (open) open.error = error;
    if (open || failures < FAILURES) return;
    // The same question, but for everything that would leave a trace.
    open = { error, check: { ...check, peek: true, lease: undefined, nonce: undefined } };
    timer = every(PROBE_MS, probe);
    changed(true);
  }

  function close(): void {
    failures = 0;
    if (!open) return;
    open = undefined;
    clearInterval(timer);
    changed(false);
  }

  function probe(): void {
    if (probing || !open) return;
    probing = true;
    next.decide(
      { ...open.check, deadline: performance.now() + timeoutMs },
      (error) => {
        probing = false;
        if (!error || OF_ONE_KEY.includes(error.reason)) close();
        else if (open) open.error = error;
      },
      () => {},
    );
  }

  return {
    get isOpen() {
      return open !== undefined;
    },
    decide,
    stop: () => clearInterval(timer),
  };
}
