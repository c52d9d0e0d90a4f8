/** Server and load each on a core of their own, where the machine has two and `taskset`. */
import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";

const able = availableParallelism() > 1 && spawnSync("taskset", ["--version"]).status === 0;

export const pinned = able ? "server on core 0, load on core 1" : "not pinned";

/** All threads of this process, and of those it starts later, on core 1. */
export function pinSelf() {
  if (able) spawnSync("taskset", ["-a", "-c", "-p", "1", String(process.pid)]);
}

/**
 * A command that runs `program` on core 0.
 *
 * @param {string} program
 * @param {string[]} args
 * @returns {[string, string[]]}
 */
export function onServerCore(program, args) {
  return able ? ["taskset", ["-c", "0", program, ...args]] : [program, args];
}
