import type { Story } from "../../../../test/harness/story.ts";
import { slidingLog } from "./sliding-log.ts";

export const stories: Record<string, Story> = {
  "three in ten seconds": {
    of: slidingLog({ limit: 3, window: 10_000 }),
    rows: [
      //   at  cost  allowed  left    next    full
      [     0,    1,    true,    2, 10_000, 10_000],
      [     6,    1,    true,    1,  9_994, 10_000],
      [    11,    1,    true,    0,  9_989, 10_000],
      [    17,    1,   false,    0,  9_983,  9_994],
      [    22,    1,   false,    0,  9_978,  9_989], // a refusal changes nothing
      [ 9_999,    1,   false,    0,      1,     12],
      [10_000,    1,    true,    0,      6, 10_000], // the first has left
      [10_000,    3,   false,    0, 10_000, 10_000], // waits for all three
      [10_006,    2,   false,    1,      5,  9_994], // one is free, two are not
      [10_011,    2,    true,    0,  9_989, 10_001], // stamped one µs apart
      [10_011,    0,    true,    0,  9_989, 10_001], // a look is free
      [10_011,    4,   false,    0,   null, 10_001], // more than the limit
      [ 5_011,    1,   false,    0, 10_000, 10_001], // the clock stepped back: as if all three had come now
      [15_010,    1,   false,    0,      1,      2],
      [15_011,    1,    true,    0,      1, 10_000],
      [60_000,    0,    true,    3,      0,      0], // rested
    ],
  },
};
