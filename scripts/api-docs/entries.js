/** What can be imported: every entry point of the packages that are libraries, as their manifests name them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../run.js";

/**
 * @typedef {object} Entry
 * @property {string} page its page's name, such as `core-simulate`
 * @property {string} specifier what an import says, such as `@tidegate/core/simulate`
 * @property {string} folder the package's, from the root: `packages/core`
 * @property {string} source the module, from the root
 */

/** Used by its command alone: docs/cli.md tells of that. */
const COMMANDS = ["cli"];

/** @returns {Entry[]} */
export function entries() {
  const names = readdirSync(join(root, "packages"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !COMMANDS.includes(entry.name))
    .map(({ name }) => name);
  return names.flatMap(entriesOf).toSorted((a, b) => (a.page < b.page ? -1 : 1));
}

/**
 * @param {string} name a package's folder
 * @returns {Entry[]}
 */
function entriesOf(name) {
  const folder = `packages/${name}`;
  const manifest = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
  return Object.entries(manifest.exports).flatMap(([subpath, target]) => {
    const source = target["@tidegate/source"];
    if (source === undefined) return [];
    const below = subpath.slice(2);
    return {
      page: below ? `${name}-${below}` : name,
      specifier: below ? `${manifest.name}/${below}` : manifest.name,
      folder,
      source: `${folder}/${source.slice(2)}`,
    };
  });
}
