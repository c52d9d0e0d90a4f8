/**
 * The packages as users get them: packed, and installed by npm in a folder outside the repository.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";
import { gunzipSync } from "node:zlib";
import { pnpm, root } from "./run.js";
import { packages } from "./setup.js";

/**
 * @typedef {{ name: string, version: string, file: string }} Tarball
 * @typedef {{ path: string, size: number, bytes: Buffer }} PackedFile path: inside the package; size: in bytes
 * @typedef {{ ok: boolean, output: string }} Outcome
 */

export const CACHE = join(root, ".cache/published");

/** Outside the repository, whose own node_modules would else be found from there. */
const INSTALLED = join(tmpdir(), `tidegate-published-${process.getuid?.() ?? "here"}`);

/** How long what nobody used is kept, ms. */
const KEPT_MS = 60 * 60 * 1000;

/**
 * Packs every package as it is built, once for what it holds.
 *
 * @returns {Promise<Tarball[]>} as {@link tarballsOf}
 * @throws {Error} when a package is not built from its sources as they are
 */
export async function packed() {
  const folders = packages();
  folders.forEach(requireBuilt);
  const folder = join(CACHE, `packed-${digestOf(folders)}`);
  await made(folder, (draft) => {
    forget(CACHE, "packed-");
    pack(root, draft);
  });
  return tarballsOf(root, folder);
}

/**
 * Packs the packages of a workspace.
 *
 * @param {string} workspace the repository's folder, or a copy of it
 * @param {string} destination
 */
export function pack(workspace, destination) {
  const args = ["--dir", workspace, "--recursive", "--filter", "./packages/*", "pack"];
  const { ok, output } = pnpm([...args, "--pack-destination", destination]);
  if (!ok) throw new Error(`pnpm pack failed\n${output}`);
}

/**
 * @param {string} workspace
 * @param {string} folder where its packages were packed
 * @returns {Tarball[]} in the order in which they may be published: what others need comes first
 */
export function tarballsOf(workspace, folder) {
  const found = packages().map((path) => {
    const manifest = JSON.parse(readFileSync(join(workspace, path, "package.json"), "utf8"));
    const { name, version, dependencies = {} } = manifest;
    const file = join(folder, `${name.slice(1).replace("/", "-")}-${version}.tgz`);
    const ours = Object.keys(dependencies).filter((dependency) => dependency.startsWith("@tidegate/"));
    return { name, version, file, ours };
  });
  /** @type {Tarball[]} */
  const ordered = [];
  while (ordered.length < found.length) {
    const isOut = (/** @type {string} */ name) => ordered.some((tarball) => tarball.name === name);
    const next = found.find(({ name, ours }) => !isOut(name) && ours.every(isOut));
    if (!next) throw new Error("packages need each other in a circle");
    ordered.push({ name: next.name, version: next.version, file: next.file });
  }
  return ordered;
}

const BLOCK = 512;

/**
 * @param {string} tarball
 * @returns {PackedFile[]} sorted by path
 */
