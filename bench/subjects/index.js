/** Everything that can be measured, and what of it was asked for. */
import { createHash } from "node:crypto";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { baselines } from "./baselines.js";
import { tidegate } from "./tidegate.js";

/**
 * @param {{ only?: string[], beside?: string | undefined }} [options] `only`: names, with or without
 *   their variant. `beside`: a folder like lua/, whose script is measured next to ours
 */
export async function subjects({ only = [], beside } = {}) {
  const ours = tidegate();
  const theirs = beside ? tidegate(await scriptIn(beside), "@beside") : [];
  const all = [...baselines, ...ours.flatMap((subject, i) => [subject, ...theirs.slice(i, i + 1)])];
  for (const name of only) {
    if (!all.some((subject) => isCalled(subject.name, name))) {
      throw new Error(`--only: there is no ${name}, but ${all.map((subject) => subject.name).join(", ")}.`);
    }
  }
  return all.filter(
    ({ baseline, name }) => baseline || only.length === 0 || only.some((given) => isCalled(name, given)),
  );
}

/**
 * @param {string} full
 * @param {string} given
 */
function isCalled(full, given) {
  const name = full.replace("@beside", "");
  return name === given || name.split(":")[0] === given;
}

/** @param {string} folder */
async function scriptIn(folder) {
  const { compose } = await import(pathToFileURL(join(resolve(folder), "compose.js")).href);
  const text = compose("decide");
  return { sha: createHash("sha1").update(text).digest("hex"), text };
}
