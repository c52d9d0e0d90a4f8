import { existsSync, statSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, it } from "vitest";
import { documents, read, root } from "./markdown.ts";

/** A document without its code, where brackets mean other things. */
const prose = (file: string): string => read(file).replace(/^```[^]*?^```$/gm, "");

const targetsIn = (file: string): string[] =>
  [...prose(file).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!);

/** The anchors of a document, as GitHub makes them of its headings. */
function anchorsOf(file: string): string[] {
  const headings = prose(file).match(/^#+ .*$/gm) ?? [];
  return headings.map((heading) =>
    heading
      .replace(/^#+ /, "")
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

describe.each(documents)("%s", (file) => {
  it("links to files and headings that are there", () => {
    const broken = targetsIn(file).filter((target) => {
      if (/^[a-z]+:/.test(target)) return false;
      const [path, anchor] = target.split("#") as [string, string?];
      const found = path === "" ? file : normalize(join(dirname(file), path));
      if (!existsSync(join(root, found))) return true;
      return anchor !== undefined && !(found.endsWith(".md") && anchorsOf(found).includes(anchor));
    });
    expect(broken).toEqual([]);
  });

  it("names files and commands that are there", () => {
    const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
    const text = read(file);
    const commands = [...text.matchAll(/npm run ([a-z]+)/g)].map(([, name]) => name!);
    expect(commands.filter((name) => !(name in scripts))).toEqual([]);
    const paths = [...text.matchAll(/`((?:lua|packages|test|examples|docs|scripts)\/[\w./-]+)`/g)];
    const missing = paths.map(([, path]) => path!).filter((path) => !existsSync(join(root, path)));
    expect(missing).toEqual([]);
  });
});

it("every page under docs is reached from an index", () => {
  const pages = documents.filter((file) => file.startsWith("docs/") && !file.endsWith("README.md"));
  const linked = ["docs/README.md", "docs/decisions/README.md", "docs/api/README.md"].flatMap((index) =>
    targetsIn(index).map((target) => normalize(join(dirname(index), target))),
  );
  expect(pages.filter((page) => !linked.includes(page))).toEqual([]);
  expect(pages.every((page) => statSync(join(root, page)).size > 0)).toBe(true);
});
