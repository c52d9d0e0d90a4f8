import type { Story } from "../../../../test/harness/story.ts";
import { tokenBucket } from "./token-bucket.ts";

export const stories: Record<string, Story> = {
  "five tokens, two a second": {
    of: tokenBucket({ capacity: 5, refillPerSecond: 2 }),
    rows: [
      //  at  cost  allowed  left  next   full
      [    0,    1,    true,    4,  500,   500],
      [    0,    1,    true,    3,  500, 1_000],
      [    0,    1,    true,    2,  500, 1_500],
      [    0,    1,    true,    1,  500, 2_000],
      [    0,    1,    true,    0,  500, 2_500],
      [    0,    1,   false,    0,  500, 2_500], // empty
      [    0,    1,   false,    0,  500, 2_500], // a refusal changes nothing
      [    0,    1,   false,    0,  500, 2_500],
      [1_100,    1,    true,    1,  400, 1_900], // 2.2 tokens came
      [1_100,    1,    true,    0,  400, 2_400],
      [1_100,    1,   false,    0,  400, 2_400],
      [1_499,    1,   false,    0,    1, 2_001], // a hair too soon
      [1_500,    1,    true,    0,  500, 2_500], // waited as told
      [1_500,    0,    true,    0,  500, 2_500], // a look is free
      [1_500,    6,   false,    0, null, 2_500], // more than the bucket holds
      [2_600,    3,   false,    2,  400, 1_400], // two are there, and stay
      [2_600,    2,    true,    0,  400, 2_400],
      [9_000,    0,    true,    5,    0,     0], // rested
      [9_000,    5,    true,    0,  500, 2_500],
      [4_000,    1,   false,    0,  500, 2_500], // the clock stepped back: mended to empty
      [4_500,    1,    true,    0,  500, 2_500],
    ],
  },
  "five tokens, one a second, a few milliseconds apart": {
    of: tokenBucket({ capacity: 5, refillPerSecond: 1 }),
    rows: [
      [ 0, 1,  true, 4, 1_000, 1_000],
      [ 6, 1,  true, 3,   994, 1_994],
      [14, 1,  true, 2,   986, 2_986],
      [19, 1,  true, 1,   981, 3_981],
      [26, 1,  true, 0,   974, 4_974],
      [31, 1, false, 0,   969, 4_969],
      [37, 1, false, 0,   963, 4_963],
    ],
  },
  "a third of a token a second": {
    of: tokenBucket({ capacity: 1, refillPerSecond: 1 / 3 }),
    rows: [
      [    0, 1,  true, 0, 3_000, 3_000],
      [2_999, 1, false, 0,     1,     1],
      [3_000, 1,  true, 0, 3_000, 3_000],
    ],
  },
};
