/**
 * Builds the package in the current folder, once per module format:
 * dist/esm for `import`, dist/cjs for `require`.
 */
import { spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";

// Dependencies are read as they are published, from their own dist.
const COMMON = ["--customConditions", "null"];
const CJS = "--outDir dist/cjs --module commonjs --moduleResolution bundler --verbatimModuleSyntax false";

rmSync("dist", { recursive: true, force: true });
tsc([]);
tsc(CJS.split(" "));
// Written last: scripts/setup.js takes its age for the age of the build.
writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');

/** @param {string[]} options */
function tsc(options) {
  // `pnpm run` puts node_modules/.bin on PATH; Windows finds tsc.cmd only through a shell.
  const shell = process.platform === "win32";
  const { status, error } = spawnSync("tsc", [...COMMON, ...options], { stdio: "inherit", shell });
  if (error) throw error;
  if (status !== 0) process.exit(1);
}