export function filesIn(tarball) {
  const archive = gunzipSync(readFileSync(tarball));
  const files = [];
  for (let at = 0; archive[at];) {
    const { path, size, isFile } = headOf(archive.subarray(at, at + BLOCK));
    if (!isFile) throw new Error(`${tarball}: ${path} is no plain file`);
    const bytes = archive.subarray(at + BLOCK, at + BLOCK + size);
    // npm puts everything into one folder.
    files.push({ path: path.replace(/^package\//, ""), size, bytes });
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/**
 * The manifest as a registry gets it: no `workspace:`, no `catalog:`.
 *
 * @param {string} tarball
 * @returns {Record<string, any>}
 */
export function manifestIn(tarball) {
  const file = filesIn(tarball).find(({ path }) => path === "package.json");
  if (!file) throw new Error(`${tarball} has no package.json`);
  return JSON.parse(file.bytes.toString());
}

/** @param {Buffer} head of one file in a tar archive */
function headOf(head) {
  const text = (/** @type {number} */ from, /** @type {number} */ length) =>
    head.toString("utf8", from, from + length).replace(/\0.*$/s, "");
  const [folder, name] = [text(345, 155), text(0, 100)];
  const path = folder ? `${folder}/${name}` : name;
  return { path, size: Number.parseInt(text(124, 12), 8), isFile: text(156, 1) === "0" };
}

/**
 * A folder where npm has installed all packages from their tarballs, and others from the registry. Made once for what
 * the packages hold. Programs go into {@link roomIn} of it.
 *
 * @param {string} name
 * @param {Record<string, string>} others their exact versions, by name
 * @param {readonly string[]} [ours] which of the packages; all by default
 */
export async function installed(name, others, ours) {
  const tarballs = (await packed()).filter((tarball) => ours?.includes(tarball.name) ?? true);
  const manifest = JSON.stringify(manifestOf(tarballs, others), undefined, 2);
  const key = createHash("sha256").update(manifest).digest("hex").slice(0, 16);
  mkdirSync(INSTALLED, { recursive: true, mode: 0o700 });
  const folder = join(INSTALLED, `${name}-${key}`);
  await made(folder, async (draft) => {
    forget(INSTALLED, `${name}-`);
    writeFileSync(join(draft, "package.json"), manifest);
    await npm(["install"], draft);
  });
  return folder;
}

/**
 * @param {Tarball[]} tarballs
 * @param {Record<string, string>} others
 */
function manifestOf(tarballs, others) {
  const files = Object.fromEntries(tarballs.map(({ name, file }) => [name, `file:${file}`]));
  // A version that depends on another of ours must get the tarball, not what the registry may have.
  const overrides = Object.fromEntries(tarballs.map(({ name }) => [name, `$${name}`]));
  return { name: "app", version: "1.0.0", private: true, dependencies: { ...files, ...others }, overrides };
}

/**
 * A new empty folder inside one that {@link installed} made. Whoever asks for it removes it.
 *
 * @param {string} folder
 */
export const roomIn = (folder) => mkdtempSync(join(folder, "room-"));

/**
 * From npm's own cache where it can, and once more from the registry where that fails: what is cached may be old.
 *
 * @param {string[]} args
 * @param {string} cwd
 * @throws {Error} with all that npm said
 */
export async function npm(args, cwd) {
  const quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
  const cached = await ran("npm", [...args, ...quiet, "--prefer-offline"], { cwd });
  const { ok, output } = cached.ok ? cached : await ran("npm", [...args, ...quiet], { cwd });
  if (!ok) throw new Error(`npm ${args[0]} failed: ${output}`);
}

/** How long a program may run, ms: none that hangs is left behind. */
const LONGEST_MS = 240_000;

/**
 * Runs a program to its end, as a user's shell would: nothing of this process's own settings is passed on.
 *
 * @param {string} command
 * @param {string[]} args
 * @param {{ cwd: string, env?: Record<string, string | undefined> }} options
 * @returns {Promise<Outcome>}
 */
export function ran(command, args, { cwd, env = {} }) {
  return new Promise((resolve) => {
    const limits = { maxBuffer: 64 << 20, timeout: LONGEST_MS, killSignal: /** @type {const} */ ("SIGKILL") };
    const options = { cwd, env: { ...plainEnv(), ...env }, ...limits };
    execFile(command, args, options, (error, stdout, stderr) => {
      const missing = error && "syscall" in error ? error.message : "";
      const output = [stdout, stderr, missing].filter(Boolean).join("\n").trim();
      resolve({ ok: !error, output: stripVTControlCharacters(output) });
    });
  });
}

/** What npm, vitest and Node's own variables would change in a program that is started from here. */
const OURS =
  /^(npm_(package|lifecycle)_|npm_config_(local_)?prefix$|npm_command$|INIT_CWD$|VITEST|NODE_(OPTIONS|PATH|ENV)$|FORCE_COLOR$)/;

export const plainEnv = () =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !OURS.test(name)));

/**
 * Makes a folder, or finds it made. It appears whole or not at all; of several processes one makes it, and the others
 * wait.
 *
 * @param {string} folder
 * @param {(draft: string) => void | Promise<void>} make
 */
export async function made(folder, make) {
  const draft = `${folder}.draft`;
  while (!existsSync(folder)) {
    if (!begun(draft)) {
      await setTimeout(100);
      continue;
    }
    try {
      await make(draft);
      renameSync(draft, folder);
    } finally {
      rmSync(draft, { recursive: true, force: true });
    }
  }
  utimesSync(folder, new Date(), new Date());
}

/**
 * Whether this process is the one that makes it.
 *
 * @param {string} draft
 */
function begun(draft) {
  mkdirSync(dirname(draft), { recursive: true });
  const age = Date.now() - (statSync(draft, { throwIfNoEntry: false })?.birthtimeMs ?? Date.now());
  // Whoever began it has died.
  if (age > 2 * LONGEST_MS) rmSync(draft, { recursive: true, force: true });
  try {
    mkdirSync(draft);
    return true;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "EEXIST") return false;
    throw error;
  }
}

/**
 * Removes what nobody has used for long: each change of a package leaves a folder.
 *
 * @param {string} parent
 * @param {string} prefix
 */
function forget(parent, prefix) {
  for (const name of readdirSync(parent).filter((name) => name.startsWith(prefix))) {
    const path = join(parent, name);
    const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0);
    if (age > KEPT_MS) rmSync(path, { recursive: true, force: true });
  }
}

/**
 * @param {string} folder of a package, from the root
 * @throws {Error} when it is not built from its sources as they are
 */
export function requireBuilt(folder) {
  const built = statSync(join(root, folder, "dist/cjs/package.json"), { throwIfNoEntry: false });
  const changed = filesBelow(`${folder}/src`).find(
    (file) => statSync(join(root, file)).mtimeMs > (built?.mtimeMs ?? 0),
  );
  if (changed) throw new Error(`${changed} is newer than what was built of it: run \`npm run build\``);
}

/** @param {string[]} folders */
function digestOf(folders) {
  const hash = createHash("sha256");
  const whole = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { withFileTypes: true }).flatMap(({ name }) => {
      const path = `${folder}/${name}`;
      if (name === "node_modules") return [];
      return statSync(join(root, path)).isDirectory() ? filesBelow(path) : [path];
    }),
  );
  for (const file of [...whole.sort(), "pnpm-workspace.yaml"])
    hash.update(`${file}\0`).update(readFileSync(join(root, file)));
  return hash.digest("hex").slice(0, 16);
}

/** @param {string} folder */
function filesBelow(folder) {
  const entries = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
  return entries.map((entry) => `${folder}/${entry}`).filter((path) => statSync(join(root, path)).isFile());
}
