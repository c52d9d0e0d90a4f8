/** How every script here starts another program. Node's own modules only: it runs before anything is installed. */
import { spawnSync } from "node:child_process";
import { accessSync, constants, readFileSync, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";

/** The repository's folder, with a slash at its end. */
export const root = fileURLToPath(new URL("..", import.meta.url));

const PATH = [join(root, "node_modules/.bin"), process.env.PATH ?? ""].join(delimiter);
export const env = { ...process.env, PATH };

/**
 * Runs a program to its end, without input, and keeps what it says.
 *
 * @param {string} command
 * @param {string[]} args
 * @param {{ input?: string }} [options]
 * @returns {{ ok: boolean, output: string }}
 */
export function run(command, args, { input = "" } = {}) {
  const done = spawnSync(command, args, { cwd: root, input, env, encoding: "utf8", maxBuffer: 64 << 20 });
  const output = [done.stdout, done.stderr, done.error?.message].filter(Boolean).join("\n").trim();
  // Some tools colour whatever they write once CI is set.
  return { ok: done.status === 0, output: stripVTControlCharacters(output) };
}

/**
 * Runs the pnpm that package.json names, which npm fetches when it is not there yet.
 *
 * @param {string[]} args
 */
export function pnpm(args) {
  const { packageManager } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  return run("npx", ["--yes", packageManager, ...args]);
}

/**
 * The full path of a program, or undefined when there is none of that name.
 *
 * @param {string} program
 */
export function findProgram(program) {
  return (process.env.PATH ?? "")
    .split(delimiter)
    .map((folder) => join(folder, program))
    .find(isExecutable);
}

/** @param {string} file */
function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
