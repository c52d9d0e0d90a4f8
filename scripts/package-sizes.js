/** How large the packages are. `node scripts/package-sizes.js` writes the table of docs/packages.md anew. */
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { filesIn, packed } from "./published.js";
import { root } from "./run.js";

export const PAGE = "docs/packages.md";

/**
 * @typedef {{ name: string, tarballKb: number, unpackedKb: number, files: number }} Size kB of 1000 bytes
 */

/**
 * @param {import("./published.js").Tarball} tarball
 * @returns {Size}
 */
export function sizeOf({ name, file }) {
  const files = filesIn(file);
  const unpacked = files.reduce((sum, { size }) => sum + size, 0);
  return {
    name,
    tarballKb: Math.ceil(statSync(file).size / 1000),
    unpackedKb: Math.ceil(unpacked / 1000),
    files: files.length,
  };
}

const HEAD = "| package | tarball, kB | unpacked, kB | files |\n|---|---|---|---|\n";
const ROW = /^\| `(@tidegate\/[\w-]+)` \| (\d+) \| (\d+) \| (\d+) \|$/gm;

/**
 * What a page says.
 *
 * @param {string} page
 * @returns {Size[]}
 */
export const sizesIn = (page) =>
  [...page.matchAll(ROW)].map(([, name = "", tarballKb, unpackedKb, files]) => ({
    name,
    tarballKb: Number(tarballKb),
    unpackedKb: Number(unpackedKb),
    files: Number(files),
  }));

/** @param {Size[]} sizes */
function tableOf(sizes) {
  const rows = sizes.map(({ name, tarballKb, unpackedKb, files }) =>
    ["", `\`${name}\``, tarballKb, unpackedKb, files, ""].join(" | ").trim(),
  );
  return `${HEAD}${rows.join("\n")}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const sizes = (await packed()).map(sizeOf);
  const page = readFileSync(join(root, PAGE), "utf8");
  const begin = page.indexOf(HEAD);
  const end = page.indexOf("\n\n", begin) + 1;
  writeFileSync(join(root, PAGE), page.slice(0, begin) + tableOf(sizes) + page.slice(end));
  console.log(tableOf(sizes));
}
