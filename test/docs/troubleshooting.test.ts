/** docs/troubleshooting.md: every code that it names is one that can come, and every test that it names is there. */
import { describe, expect, it } from "vitest";
import { testTitles } from "../cases/titles.ts";
import { read, sectionOf, tablesOf } from "./markdown.ts";

const page = read("docs/troubleshooting.md");
const sections = page.match(/^## .*$/gm)!.map((line) => line.replace("## ", ""));
const titles = testTitles();

/** What events, errors and findings can carry. Tests of these two pages hold them to the sources. */
const codes = ["docs/errors.md", "docs/doctor.md"].flatMap((file) =>
  tablesOf(read(file)).flatMap((rows) => rows.flatMap(({ code }) => code ?? [])),
);

const rowsOf = (heading: string, column: string) =>
  tablesOf(sectionOf(page, heading)).flatMap((rows) => rows.filter((row) => column in row));

it("begins with a list of what follows", () => {
  const listed = [...page.split("\n## ")[0]!.matchAll(/\[([^\]]+)\]\(#/g)].map(([, name]) => name);
  expect(listed).toEqual(sections);
});

describe.each(sections)("%s", (heading) => {
  const text = sectionOf(page, heading);

  it("has a symptom, a cause and a fix, in this order", () => {
    expect(text.match(/^\*\*\w+\.\*\*/gm)).toEqual(["**Symptom.**", "**Cause.**", "**Fix.**"]);
  });

  it("names codes that the sources know, or says that there is none", () => {
    const named = rowsOf(heading, "named by").map((row) => row["named by"]!);
    expect(named.filter((code) => !codes.includes(code))).toEqual([]);
    expect(named.length > 0 || text.includes("\nNo code names it")).toBe(true);
    expect(text.match(/TIDEGATE_\w+/g) ?? []).toEqual(named);
  });

  it("names tests that are there", () => {
    const tests = rowsOf(heading, "proved by").map((row) => [row["proved by"]!, row[""]!] as const);
    expect(tests.length).toBeGreaterThan(0);
    const missing = tests.filter(
      ([file, part]) => !titles.some((test) => test.file === file && test.title.includes(part)),
    );
    expect(missing).toEqual([]);
  });
});
