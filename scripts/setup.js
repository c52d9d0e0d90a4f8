/**
 * Makes a checkout ready to run: dependencies installed, packages built. Each is skipped when
 * nothing it depends on has changed. `--rebuild` builds in any case.
 */
import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pnpm, root } from "./run.js";

/** Inside node_modules, so that removing the one removes the other. */
const INSTALLED = "node_modules/.tidegate-installed";
const WORKSPACES = ["packages", "examples"];

/** @param {{ rebuild?: boolean }} [options] */
export function setup({ rebuild = false } = {}) {
  const manifests = ["package.json", "pnpm-lock.yaml", "pnpm-workspace.yaml", "bench/package.json"].concat(
    WORKSPACES.flatMap(folders).map((folder) => `${folder}/package.json`),
  );
  step("dependencies", isNewer(INSTALLED, manifests), () => {
    const done = pnpm(["install", "--frozen-lockfile", "--config.confirm-modules-purge=false"]);
    if (done.ok) writeFileSync(join(root, INSTALLED), "");
    return done;
  });

  const built = packages().every((folder) =>
    // build.js writes this file last.
    isNewer(`${folder}/dist/cjs/package.json`, [
      INSTALLED,
      "packages/build.js",
      "packages/tsconfig.json",
      `${folder}/tsconfig.json`,
      ...tree(`${folder}/src`),
    ]),
  );
  step("build", built && !rebuild, () => pnpm(["--recursive", "--filter", "./packages/*", "build"]));
}

/** The folders of the packages we publish. */
export function packages() {
  return folders("packages").filter((folder) => existsSync(join(root, folder, "package.json")));
}

/**
 * @param {string} name
 * @param {boolean} fresh
 * @param {() => { ok: boolean, output: string }} act
 */
function step(name, fresh, act) {
  if (fresh) return console.log(`setup: ${name} up to date`);
  const start = Date.now();
  const { ok, output } = act();
  if (!ok) throw new Error(`setup: ${name} failed\n${output}`);
  console.log(`setup: ${name} done in ${((Date.now() - start) / 1000).toFixed(1)} s`);
}

/**
 * Whether `file` is at least as new as every one of `sources` that exists.
 *
 * @param {string} file
 * @param {string[]} sources
 */
function isNewer(file, sources) {
  return existsSync(join(root, file)) && sources.every((source) => age(source) <= age(file));
}

/** @param {string} path */
function age(path) {
  return statSync(join(root, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

/** @param {string} folder */
function folders(folder) {
  if (!existsSync(join(root, folder))) return [];
  const entries = readdirSync(join(root, folder), { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map((entry) => `${folder}/${entry.name}`);
}

/**
 * A folder and everything below it. Folders count too: theirs is the only date that tells of a removed file.
 *
 * @param {string} folder
 */
function tree(folder) {
  if (!existsSync(join(root, folder))) return [];
  const below = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
  return [folder, ...below.map((path) => `${folder}/${path}`)];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    setup({ rebuild: process.argv.includes("--rebuild") });
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
}
