import { describe, expect, it } from "vitest";
import { IDENTITIES, identities, order, randomNumbers, zipfShares } from "../../bench/lib/traffic.js";

function countsOf(places: Uint32Array): number[] {
  const counts: number[] = Array.from({ length: IDENTITIES }, () => 0);
  for (const place of places) counts[place]!++;
  return counts;
}

describe("who asks", () => {
  it("has 20,000 names, all different", () => {
    expect(new Set(identities()).size).toBe(20_000);
  });

  it.each(["uniform", "zipf", "one"] as const)("%s is the same in every run", (traffic) => {
    expect(order(traffic)).toEqual(order(traffic));
  });

  it("one is always the first", () => {
    expect([...order("one")]).toEqual([0]);
  });

  it("uniform asks for nearly everybody, and for nobody much more often than for others", () => {
    const counts = countsOf(order("uniform"));
    expect(counts.filter((count) => count > 0).length).toBeGreaterThan(0.99 * IDENTITIES);
    expect(Math.max(...counts)).toBeLessThan(25);
  });

  it.each([1, 2, 3, 10, 100])("zipf asks for the %ith as often as its share says", (rank) => {
    const places = order("zipf");
    const harmonic = identities().reduce((sum, _, i) => sum + 1 / (i + 1), 0);
    const expected = places.length / rank / harmonic;
    const found = countsOf(places)[rank - 1]!;
    // Four standard deviations of a count.
    expect(Math.abs(found - expected)).toBeLessThan(4 * Math.sqrt(expected));
  });
});

describe("the shares of zipf", () => {
  it("are those of 1, 1/2, 1/3, summed up", () => {
    const [first, second, third] = zipfShares(3);
    expect(first).toBeCloseTo(6 / 11, 12);
    expect(second).toBeCloseTo(9 / 11, 12);
    expect(third).toBe(1);
  });
});

describe("random numbers", () => {
  it("are the same for the same seed, and others for another", () => {
    const first = (seed: number) => {
      const random = randomNumbers(seed);
      return Array.from({ length: 5 }, random);
    };
    expect(first(1)).toEqual(first(1));
    expect(first(1)).not.toEqual(first(2));
  });

  it("lie evenly between 0 and 1", () => {
    const random = randomNumbers(7);
    const tenths = Array.from({ length: 10 }, () => 0);
    for (let i = 0; i < 100_000; i++) tenths[Math.floor(random() * 10)]!++;
    for (const count of tenths) expect(Math.abs(count - 10_000)).toBeLessThan(400);
  });
});
