import { expect, it } from "vitest";
import { ladder } from "../../packages/core/src/simulate/ladder.ts";

it.each<[lowest: number, highest: number, own: number, limits: number[]]>([
  [1, 1, 5, [1, 5]],
  [1, 3, 2, [1, 2, 3]],
  [1, 12, 100, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 100]],
  [1, 100, 77, [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 77, 80, 100]],
  [1, 700, 60, [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 60, 70, 100, 150, 200, 300, 500, 700]],
  [
    1,
    6000,
    0,
    [
      0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000,
      7000,
    ],
  ],
  [
    300,
    40_000,
    900,
    [
      300, 400, 500, 600, 800, 900, 1000, 1200, 1500, 2000, 2500, 3000, 4000, 5000, 6000, 8000, 10_000,
      12_000, 15_000, 20_000, 25_000, 30_000, 40_000,
    ],
  ],
])("from %i to %i, with %i: round numbers, about two dozen", (lowest, highest, own, limits) => {
  expect(ladder(lowest, highest, own)).toEqual(limits);
});

it("never many more, however far it is", () => {
  for (let highest = 1; highest < 1e15; highest = Math.ceil(highest * 1.7)) {
    const limits = ladder(1, highest, 1);
    expect(limits.length).toBeLessThanOrEqual(25);
    expect([limits[0], limits.at(-1)! >= highest]).toEqual([1, true]);
  }
});
