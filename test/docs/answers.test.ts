/** docs/faq.md, docs/review.md and docs/further-reading.md: figures and codes are those of the pages that they are from. */
import { describe, expect, it } from "vitest";
import { read, sectionOf, tablesOf } from "./markdown.ts";

const FAQ = read("docs/faq.md");

/** A figure of the questions, where it stands, and in which words. */
const figures: [heading: string, said: string, file: string, stands: string | RegExp][] = [
  ["Is INCR and EXPIRE enough?", "6.28 µs for a fixed window", "bench/RESULTS.md", "| fixedWindow | 6.28 |"],
  ["Is INCR and EXPIRE enough?", "`INCR` costs 0.39", "bench/RESULTS.md", "| incr | 0.39 |"],
  ["Is INCR and EXPIRE enough?", "does nothing 1.81", "bench/RESULTS.md", "| evalsha | 1.81 |"],
  ["Is INCR and EXPIRE enough?", "it is 2.49", "bench/RESULTS.md", "| fixedWindow:batch | 2.49 |"],
  [
    "How much memory does an identity take?",
    "117 bytes for a fixed window",
    "docs/operations.md",
    "| `fixedWindow` | 117 |",
  ],
  ["How much memory does an identity take?", "133 for GCRA", "docs/operations.md", "| `gcra` | 133 |"],
  [
    "How much memory does an identity take?",
    "149 for a sliding window",
    "docs/operations.md",
    "| `slidingWindow` | 149 |",
  ],
  [
    "How much memory does an identity take?",
    "165 for a bucket",
    "docs/operations.md",
    "| `tokenBucket` | 165, and",
  ],
  [
    "How much memory does an identity take?",
    "1,162 for a log with 50",
    "docs/operations.md",
    "1,162 with 50",
  ],
  [
    "How fast is it?",
    "269,000 a second over 20,000 identities",
    "bench/RESULTS.md",
    "269,000 a second over 20,000 identities",
  ],
  ["How fast is it?", "733,000 when all are one", "bench/RESULTS.md", "733,000 on one"],
  [
    "How fast is it?",
    "1.3 times as long as a `PING`",
    "docs/performance.md",
    "as a multiple of PING | 1.3 |",
  ],
  ["What does a failover cost?", "2.8 to 3.7 s", "docs/cluster.md", "| killed (SIGKILL) | 2.8 to 3.7 s |"],
  ["What does a failover cost?", "2.4 to 2.7 s", "docs/cluster.md", "| killed (SIGKILL) | 2.4 to 2.7 s |"],
  ["What does a failover cost?", "node timeout of 1.5 s", "docs/cluster.md", "`cluster-node-timeout 1500`"],
  [
    "What does a failover cost?",
    "Of 100 grants none was lost",
    "docs/cluster.md",
    "| the primary is killed | 0 of 100 |",
  ],
  ["What does a failover cost?", "100 of 165", "docs/cluster.md", "| 100 of 165:"],
];

/** Numbers of a text that are a figure: with a fraction, in thousands, or with a unit. */
const NUMBERS = /\b\d+\.\d+\b(?! and)|\b\d+,\d{3}\b/g;

describe("docs/faq.md", () => {
  it.each(figures)("%s %s: as %s has it", (heading, said, file, stands) => {
    expect(sectionOf(FAQ, heading)).toContain(said);
    expect(read(file)).toContain(stands);
  });

  it("has no other figure than these, but for versions", () => {
    const prose = FAQ.replace(sectionOf(FAQ, "Does it run on Valkey?"), "");
    const told = figures.map(([, said]) => said).join(" ");
    const others = (prose.match(NUMBERS) ?? []).filter((number) => !told.includes(number));
    expect(others.filter((number) => number !== "20,000")).toEqual([]);
  });

  it("gives a command beside each section's figures, and the command is one", () => {
    for (const heading of new Set(figures.map(([heading]) => heading)))
      expect(sectionOf(FAQ, heading), heading).toMatch(/`npm (run bench|test) -- [\w-]/);
    const runs = [...FAQ.matchAll(/`npm run bench -- ([^`]+)`/g)].map(([, args]) => args!);
    const bench = read("bench/run.js") + read("docs/operations.md") + read("docs/algorithms.md");
    for (const args of runs) expect(bench, args).toContain(args.split(" ").at(-1)!);
  });

  it("names servers that are tested", () => {
    const tested = tablesOf(sectionOf(read("docs/servers.md"), "Tested"))[0]!.map(({ server }) => server!);
    expect(tested).toEqual(["Redis 7.0", "Redis 8.0", "Valkey 8.0", "Valkey 8.1"]);
    expect(sectionOf(FAQ, "Does it run on Valkey?")).toContain("Valkey 8.0 and 8.1 keep");
  });
});

describe.each(["docs/review.md", "docs/faq.md"])("%s", (file) => {
  it("names codes that errors.md or doctor.md has", () => {
    const known = read("docs/errors.md") + read("docs/doctor.md");
    const codes = read(file).match(/TIDEGATE_\w+/g) ?? [];
    expect(codes.filter((code) => !known.includes(`\`${code}\``))).toEqual([]);
  });
});

describe("docs/review.md", () => {
  const tables = tablesOf(read("docs/review.md"));

  it("asks, and has an answer of ours to each", () => {
    const rows = tables.flat();
    expect(rows.length).toBeGreaterThan(40);
    const lacking = rows.filter((row) => !row["ask"]?.includes("?") || !row["tidegate"]);
    expect(lacking).toEqual([]);
  });
});

describe("docs/further-reading.md", () => {
  it.each([
    "eval-intro",
    "cluster-spec",
    "draft-ietf-httpapi-ratelimit-headers",
    "rfc6585",
    "rfc9110",
    "rfc9457",
    "rfc9651",
    "redis-cell",
    "Generic_cell_rate_algorithm",
    "k6/latest/using-k6/scenarios/executors",
  ])("leads to %s, by one line each that says why", (part) => {
    const lines = read("docs/further-reading.md")
      .split("\n")
      .filter((line) => line.includes(part));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^\| \[[^\]]+\]\(https:\/\/[^)]+\) \| .{20,} \|$/);
  });
});
