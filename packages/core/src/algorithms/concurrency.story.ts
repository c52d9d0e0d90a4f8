import type { Story } from "../../../../test/harness/story.ts";
import { concurrency } from "./concurrency.ts";

export const stories: Record<string, Story> = {
  "two in flight, leases of a second, nobody gives back": {
    of: concurrency({ limit: 2, leaseMs: 1_000 }),
    rows: [
      //  at  cost  allowed  left  next   full
      [    0,    1,    true,    1, null, 1_000], // when a slot comes free, nobody knows
      [  400,    1,    true,    0, null, 1_000],
      [  400,    1,   false,    0, null, 1_000],
      [  999,    1,   false,    0, null,   401],
      [1_000,    1,    true,    0, null, 1_000], // the first lease has ended
      [1_000,    0,    true,    0, null, 1_000], // a look is free
      [1_000,    3,   false,    0, null, 1_000], // more than the limit
      [1_400,    2,   false,    1, null,   600], // one is free, two are not
      [  100,    1,   false,    0, null, 1_000], // the clock stepped back: leases end one lease from now
      [1_100,    2,    true,    0, null, 1_000],
      [9_000,    0,    true,    2, null,     0],
    ],
  },
};
