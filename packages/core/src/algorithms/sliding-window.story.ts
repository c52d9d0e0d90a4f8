import type { Story } from "../../../../test/harness/story.ts";
import { slidingWindow } from "./sliding-window.ts";

export const stories: Record<string, Story> = {
  "five a second": {
    of: slidingWindow({ limit: 5, window: 1_000 }),
    rows: [
      //  at  cost  allowed  left   next   full
      [    0,    1,    true,    4, 2_000, 2_000], // all five are back when this one counts no more
      [    0,    1,    true,    3, 1_500, 2_000],
      [    0,    1,    true,    2, 1_334, 2_000],
      [    0,    1,    true,    1, 1_250, 2_000],
      [    0,    1,    true,    0, 1_200, 2_000],
      [    0,    1,   false,    0, 1_200, 2_000],
      [    0,    1,   false,    0, 1_200, 2_000], // a refusal changes nothing
      [    0,    1,   false,    0, 1_200, 2_000],
      [1_001,    1,   false,    0,   199,   999], // 4.995 of the last window still count: below the limit, and no room for one
      [1_199,    1,   false,    0,     1,   801],
      [1_200,    1,    true,    0,   200, 1_800],
      [1_200,    6,   false,    0,  null, 1_800], // more than the limit
      [1_400,    2,   false,    1,   200, 1_600],
      [1_599,    2,   false,    1,     1, 1_401],
      [1_600,    2,    true,    0,   200, 1_400],
      [1_600,    0,    true,    0,   200, 1_400], // a look is free
      [  601,    1,   false,    0,   399, 1_399], // the clock stepped back: mended to evenly used
      [  999,    1,   false,    0,     1, 1_001],
      [1_000,    1,    true,    0,   250, 2_000],
      [9_000,    0,    true,    5,     0,     0], // rested
    ],
  },
  "a burst late in the window": {
    of: slidingWindow({ limit: 5, window: 1_000 }),
    rows: [
      [  900, 5,  true, 0,   300, 1_100],
      [  900, 1, false, 0,   300, 1_100],
      [2_100, 1,  true, 4, 1_900, 1_900], // two windows on, nothing is left of it
    ],
  },
};
