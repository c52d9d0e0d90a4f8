import { escaped } from "./escape.ts";

export type Cell = string;

/** The numbers of a plot, folded away. The first cell of a row names it. */
export function tableOf(
  caption: string,
  head: readonly string[],
  rows: readonly (readonly Cell[])[],
): string {
  return [
    `<details><summary>Numbers: ${escaped(caption.toLowerCase())}</summary><div class="scroll" role="region" aria-label="${escaped(caption)}" tabindex="0">`,
    plainTable(caption, head, rows),
    "</div></details>",
  ].join("");
}

export function plainTable(
  caption: string,
  head: readonly string[],
  rows: readonly (readonly Cell[])[],
): string {
  const heads = head.map((cell) => `<th scope="col">${escaped(cell)}</th>`).join("");
  const body = rows.map(([first = "", ...cells]) => {
    const rest = cells.map((cell) => `<td>${escaped(cell)}</td>`).join("");
    return `<tr><th scope="row">${escaped(first)}</th>${rest}</tr>`;
  });
  return `<table><caption>${escaped(caption)}</caption><thead><tr>${heads}</tr></thead><tbody>${body.join("")}</tbody></table>`;
}
