import type { Check, Done, Store } from "../stores/store.ts";

/**
 * What stands between the limiter and the store, one check at a time. A tier may answer at once, or
 * pass the check on; it never lets more pass than the tier behind it would.
 */
export interface Tier {
  decide(check: Check, done: Done): void;
}

/** The innermost tier: each check is a batch of its own. */
export const direct = (store: Store): Tier => ({
  decide: (check, done) => store.decide([check], [done]),
});
