/**
 * `node scripts/release.js --dry-run` goes through a release in a copy of the repository, up to the point where
 * something would leave this machine: versions and change logs by changesets, tarballs, publint, attw and
 * `npm publish --dry-run`. Nothing in the repository changes. CONTRIBUTING.md says how a release is made.
 */
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { manifestIn, pack, ran, requireBuilt, tarballsOf } from "./published.js";
import { env, root } from "./run.js";
import { packages } from "./setup.js";

/**
 * @typedef {{ version: string, warnings: string[] }} Rehearsal
 * @typedef {(line: string) => void} Say
 */

/**
 * @param {Say} say told of each step that went well
 * @returns {Promise<Rehearsal>} the version that would be released, and what the publisher has to see to before
 * @throws {Error} at the first step that fails, with all that its program said
 */
export async function rehearse(say) {
  packages().forEach(requireBuilt);
  const copy = mkdtempSync(join(tmpdir(), "tidegate-release-"));
  try {
    await copyRepository(copy);
    const version = await versions(copy, say);
    const stale = staleSources();
    const tarballs = packedIn(copy, version);
    say(`pack: ${tarballs.map(({ file }) => basename(file)).join(", ")}`);
    await inPairs(tarballs, check);
    say("publint and attw: nothing to complain of");
    await inPairs(tarballs, publish);
    say("npm publish --dry-run: all would be taken");
    return { version, warnings: [...stale, ...missingFields(tarballs.map(({ file }) => manifestIn(file)))] };
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

const ROOT_FILES = ["package.json", "pnpm-workspace.yaml", "pnpm-lock.yaml", ".gitignore", ".changeset"];

/**
 * With a history of one commit: changesets compare with a branch.
 *
 * @param {string} copy
 */
async function copyRepository(copy) {
  for (const name of [...ROOT_FILES, "packages"]) copyOf(copy, name);
  for (const name of privateManifests()) copyOf(copy, name);
  await git(copy, "init", "--quiet", "--initial-branch=main");
  await git(copy, "add", "--all");
  await git(copy, "commit", "--quiet", "--message=rehearsal");
}

/**
 * Links stay as they are: a package finds its neighbours in the copy.
 *
 * @param {string} copy
 * @param {string} name
 */
const copyOf = (copy, name) =>
  cpSync(join(root, name), join(copy, name), { recursive: true, verbatimSymlinks: true });

/** Of the workspace's packages that are never published: changesets want to know all. */
function privateManifests() {
  const examples = readdirSync(join(root, "examples")).map((name) => `examples/${name}/package.json`);
  return ["bench/package.json", ...examples].filter((path) => existsSync(join(root, path)));
}

/**
 * @param {string} cwd
 * @param {string[]} args
 */
async function git(cwd, ...args) {
  const who = [
    "-c",
    "user.name=rehearsal",
    "-c",
    "user.email=rehearsal@localhost",
    "-c",
    "commit.gpgsign=false",
  ];
  await program("git", [...who, ...args], cwd);
}

/**
 * Lets changesets write versions and change logs. Where no change waits, one is made up.
 *
 * @param {string} copy
 * @param {Say} say
 * @returns {Promise<string>} the version of all packages
 */
async function versions(copy, say) {
  await program("changeset", ["status"], copy);
  const waiting = changesetsIn(copy).length;
  if (waiting === 0) writeFileSync(join(copy, ".changeset/rehearsal.md"), MADE_UP);
  await program("changeset", ["version"], copy);
  if (changesetsIn(copy).length > 0) throw new Error("changeset version has left changes behind");
  const found = new Set(packages().map((path) => manifestOf(copy, path).version));
  if (found.size !== 1) throw new Error(`packages have several versions: ${[...found].join(", ")}`);
  const [version] = found;
  say(`changeset version: ${version}, from ${waiting || "no"} changes that wait`);
  return version;
}

const MADE_UP = '---\n"@tidegate/core": patch\n---\n\nA rehearsal of a release.\n';

/** @param {string} copy */
const changesetsIn = (copy) =>
  readdirSync(join(copy, ".changeset")).filter((name) => name.endsWith(".md") && name !== "README.md");

/**
 * @param {string} copy
 * @param {string} path
 */
const manifestOf = (copy, path) => JSON.parse(readFileSync(join(copy, path, "package.json"), "utf8"));

/**
 * Packs, and holds what packages need of each other to the new version.
 *
 * @param {string} copy
 * @param {string} version
 */
function packedIn(copy, version) {
  const folder = join(copy, "tarballs");
  mkdirSync(folder);
  pack(copy, folder);
  const tarballs = tarballsOf(copy, folder);
  for (const { file } of tarballs) {
    const { name, dependencies = {}, peerDependencies = {} } = manifestIn(file);
    for (const [needed, range] of Object.entries({ ...dependencies, ...peerDependencies })) {
      if (/^(workspace|catalog):/.test(range)) throw new Error(`${name} needs ${needed} as ${range}`);
      if (needed.startsWith("@tidegate/") && range !== `^${version}`)
        throw new Error(`${name} ${version} needs ${needed} ${range}`);
    }
  }
  return tarballs;
}

/** @typedef {import("./published.js").Tarball} Tarball */

/** @param {Tarball} tarball */
async function check({ file }) {
  await program("publint", ["run", file, "--strict"], root);
  await program("attw", [file, "--profile", "node16", "--no-definitely-typed"], root);
}

/**
 * Asks the registry nothing that needs a login, and gives it nothing.
 *
 * @param {Tarball} tarball
 */
async function publish({ name, file }) {
  const output = await program("npm", ["publish", file, "--dry-run", "--access=public"], tmpdir());
  if (!output.includes(`+ ${name}@`)) throw new Error(output);
}

/**
 * On two cores at a time.
 *
 * @param {Tarball[]} tarballs
 * @param {(tarball: Tarball) => Promise<void>} act
 */
async function inPairs(tarballs, act) {
  const rest = [...tarballs];
  const worker = async () => {
    for (let next = rest.shift(); next; next = rest.shift()) await act(next);
  };
  await Promise.all([worker(), worker()]);
}

/** Sources in which the version stands as text: changesets do not know of them. */
function staleSources() {
  return packages().flatMap((folder) => {
    const { version } = manifestOf(root, folder);
    const sources = readdirSync(join(root, folder, "src"), { recursive: true, encoding: "utf8" });
    const stale = sources
      .map((name) => `${folder}/src/${name}`)
      .filter((path) => statSync(join(root, path)).isFile())
      .filter((path) => readFileSync(join(root, path), "utf8").includes(`"${version}"`));
    return stale.map((path) => `${path} says "${version}": write the new version there, and build`);
  });
}

/** What npm's provenance compares with the place that a release is built at, or a reader looks for on its page. */
const WANTED = ["repository", "homepage", "bugs"];

/** @param {Record<string, unknown>[]} manifests */
export const missingFields = (manifests) =>
  WANTED.flatMap((field) => {
    const missing = manifests.filter((manifest) => !manifest[field]).map(({ name }) => name);
    return missing.length === 0 ? [] : [`\`${field}\` is not set in package.json of ${missing.join(", ")}`];
  });

/**
 * @param {string} command
 * @param {string[]} args
 * @param {string} cwd
 */
async function program(command, args, cwd) {
  const { ok, output } = await ran(command, args, { cwd, env: { PATH: env.PATH } });
  if (!ok) throw new Error(`${command} ${args.join(" ")} failed\n${output}`);
  return output;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    if (process.argv[2] !== "--dry-run")
      throw new Error("only --dry-run is done here. CONTRIBUTING.md says how to publish");
    const { version, warnings } = await rehearse((line) => console.log(`release: ${line}`));
    for (const warning of warnings) console.warn(`release: warning: ${warning}`);
    console.log(`release: ${version} could be published`);
  } catch (error) {
    console.error(`release: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  }
}
