import { StoreError } from "../errors.ts";
import type { Tier } from "../tiers/tier.ts";

/**
 * Answers in time, whatever happens behind: at a check's deadline with a `timeout`. An answer that
 * comes later goes nowhere. A check that is answered at once costs no timer.
 */
export const withDeadline = (next: Tier): Tier => ({
  decide(check, done) {
    let timer: NodeJS.Timeout | undefined;
    let answered = false;
    next.decide(check, (error, outcome) => {
      if (answered) return;
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
