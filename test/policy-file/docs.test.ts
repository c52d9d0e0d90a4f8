import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PolicyFileError, policiesFromText } from "@tidegate/policy-file";
import { describe, expect, it } from "vitest";
import { blocksOf, read, root, sectionOf, tablesOf } from "../docs/markdown.ts";
import { reference } from "./reference.ts";

const PAGE = "docs/policy-file.md";

// `TIDEGATE_WRITE_REFERENCE=1 npx vitest run test/policy-file/docs.test.ts` puts the tables into the page.
if (process.env["TIDEGATE_WRITE_REFERENCE"]) writeFileSync(join(root, PAGE), withTables(read(PAGE)));

/** The page, with the tables that are told to be made. */
function withTables(page: string): string {
  return page.replace(
    /(<!-- made: (.*) -->\n)[^]*?(<!-- end -->)/g,
    (_, begin: string, name: string, end: string) => {
      return `${begin}${reference[name]}\n${end}`;
    },
  );
}

const page = read(PAGE);
const env = () => "secret";

describe.each([PAGE, "packages/policy-file/README.md"])("%s", (file) => {
  const blocks = blocksOf(read(file)).filter(({ language }) => ["yaml", "json"].includes(language));

  it("shows files", () => expect(blocks.length).toBeGreaterThan(0));

  it.each(blocks.map(({ line, text }) => [line, text] as const))(
    "the file in line %i is taken",
    (line, text) => {
      expect(policiesFromText(text, `${file}+line-${line}`, { env })).toBeTypeOf("object");
    },
  );
});

it("has every option of the table, as the table says", () => {
  const made = [...page.matchAll(/<!-- made: (.*) -->/g)].map(([, name]) => name);
  expect(made).toEqual(Object.keys(reference));
  expect(page).toBe(withTables(page));
});

it("tells the errors that the file with faults has, word by word", () => {
  const [faulty, errors] = blocksOf(sectionOf(page, "What is wrong is told at once"));
  let message: string | undefined;
  try {
    policiesFromText(faulty!.text, "limits.yaml");
  } catch (error) {
    message = (error as PolicyFileError).message;
  }
  expect(message).toBe(errors!.text.trimEnd());
});

it("names every code", () => {
  const source = readFileSync(join(root, "packages/policy-file/src/errors.ts"), "utf8");
  const codes = new Set([...source.matchAll(/"(TIDEGATE_\w+)"/g)].map(([, code]) => code));
  const listed = tablesOf(sectionOf(page, "Errors")).flatMap((rows) => rows.map((row) => row["code"]));
  expect(listed).toEqual([...codes]);
});
