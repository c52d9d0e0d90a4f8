/** Other versions of Node, to run the packages with. */
import { chmodSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { CACHE, made, npm, ran } from "./published.js";

/** @typedef {20 | 22 | 24 | 26} NodeMajor */

/** Exact, so that a release of Node changes no test by itself. @type {Record<NodeMajor, string>} */
const NODES = { 20: "20.20.2", 22: "22.23.5", 24: "24.22.3", 26: "26.12.1" };

export const nodeMajors = /** @type {NodeMajor[]} */ (Object.keys(NODES).map(Number));

/**
 * The program of another version of Node, from the registry's package of it for this platform.
 *
 * @param {NodeMajor} major
 * @returns {Promise<{ path: string } | { missing: string }>} missing: one sentence why
 */
export async function nodeOf(major) {
  if (process.version.startsWith(`v${major}.`)) return { path: process.execPath };
  const folder = join(CACHE, `node-${NODES[major]}`);
  try {
    await made(folder, (draft) => fetchNode(NODES[major], draft));
    return { path: join(folder, "node") };
  } catch (error) {
    return { missing: firstLine(error) };
  }
}

/**
 * @param {string} version
 * @param {string} draft
 */
async function fetchNode(version, draft) {
  const name = `node-${process.platform}-${process.arch}`;
  await npm(["install", "--prefix", draft, `${name}@${version}`], draft);
  const program = join(draft, "node");
  renameSync(join(draft, "node_modules", name, "bin/node"), program);
  rmSync(join(draft, "node_modules"), { recursive: true });
  chmodSync(program, 0o755);
  const { output } = await ran(program, ["--version"], { cwd: draft });
  if (output !== `v${version}`) throw new Error(`${name}@${version} does not run here: ${output}`);
}

/** @param {unknown} error */
const firstLine = (error) => (error instanceof Error ? error.message : String(error)).split("\n")[0] ?? "";
