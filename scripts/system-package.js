/** Installs a program with the system's own package manager, when we may. */
import { findProgram, run } from "./run.js";

/** @typedef {{ "apt-get": string, apk: string, dnf: string, brew: string }} PackageNames */

/**
 * Installing a Debian package also starts its service. A policy-rc.d that answers 101 prevents
 * that; one that is already there is somebody's own decision and stays as it is.
 *
 * @type {{ [manager in keyof PackageNames]: (name: string) => string }}
 */
const COMMANDS = {
  "apt-get": (name) => `
    set -e
    export DEBIAN_FRONTEND=noninteractive
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
      trap 'rm -f '$policy EXIT
      trap 'exit 1' INT TERM
      printf '#!/bin/sh\\nexit 101\\n' > $policy
      chmod +x $policy
    fi
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends ${name}`,
  apk: (name) => `apk add --no-cache ${name}`,
  dnf: (name) => `dnf install -y -q ${name}`,
  brew: (name) => `brew install --quiet ${name}`,
};

/**
 * Finds a program, or installs the package that has it. Throws one sentence when it can do neither.
 *
 * @param {string} program
 * @param {PackageNames} packageNames
 * @returns {string} its path
 */
export function ensureProgram(program, packageNames) {
  return findProgram(program) ?? install(program, packageNames);
}

/**
 * @param {string} program
 * @param {PackageNames} packageNames
 */
function install(program, packageNames) {
  const managers = /** @type {(keyof PackageNames)[]} */ (Object.keys(COMMANDS));
  const manager = managers.find(findProgram);
  if (!manager) {
    throw new Error(`${program} is not on PATH and no package manager was found: install it and try again.`);
  }
  const shell = shellFor(manager);
  if (!shell) {
    throw new Error(
      `${program} is not on PATH: install it, for example with \`sudo ${manager} install ${packageNames[manager]}\`.`,
    );
  }
  console.log(`setup: installing ${packageNames[manager]} with ${manager}`);
  const { output } = run(shell[0], [...shell.slice(1), "-c", COMMANDS[manager](packageNames[manager])]);
  const path = findProgram(program);
  if (path) return path;
  throw new Error(`${program} is not on PATH and ${manager} could not install it: do so by hand.\n${output}`);
}

/**
 * A shell that may install: ours for Homebrew, which refuses root; root's for all others.
 *
 * @param {keyof PackageNames} manager
 * @returns {[string, ...string[]] | undefined}
 */
function shellFor(manager) {
  if (manager === "brew" || process.getuid?.() === 0) return ["sh"];
  return run("sudo", ["-n", "true"]).ok ? ["sudo", "-n", "sh"] : undefined;
}
