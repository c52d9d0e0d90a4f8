/** What the tests of the documents read out of Markdown. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));

export const read = (file: string): string => readFileSync(join(root, file), "utf8");

/** Every Markdown file of the repository, by its path from the root. */
export const documents: readonly string[] = [
  ...readdirSync(root).filter((name) => name.endsWith(".md")),
  ...["docs", "lua", "packages", "examples"].flatMap((folder) => markdownBelow(folder)),
].sort();

function markdownBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) return ["node_modules", "dist"].includes(entry.name) ? [] : markdownBelow(path);
    return entry.name.endsWith(".md") ? [path] : [];
  });
}

export interface Block {
  readonly language: string;
  readonly text: string;
  /** Of its first line, from 1. */
  readonly line: number;
  /** What the comment `<!-- test: … -->` directly above declares for it. */
  readonly preamble: string;
}

const FENCE = /(?:^<!-- test: (.*?) -->\n)?^```(\w*)\n([^]*?)^```$/gm;

export function blocksOf(markdown: string): Block[] {
  return [...markdown.matchAll(FENCE)].map((match) => {
    const [whole, preamble = "", language = "", text = ""] = match;
    const above = markdown.slice(0, match.index + whole.indexOf("```"));
    return { language, text, preamble, line: above.split("\n").length + 1 };
  });
}

export function blockOf(markdown: string, language: string): string {
  const found = blocksOf(markdown).find((block) => block.language === language);
  if (!found) throw new Error(`there is no block of ${language}`);
  return found.text;
}

/** A section from its heading to the next of the same level or above, by the heading's text. */
export function sectionOf(markdown: string, heading: string): string {
  const lines = markdown.split("\n");
  const start = lines.findIndex((line) => /^#+ /.test(line) && line.replace(/^#+ /, "") === heading);
  if (start < 0) throw new Error(`there is no heading "${heading}"`);
  const level = lines[start]!.indexOf(" ");
  const length = lines.slice(start + 1).findIndex((line) => new RegExp(`^#{1,${level}} `).test(line));
  return lines.slice(start, length < 0 ? undefined : start + 1 + length).join("\n");
}

/** The tables of a text, each as a list of rows by the names of its columns. Code marks are taken off. */
export function tablesOf(markdown: string): Record<string, string>[][] {
  const tables = markdown.match(/(?:^\|.*\|\n?)+/gm) ?? [];
  return tables.map((table) => {
    const [head, , ...rows] = table.trim().split("\n").map(cellsOf);
    return rows.map((row) => Object.fromEntries(head!.map((name, i) => [name, row[i] ?? ""])));
  });
}

const cellsOf = (line: string): string[] =>
  line
    .slice(1, -1)
    .split("|")
    .map((cell) => cell.trim().replace(/^`(.*)`$/, "$1"));
