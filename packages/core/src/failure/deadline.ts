import { AsyncResource } from "node:async_hooks";
import { StoreError } from "../errors.ts";
import type { Check, Done, Outcome } from "../stores/store.ts";
import type { Tier } from "../tiers/tier.ts";
import { Alarm } from "../timers.ts";

/** Asks the tier behind, and answers in time whatever happens there. */
export interface Timely {
  /**
   * `done` hears of a `timeout` at the check's deadline. What was decided all the same, and is known
   * too late, goes to `late`. A check that is answered at once costs no timer.
   */
  decide(check: Check, done: Done, late: (outcome: Outcome) => void): void;
}

/** A check that was not answered at once. */
interface Pending {
  /** Its place in the list of all. */
  at: number;
  readonly deadline: number;
  readonly done: Done;
  /** Answers come from one batch for many, and from one timer: each goes on within its own context (AsyncLocalStorage). */
  readonly context: AsyncResource;
}

/** Lets go of the timer as soon as nothing is waited for. */
interface Closable {
  close(): void;
}

export function withDeadline(next: Tier): Timely & Closable {
  // A list, and no Set: one that grows and shrinks with each batch leaves old tables behind, which keep what is in the
  // new ones alive until the next full collection.
  const pending: Pending[] = [];
  const alarm = new Alarm(expire);
  let isClosed = false;

  function add(one: Pending): void {
    one.at = pending.push(one) - 1;
    alarm.setFor(one.deadline);
  }

  /** Whether it was still waited for. */
  function take(one: Pending): boolean {
    if (one.at < 0) return false;
    const last = pending.pop()!;
    if (last !== one) {
      pending[one.at] = last;
      last.at = one.at;
    }
    one.at = -1;
    if (pending.length === 0) rest();
    return true;
  }

  function rest(): void {
    if (isClosed) alarm.stop();
    else alarm.rest();
  }

  function expire(): void {
    const now = performance.now();
    const late = pending.filter(({ deadline }) => deadline <= now);
    for (const one of late) {
      if (!take(one)) continue;
      const error = new StoreError("timeout", "Redis did not answer within the deadline");
      one.context.runInAsyncScope(one.done, undefined, error, undefined);
    }
    const earliest = pending.reduce((earliest, { deadline }) => Math.min(earliest, deadline), Infinity);
    if (pending.length > 0) alarm.setFor(earliest);
  }

  return {
    decide(check, done, late) {
      let one: Pending | undefined;
      let answered = false;
      next.decide(check, (error, outcome) => {
        answered = true;
        if (!one) done(error, outcome);
        else if (take(one)) one.context.runInAsyncScope(done, undefined, error, outcome);
        else if (outcome) one.context.runInAsyncScope(late, undefined, outcome);
      });
      if (answered) return;
      one = { at: -1, deadline: check.deadline, done, context: new AsyncResource("tidegate") };
      add(one);
    },
    close() {
      isClosed = true;
      if (pending.length === 0) alarm.stop();
    },
  };
}
