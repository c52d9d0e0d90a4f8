/**
 * The servers that tests run against. What this system does not offer is unpacked into `.cache/servers`.
 * `node scripts/servers.js` says of each what it is and how it is started, or why it was not to be had.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { throughLoader, unpackRelease } from "./debian-release.js";
import { ensureRedisServer } from "./redis.js";
import { findProgram, root, run } from "./run.js";

/**
 * @typedef {"redis-7.0" | "redis-8.0" | "valkey-8.0" | "valkey-8.1"} ServerName
 * @typedef {{ name: ServerName, version: string, command: string[] }} FoundServer
 * @typedef {{ name: ServerName, missing: string }} MissingServer missing: one sentence why
 * @typedef {FoundServer | MissingServer} Server
 * @typedef {"bookworm" | "trixie"} Release
 */

const FOLDER = join(root, ".cache/servers");

/** Where the list of servers is written. */
export const listFile = join(root, ".cache/servers.json");

/** Which release of Debian has which. @type {Record<ServerName, { program: string, release: Release }>} */
const SERVERS = {
  "redis-7.0": { program: "redis-server", release: "bookworm" },
  "redis-8.0": { program: "redis-server", release: "trixie" },
  "valkey-8.0": { program: "valkey-server", release: "bookworm" },
  "valkey-8.1": { program: "valkey-server", release: "trixie" },
};

export const serverNames = /** @type {ServerName[]} */ (Object.keys(SERVERS));

/** @type {Record<Release, string>} */
const SUITES = { bookworm: "bookworm bookworm-backports", trixie: "trixie" };

/**
 * Makes every server ready to start, and writes the list of them to `.cache/servers.json` for the
 * tests. Never fails: what a missing server means, the tests decide.
 *
 * @returns {Server[]}
 */
export function ensureServers() {
  const servers = serverNames.map(ensureServer);
  mkdirSync(join(root, ".cache"), { recursive: true });
  writeFileSync(listFile, `${JSON.stringify(servers, undefined, 2)}\n`);
  for (const server of servers)
    if ("missing" in server) console.error(`setup: ${server.name} is not to be had: ${server.missing}`);
  return servers;
}

/**
 * @param {ServerName} name
 * @returns {Server}
 */
function ensureServer(name) {
  const { program, release } = SERVERS[name];
  try {
    return installed(name, program) ?? unpacked(name, program, release);
  } catch (error) {
    return { name, missing: messageOf(error) };
  }
}

/**
 * What this system has by itself, when it is of the version that is asked for.
 *
 * @param {ServerName} name
 * @param {string} program
 */
function installed(name, program) {
  const path = program === "redis-server" ? redisServer() : findProgram(program);
  const found = path && described(name, [path]);
  return found && isOf(name, found.version) ? found : undefined;
}

/** Installed when there is none; undefined where that cannot be done, or it is too old. */
function redisServer() {
  try {
    return ensureRedisServer();
  } catch {
    return undefined;
  }
}

/**
 * @param {ServerName} name
 * @param {string} program
 * @param {Release} release
 */
function unpacked(name, program, release) {
  const found = described(name, throughLoader(folderOf(release), program));
  if (isOf(name, found.version)) return found;
  throw new Error(`the mirror's ${release} has ${found.version}.`);
}

/** Why a release was not to be had, so that nobody waits for the same twice. @type {Map<Release | "any", Error>} */
const failures = new Map();

/** @param {Release} release */
function folderOf(release) {
  const folder = join(FOLDER, release);
  if (existsSync(folder)) return folder;
  const failure = failures.get(release) ?? failures.get("any");
  if (failure) throw failure;
  console.log(`setup: fetching servers of Debian's ${release}`);
  const servers = Object.values(SERVERS).filter((server) => server.release === release);
  const programs = servers.map(({ program }) => program);
  try {
    unpackRelease(folder, SUITES[release], programs);
  } catch (error) {
    const message = messageOf(error);
    // A mirror that cannot be reached has none of them.
    const whose = /^Failed to fetch .*(connect|resolve|timed out)/i.test(message) ? "any" : release;
    failures.set(whose, new Error(message));
    throw error;
  }
  return folder;
}

/**
 * @param {ServerName} name
 * @param {string[]} command
 * @returns {FoundServer}
 */
function described(name, command) {
  const [program = "", ...args] = command;
  const { output } = run(program, [...args, "--version"]);
  const version = /\bv=(\d+\.\d+\.\d+)/.exec(output)?.[1];
  if (!version) throw new Error(`${command.at(-1)} does not tell its version, but "${output}".`);
  return { name, version, command };
}

/**
 * @param {ServerName} name
 * @param {string} version
 */
const isOf = (name, version) => version.startsWith(`${name.split("-")[1]}.`);

/** @param {unknown} error */
const messageOf = (error) => (error instanceof Error ? error.message : String(error));

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const server of ensureServers())
    if ("command" in server)
      console.log(`${server.name}: ${server.version}, started by ${server.command.join(" ")}`);
}
