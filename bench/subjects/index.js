/** Everything that can be asked through a store, one command or batch at a time. */
import { createHash } from "node:crypto";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { baselines } from "./baselines.js";
import { tidegate } from "./tidegate.js";

/** @param {string} [beside] a folder like lua/, whose script is measured next to ours */
export async function subjects(beside) {
  const ours = tidegate();
  const theirs = beside ? tidegate(await scriptIn(beside), "@beside") : [];
  return [...baselines, ...ours.flatMap((subject, i) => [subject, ...theirs.slice(i, i + 1)])];
}

/** @param {string} folder */
async function scriptIn(folder) {
  const { compose } = await import(pathToFileURL(join(resolve(folder), "compose.js")).href);
  const text = compose("decide");
  return { sha: createHash("sha1").update(text).digest("hex"), text };
}
