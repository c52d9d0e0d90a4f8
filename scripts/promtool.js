/** The part of Prometheus that reads alert rules and tests them. */
import { findProgram } from "./run.js";
import { ensureProgram } from "./system-package.js";

/** The path of promtool, or undefined when it is not there. */
export const findPromtool = () => findProgram("promtool");

/** Installs it when it is missing, and says so where that cannot be done: the tests decide what it means. */
export function ensurePromtool() {
  try {
    ensureProgram("promtool", {
      "apt-get": "prometheus",
      apk: "prometheus",
      dnf: "golang-github-prometheus",
      brew: "prometheus",
    });
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
  }
}
