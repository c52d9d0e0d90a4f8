import type { Story } from "../../../../test/harness/story.ts";
import { gcra } from "./gcra.ts";

export const stories: Record<string, Story> = {
  "three a second": {
    of: gcra({ limit: 3, window: 1_000 }),
    rows: [
      //  at  cost  allowed  left  next   full
      [    0,    1,    true,    2,  334,   334],
      [    0,    1,    true,    1,  334,   667],
      [    0,    1,    true,    0,  334, 1_001], // an interval is a third of a second, rounded up to a quarter of a µs
      [    0,    1,   false,    0,  334, 1_001],
      [  333,    1,   false,    0,    1,   668], // a hair too soon
      [  334,    1,    true,    0,  333, 1_000], // waited as told
      [  334,    0,    true,    0,  333, 1_000], // a look is free
      [  334,    4,   false,    0, null, 1_000], // more than the burst
      [1_000,    1,    true,    0,    1,   667], // of the second, a microsecond is missing
      [1_000,    2,   false,    0,  334,   667],
      [9_000,    3,    true,    0,  334, 1_001], // rested
      [4_000,    1,   false,    0,  334, 1_001], // the clock stepped back: mended to just exhausted
      [4_334,    1,    true,    0,  333, 1_000],
    ],
  },
};
