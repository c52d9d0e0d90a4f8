import { describe, expect, it } from "vitest";
import { picked } from "../../bench/lib/named.js";
import { median, percentile, rotated, show, spread, table } from "../../bench/lib/numbers.js";
import { isMeasured, ratios, type Row, type Sample, typical } from "../../bench/load/cells.js";
import { document } from "../../bench/report.js";
import type { Figure } from "../../bench/sections/section.js";

describe("numbers of a run", () => {
  it.each([
    [[3], 3],
    [[5, 1, 3], 3],
    [[4, 1, 3, 2], 2],
    [[10, 9, 8, 7, 6], 8],
  ])("the median of %j is %i", (samples, expected) => expect(median(samples)).toBe(expected));

  it("the median of nothing is no number", () => expect(median([])).toBeNaN());

  it.each([
    [0, 1],
    [50, 50],
    [99, 99],
    [99.1, 100],
    [100, 100],
  ])("the %d percent of 1 to 100 end at %i", (percent, expected) => {
    const samples = Array.from({ length: 100 }, (_, i) => 100 - i);
    expect(percentile(samples, percent)).toBe(expected);
  });

  it("shows the median with the least and the most", () => {
    expect(spread([1.26, 9, 0.5], 1)).toBe("1.3 (0.5–9.0)");
  });

  it("shows a dash where there is no number", () => expect(show(NaN, 2)).toBe("–"));

  it("begins with another one in each round", () => {
    const rounds = [0, 1, 2, 3].map((round) => rotated(["a", "b", "c"], round).join(""));
    expect(rounds).toEqual(["abc", "bca", "cab", "abc"]);
  });

  it("writes a table of Markdown", () => {
    expect(table(["", "µs"], [["ping", "1"]])).toBe("|  | µs |\n| --- | ---: |\n| ping | 1 |");
  });
});

describe("--only", () => {
  const all = [
    { name: "ping", baseline: true },
    { name: "gcra" },
    { name: "gcra@beside" },
    { name: "gcra:batch" },
    { name: "three" },
  ];

  it.each([
    [[], ["ping", "gcra", "gcra@beside", "gcra:batch", "three"]],
    [["gcra"], ["ping", "gcra", "gcra@beside", "gcra:batch"]],
    [["gcra:batch"], ["ping", "gcra:batch"]],
    [["three"], ["ping", "three"]],
  ])("%j measures %j", (only, expected) => {
    expect(picked(all, only).map(({ name }) => name)).toEqual(expected);
  });
});

describe("rows of one load", () => {
  const cell = { traffic: "uniform", inFlight: 64 } as const;
  const row = (name: string, rates: number[], degraded = 0): Row => ({
    ...cell,
    name,
    title: name,
    samples: rates.map((rate): Sample => ({ rate, decisions: 900, cpu: 1, degraded, servers: [] })),
  });

  it("are compared round by round", () => {
    const rows = [row("ours", [20, 90]), row("plain", [10, 30])];
    expect(ratios(rows, "ours", "plain", cell)).toEqual([2, 3]);
  });

  it("are compared with nothing that was not measured", () => {
    expect(ratios([row("ours", [20])], "ours", "plain", cell)).toEqual([]);
  });

  it.each([
    [100, true],
    [101, false],
  ])("with %i of a thousand decisions and more made without Redis: counts %s", (degraded, counts) => {
    const some = row("ours", [20, 20], degraded);
    expect(isMeasured(some)).toBe(counts);
    expect(typical(some, ({ rate }) => rate)).toBe(counts ? 20 : NaN);
    expect(ratios([some, row("plain", [10, 10])], "ours", "plain", cell)).toEqual(counts ? [2, 2] : []);
  });
});

describe("the figures to beat", () => {
  const verdictOf = (figure: Omit<Figure, "what">) => {
    const section = {
      title: "",
      measure: async () => 0,
      show: () => "",
      figures: () => [{ what: "x", ...figure }],
    };
    const facts = {
      date: "",
      quick: true,
      cpu: "",
      cores: 1,
      system: "",
      node: "",
      redis: "",
      pinned: "",
      load: "",
      packages: "",
    };
    return document({ facts, seconds: 1, sections: { one: 0 } }, { one: section })
      .trim()
      .split("\n")
      .at(-1);
  };

  it.each([
    [{ measured: 2, must: 2, goal: 1 }, "| x | 2.00 | ≤ 2 | ≤ 1 | met |"],
    [{ measured: 1, must: 2, goal: 1 }, "| x | 1.00 | ≤ 2 | ≤ 1 | goal reached |"],
    [{ measured: 2.01, must: 2 }, "| x | 2.01 | ≤ 2 |  | MISSED |"],
    [{ measured: 0.0012, must: 0.001 }, "| x | 0.00120 | ≤ 0.001 |  | MISSED |"],
    [{ measured: 600_000, must: 600_000, bound: "least" }, "| x | 600000 | ≥ 600000 |  | met |"],
    [{ measured: 599_999, must: 600_000, bound: "least" }, "| x | 599999 | ≥ 600000 |  | MISSED |"],
    [{ measured: NaN, must: 1 }, "| x | – | ≤ 1 |  | not measured |"],
  ] as const)("%j: %s", (figure, line) => expect(verdictOf(figure)).toBe(line));
});
