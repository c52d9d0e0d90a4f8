/** Every case of a public problem report has a test for each thing that it asks for. */
import { describe, expect, it } from "vitest";
import { type Ask, cases } from "./list.ts";
import { testTitles } from "./titles.ts";

const titles = testTitles();
const numbers = Object.keys(cases);

/** Tests whose titles carry both, or whose groups' do. */
const labelled = (number: string, t: string) =>
  titles.filter(({ title }) => hasWord(title, number) && hasWord(title, t));

const hasWord = (text: string, word: string): boolean => new RegExp(`\\b${word}\\b`).test(text);

const named = ({ shown }: Ask) =>
  shown.map(([file, part]) => ({
    part: `${file}: ${part}`,
    found: titles.some((test) => test.file === file && test.title.includes(part)),
  }));

it("P01 to P47 are listed, each with what it asks for", () => {
  const all = Array.from({ length: 47 }, (_, i) => `P${String(i + 1).padStart(2, "0")}`);
  expect(numbers).toEqual(all);
  expect(numbers.filter((number) => cases[number]!.length === 0)).toEqual([]);
});

describe.each(numbers)("%s", (number) => {
  it.each(cases[number]!.map((ask, i): [string, string, Ask] => [`T${i + 1}`, ask.what, ask]))(
    "%s (%s) has a test",
    (t, _, ask) => {
      const tests = named(ask);
      expect(tests.filter(({ found }) => !found)).toEqual([]);
      expect(tests.length + labelled(number, t).length).toBeGreaterThan(0);
    },
  );
});

it("no title carries a case that is not listed", () => {
  const carried = titles.flatMap(({ title }) => title.match(/\bP\d\d\b/g) ?? []);
  expect([...new Set(carried)].filter((number) => !(number in cases))).toEqual([]);
  expect(carried.length).toBeGreaterThan(100);
});

describe("the names of tests are read", () => {
  it.each([
    [
      "with their groups",
      "test/http/addresses.test.ts",
      "P09 T1 IPv6 addresses of one /64 share a counter, those of another do not",
    ],
    ["out of a table's rows", "test/http/addresses.test.ts", "P19 T4 a forwarded %s is counted as %s"],
    [
      "from a contract",
      "test/contract/middleware/routes.ts",
      "routes on %s P14 T3 a hundred codes in a path are one route: one counter, one key",
    ],
  ])("%s", (_, file, title) => {
    expect(titles).toContainEqual({ file, title });
  });
});
