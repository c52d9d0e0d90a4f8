/**
 * Everything a machine can say about the code besides the tests. One line per check; what a
 * check said is shown only when it failed. `node scripts/check.js lint types` runs those alone.
 */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { entries } from "../lua/build.js";
import { compose } from "../lua/compose.js";
import { pnpm, root, run } from "./run.js";
import { setup } from "./setup.js";
import { ensureProgram } from "./system-package.js";

/** @typedef {{ ok: boolean, output: string, skipped?: boolean }} Outcome */

const PACKED = join(root, ".cache/packed");
const REPORT = join(root, ".cache/check-report.json");

/** @type {Record<string, () => Outcome>} */
const checks = {
  lint: () => run("oxlint", ["--type-aware", "--deny-warnings"]),
  format: () => run("oxfmt", ["--check"]),
  types: () => run("tsc", []),
  "made files": () => run(process.execPath, ["lua/build.js", "--check"]),
  lua: luacheck,
  unused: () => run("knip", ["--no-progress"]),
  packages: checkPackages,
};

/** Checks scripts as Redis gets them: includes resolved, comments gone. */
function luacheck() {
  let program;
  try {
    program = ensureProgram("luacheck", {
      "apt-get": "lua-check",
      apk: "luacheck",
      dnf: "luacheck",
      brew: "luacheck",
    });
  } catch (error) {
    return { ok: true, skipped: true, output: messageOf(error) };
  }
  const globals = ["redis", "KEYS", "ARGV", "struct", "cmsgpack"];
  const options = [
    // `left` is part of what stands in for shared/time.lua, used or not.
    "--ignore",
    "211/left",
    // An entry's own ending before the common one: see ONLY in compose.js.
    "511",
    "--std",
    "lua51",
    "--no-max-line-length",
    "--no-unused-args",
    "--no-color",
    "--read-globals",
    ...globals,
  ];
  return all(
    entries.map((entry) => {
      // The `#!lua` line is for Redis; an empty one in its place keeps the line numbers.
      const input = compose(entry).replace(/^#!.*/, "");
      return run(program, ["-", "--filename", `${entry}.lua`, ...options], { input });
    }),
  );
}

/** Packs every package and checks the tarballs: what users get, not what the folder holds. */
function checkPackages() {
  rmSync(PACKED, { recursive: true, force: true });
  mkdirSync(PACKED, { recursive: true });
  const packing = pnpm(["--recursive", "--filter", "./packages/*", "pack", "--pack-destination", PACKED]);
  if (!packing.ok) return packing;
  const tarballs = readdirSync(PACKED).map((name) => join(PACKED, name));
  return all(
    tarballs.flatMap((tarball) => [
      run("publint", ["run", tarball, "--strict"]),
      run("attw", [tarball, "--profile", "node16", "--no-definitely-typed"]),
    ]),
  );
}

/**
 * @param {Outcome[]} outcomes
 * @returns {Outcome}
 */
function all(outcomes) {
  const failed = outcomes.filter(({ ok }) => !ok);
  return { ok: failed.length === 0, output: failed.map(({ output }) => output).join("\n") };
}

/** @param {unknown} error */
function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * A check that throws has failed; the others still run.
 *
 * @param {() => Outcome} check
 * @returns {Outcome}
 */
function outcomeOf(check) {
  try {
    return check();
  } catch (error) {
    return { ok: false, output: messageOf(error) };
  }
}

const count = { passed: 0, failed: 0, skipped: 0 };

/**
 * @param {string} name
 * @param {Outcome} outcome
 */
function tell(name, { ok, skipped, output }) {
  const word = skipped ? "skipped" : ok ? "passed" : "failed";
  count[word] += 1;
  console.log(`check: ${name} ${word === "passed" ? "ok" : word}${skipped ? ` (${output})` : ""}`);
  if (!ok) console.log(output);
}

const asked = process.argv.slice(2);
const ready = outcomeOf(() => {
  setup();
  return { ok: true, output: "" };
});
if (!ready.ok) tell("setup", ready);
else {
  for (const [name, check] of Object.entries(checks)) {
    if (asked.length === 0 || asked.includes(name)) tell(name, outcomeOf(check));
  }
}
mkdirSync(join(root, ".cache"), { recursive: true });
writeFileSync(REPORT, JSON.stringify(count));
process.exitCode = count.failed === 0 ? 0 : 1;
