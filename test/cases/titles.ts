/** The names of all tests, as they stand in the sources: nothing is run for it. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseSync } from "vite";

const root = fileURLToPath(new URL("../..", import.meta.url));
const LEFT_OUT = ["node_modules", "dist"];

/** Sources below a folder, by their paths from the root. Those of a contract hold tests too, which other files run. */
function sourcesBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) return LEFT_OUT.includes(entry.name) ? [] : sourcesBelow(path);
    return entry.name.endsWith(".ts") ? [path] : [];
  });
}

export interface TestTitle {
  /** From the root of the repository. */
  readonly file: string;
  /** With the titles of the groups around it, from the outermost. */
  readonly title: string;
}

type Tree = Readonly<Record<string, unknown>>;

export function testTitles(): readonly TestTitle[] {
  return [...sourcesBelow("test"), ...sourcesBelow("packages")].flatMap((file) => {
    const { program } = parseSync(file, readFileSync(join(root, file), "utf8"));
    return titlesIn(program as unknown as Tree, "").map((title) => ({ file, title }));
  });
}

/** @param around the titles of the groups that it stands in */
function titlesIn(tree: Tree, around: string): string[] {
  const own = callOf(tree);
  if (!own) return childrenOf(tree).flatMap((child) => titlesIn(child, around));
  const { maker, rows, rest } = own;
  const titles = rows.map((row) => `${around} ${row}`.trim());
  if (maker !== "describe") return titles;
  return titles.flatMap((title) => rest.flatMap((child) => titlesIn(child, title)));
}

function childrenOf(tree: Tree): Tree[] {
  return Object.values(tree)
    .flat()
    .filter((value): value is Tree => typeof value === "object" && value !== null);
}

/** `describe("…", …)`, `it.each(rows)("…", …)` and the like, with the title of each row that can be read. */
function callOf(tree: Tree): { maker: string; rows: string[]; rest: Tree[] } | undefined {
  if (tree["type"] !== "CallExpression") return undefined;
  const maker = makerOf(tree["callee"] as Tree);
  const [first, ...rest] = tree["arguments"] as Tree[];
  const title = maker && first && textOf(first);
  if (!maker || title === undefined) return undefined;
  return { maker, rows: filledIn(title, rowsOf(tree["callee"] as Tree)), rest };
}

/** What a call begins with: `it` of `it.each(rows)`. */
function makerOf(callee: Tree): string | undefined {
  if (callee["type"] === "Identifier") {
    const name = callee["name"] as string;
    return ["describe", "it", "test"].includes(name) ? name : undefined;
  }
  return ["MemberExpression", "CallExpression"].includes(callee["type"] as string)
    ? makerOf((callee["object"] ?? callee["callee"]) as Tree)
    : undefined;
}

/** Text as it stands, with `${…}` for what is worked out. */
function textOf({ type, value, quasis }: Tree): string | undefined {
  if (type === "Literal" && typeof value === "string") return value;
  if (type !== "TemplateLiteral") return undefined;
  return (quasis as { value: { cooked: string } }[]).map((quasi) => quasi.value.cooked).join("${…}");
}

/** The texts that the rows of a table begin with, where it is written in the call. */
function rowsOf(callee: Tree): string[] {
  const [table] = (callee["arguments"] as Tree[] | undefined) ?? [];
  if (table?.["type"] !== "ArrayExpression") return [];
  const firsts = (table["elements"] as Tree[]).flatMap((row) =>
    row["type"] === "ArrayExpression" ? (row["elements"] as Tree[]).slice(0, 1) : row,
  );
  return firsts.flatMap((first) => textOf(first as Tree) ?? []);
}

const filledIn = (title: string, rows: readonly string[]): string[] =>
  rows.length > 0 && title.includes("%s") ? rows.map((row) => title.replace("%s", row)) : [title];
