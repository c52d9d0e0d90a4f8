import { stripVTControlCharacters } from "node:util";
import Table from "cli-table3";
import type { Colour } from "./io.ts";

const SIDES = ["top", "bottom", "mid", "left", "right"] as const;

/** No lines: a table that can be read is also one that can be cut by `awk` and pasted into a ticket. */
const NO_LINES = Object.fromEntries([
  ...SIDES.flatMap((side) =>
    [side, `${side}-mid`, `${side}-left`, `${side}-right`].map((name) => [name, ""]),
  ),
  ["middle", "  "],
]);

/**
 * Rows under their heads. Where they are wider than the terminal, each row is told by lines of its own, so that nothing
 * is cut and no column breaks. A column without a head stands there when something stands in it.
 */
export function tableOf(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  { width, colour }: { readonly width: number; readonly colour: Colour },
): string {
  const kept = head.flatMap((title, i) => (title !== "" || rows.some((row) => row[i]) ? [i] : []));
  if (kept.length < head.length) {
    const narrower = (row: readonly string[]) => kept.map((i) => row[i] ?? "");
    return tableOf(narrower(head), rows.map(narrower), { width, colour });
  }
  const table = new Table({
    head: head.map((cell) => colour.bold(cell)),
    chars: NO_LINES,
    style: { head: [], border: [], "padding-left": 0, "padding-right": 0 },
  });
  table.push(...rows.map((row) => [...row]));
  const lines = table
    .toString()
    .split("\n")
    .map((line) => line.trimEnd());
  return lines.some((line) => columnsOf(line) > width) ? stacked(head, rows, colour) : lines.join("\n");
}

const columnsOf = (line: string): number => stripVTControlCharacters(line).length;

function stacked(head: readonly string[], rows: readonly (readonly string[])[], colour: Colour): string {
  const name = Math.max(...head.map((cell) => cell.length));
  const blocks = rows.map((row) =>
    row
      .map((cell, i) => [head[i] ?? "", cell] as const)
      .filter(([, cell]) => cell !== "")
      .map(([title, cell]) => `${colour.bold(title.padEnd(name))}  ${cell}`)
      .join("\n"),
  );
  return blocks.join("\n\n");
}
