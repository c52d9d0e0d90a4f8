import type { Story } from "../../../../test/harness/story.ts";
import { fixedWindow } from "./fixed-window.ts";

export const stories: Record<string, Story> = {
  "five a second, from the first": {
    of: fixedWindow({ limit: 5, window: 1_000 }),
    rows: [
      //  at  cost  allowed  left   next   full
      [    0,    0,    true,    5,     0,     0], // a look begins no window
      [  300,    1,    true,    4, 1_000, 1_000],
      [  700,    2,    true,    2,   600,   600],
      [  700,    3,   false,    2,   600,   600], // a refusal changes nothing
      [  700,    2,    true,    0,   600,   600],
      [1_299,    1,   false,    0,     1,     1],
      [1_300,    1,    true,    4, 1_000, 1_000], // a new window
      [1_300,    6,   false,    4,  null, 1_000], // more than the limit
      [1_300,    0,    true,    4, 1_000, 1_000], // a look is free
      [1_300,    4,    true,    0, 1_000, 1_000],
      [  800,    1,   false,    0, 1_000, 1_000], // the clock stepped back: mended to one window from now
      [1_799,    1,   false,    0,     1,     1],
      [1_800,    1,    true,    4, 1_000, 1_000],
      [9_000,    0,    true,    5,     0,     0], // rested
    ],
  },
};
