/**
 * Programs of another Debian release than this machine's, unpacked into a folder: nothing of them is
 * installed, and nobody needs to be root. They run through their own release's loader and libraries.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findProgram, run } from "./run.js";

/** What packages need to be installed, and no program to run. */
const NOT_FETCHED = ["adduser", "init-system-helpers", "lsb-base", "sysvinit-utils"];

/** Debian's own keys, as its releases 12 and 13 name the file. */
const KEYRINGS = ["debian-archive-keyring.gpg", "debian-archive-keyring.pgp"];

/**
 * Unpacks packages and all that they need. Throws one sentence when it cannot.
 *
 * @param {string} folder is there when this is done, and only then
 * @param {string} suites
 * @param {string[]} packages
 */
export function unpackRelease(folder, suites, packages) {
  const work = `${folder}.${process.pid}`;
  try {
    const apt = privateApt(join(work, "apt"), suites);
    apt("update", "--error-on=any");
    apt("install", "--download-only", "--yes", "--no-install-recommends", ...packages);
    const archives = join(work, "apt/cache/archives");
    for (const name of readdirSync(archives).filter((name) => name.endsWith(".deb"))) {
      must(run("dpkg-deb", ["--extract", join(archives, name), join(work, "unpacked")]));
    }
    // Whoever was faster has unpacked the same.
    if (!existsSync(folder)) renameSync(join(work, "unpacked"), folder);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/**
 * How a program out of such a folder is started.
 *
 * @param {string} folder
 * @param {string} program
 * @returns {string[]}
 */
export function throughLoader(folder, program) {
  // Debian 12 has its C library outside of /usr yet.
  const libraries = ["lib", "usr/lib"].flatMap((place) =>
    namesIn(join(folder, place))
      .filter((name) => /-linux-gnu/.test(name))
      .map((name) => join(folder, place, name)),
  );
  const [loader] = libraries.flatMap((place) =>
    namesIn(place)
      .filter((name) => /^ld-linux.*\.so/.test(name))
      .map((name) => join(place, name)),
  );
  if (!loader) throw new Error(`${folder} holds no loader: remove it, and it is fetched again.`);
  return [loader, "--library-path", libraries.join(":"), join(folder, "usr/bin", program)];
}

/** @param {string} folder */
const namesIn = (folder) => (existsSync(folder) ? readdirSync(folder) : []);

/**
 * An apt of our own, with its own sources, lists and idea of what is installed: nothing. So it
 * fetches every library that is needed, whatever this machine has. Only how it reaches the network
 * is this machine's: proxies, passwords, timeouts.
 *
 * @param {string} home
 * @param {string} suites
 */
function privateApt(home, suites) {
  const source = sourceOf(suites);
  for (const place of ["lists/partial", "cache/archives/partial", "log"])
    mkdirSync(join(home, place), { recursive: true });
  const file = (/** @type {string} */ name, /** @type {string} */ text) =>
    writeFileSync(join(home, name), text);
  file("status", NOT_FETCHED.map(asInstalled).join("\n"));
  file("release.sources", source);
  file("apt.conf", `${networkSettings()}\n${ownSettings(home)}`);
  return (/** @type {string[]} */ ...args) =>
    must(run("env", [`APT_CONFIG=${join(home, "apt.conf")}`, "LC_ALL=C", "apt-get", "-q", ...args]));
}

/** @param {string} name */
const asInstalled = (name) =>
  `Package: ${name}\nStatus: install ok installed\nVersion: 99\nArchitecture: all\nMulti-Arch: foreign\nMaintainer: none\nDescription: none\n`;

/**
 * The same mirror as this machine's own, for other suites. Only what Debian itself has signed is
 * taken, whatever else this machine trusts: these programs run without anybody having chosen to
 * install them. A release is also signed by the key of the release before, so Debian 12 can check
 * Debian 13 even where its keyring was never brought up to date.
 *
 * @param {string} suites
 */
function sourceOf(suites) {
  const mirror = mirrorOf(codename());
  const keyring = KEYRINGS.map((name) => join("/usr/share/keyrings", name)).find(existsSync);
  if (!keyring) throw new Error("Debian's keys are not here: install debian-archive-keyring.");
  const { output: architecture } = must(run("dpkg", ["--print-architecture"]));
  return `Types: deb
URIs: ${mirror}
Suites: ${suites}
Components: main
Architectures: ${architecture}
Signed-By: ${keyring}
`;
}

/** The name of this machine's release. */
function codename() {
  const text = existsSync("/etc/os-release") ? readFileSync("/etc/os-release", "utf8") : "";
  const name = /^VERSION_CODENAME=(\w+)$/m.exec(text)?.[1];
  if (!/^ID=debian$/m.test(text) || !name || !findProgram("apt-get"))
    throw new Error("it is fetched from Debian's packages, and this system is not Debian.");
  return name;
}

/**
 * Where this machine gets its own release from. apt itself reads its sources, whatever their form.
 *
 * @param {string} release
 */
function mirrorOf(release) {
  const { output } = run("apt-get", ["--print-uris", "update"]);
  const suite = `(?:${release}|stable|oldstable|testing)`;
  const found = new RegExp(`^'(.+)/dists/${suite}/main/binary-`, "m").exec(output);
  if (!found) throw new Error(`apt's sources name no mirror of ${release}.`);
  return found[1];
}

/** What this machine's apt is set to when it fetches; but none of its hooks, and no index besides that of packages. */
function networkSettings() {
  const { output } = must(run("apt-config", ["dump"]));
  return output
    .split("\n")
    .filter((line) => /^Acquire::(?!IndexTargets|Languages)/.test(line))
    .join("\n");
}

/** @param {string} home */
const ownSettings = (home) => `
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "10";
Acquire::https::Timeout "10";
Acquire::AllowInsecureRepositories "false";
APT::Get::AllowUnauthenticated "false";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "${home}/release.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "${home}";
Dir::State::status "${home}/status";
Dir::Cache "${home}/cache";
Dir::Log "${home}/log";
`;

/**
 * What was run, if it went well. Else throws the line that says why, without apt's mark before it.
 *
 * @param {{ ok: boolean, output: string }} done
 */
function must(done) {
  if (done.ok) return done;
  const lines = done.output.split("\n").filter((line) => line.trim());
  // apt complains of a key, and then that it goes without.
  const why = [/^W: GPG error/, /^E: /].map((mark) => lines.find((line) => mark.test(line))).find(Boolean);
  throw new Error((why ?? lines.at(-1) ?? "no reason was told").replace(/^[EW]: /, "").trim());
}
