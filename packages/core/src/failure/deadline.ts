import { StoreError } from "../errors.ts";
import type { Check, Done, Outcome } from "../stores/store.ts";
import type { Tier } from "../tiers/tier.ts";

/** Asks the tier behind, and answers in time whatever happens there. */
export interface Timely {
  /**
   * `done` hears of a `timeout` at the check's deadline. What was decided all the same, and is known
   * too late, goes to `late`. A check that is answered at once costs no timer.
   */
  decide(check: Check, done: Done, late: (outcome: Outcome) => void): void;
}

export const withDeadline = (next: Tier): Timely => ({
  decide(check, done, late) {
    let timer: NodeJS.Timeout | undefined;
    let answered = false;
    next.decide(check, (error, outcome) => {
      if (answered) {
        if (outcome) late(outcome);
        return;
      }
      answered = true;
      clearTimeout(timer);
      done(error, outcome);
    });
    if (answered) return;
    timer = setTimeout(
      () => {
        answered = true;
        done(new StoreError("timeout", "Redis did not answer within the deadline"), undefined);
      },
      Math.max(0, check.deadline - performance.now()),
    );
  },
});
