/**
 * `pnpm bench`: what a decision costs, as one Markdown document on stdout.
 *
 *     pnpm bench [--quick] [--section server,latency,throughput,flood,memory,process,http]
 *                [--only tokenBucket,three] [--beside <folder of Lua>] [--depth 50] [--json <file>]
 *                [--profile <folder>]
 *
 * `cluster` and `faults` are measured where they are named only.
 *
 * Runs against a Redis server of its own, on loopback and without persistence. Compare rows of one
 * run, never numbers of two: the machine is shared.
 */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { facts } from "./lib/machine.js";
import { isCalled, picked } from "./lib/named.js";
import { pinSelf } from "./lib/pin.js";
import { startRedis } from "./lib/redis.js";
import { document } from "./report.js";

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    section: { type: "string", default: "server,latency,throughput,flood,memory,process,http" },
    only: { type: "string", default: "" },
    beside: { type: "string" },
    depth: { type: "string", default: "50" },
    json: { type: "string" },
    profile: { type: "string" },
  },
});

const depth = Number(values.depth);
if (!(depth >= 1)) fail(`--depth: give a whole number of commands per pipeline, got ${values.depth}.`);

buildPackages();
// Only from here on is there something to import.
const { sections } = await import("./sections/index.js");
const { subjects } = await import("./subjects/index.js");
const { limiters } = await import("./limiters/index.js");

const wanted = values.section.split(",");
for (const name of wanted) {
  if (!(name in sections)) fail(`--section: there is no ${name}, but ${Object.keys(sections).join(", ")}.`);
}
const only = values.only.split(",").filter(Boolean);
const all = await subjects(values.beside);
const names = [...new Set([...all, ...limiters].map(({ name }) => name))];
for (const given of only) {
  if (!names.some((name) => isCalled(name, given)))
    fail(`--only: there is no ${given}, but ${names.join(", ")}.`);
}

pinSelf();
const redis = await startRedis();
process.once("SIGINT", () => process.exit(130));
process.once("SIGTERM", () => process.exit(143));
const start = Date.now();
try {
  /** @type {import("./report.js").Report} */
  const report = { facts: await facts(redis, values.quick), seconds: 0, sections: {} };
  for (const [name, section] of Object.entries(sections)) {
    if (!wanted.includes(name)) continue;
    progress(name);
    report.sections[name] = await section.measure({
      redis,
      subjects: picked(all, only),
      only,
      profile: values.profile,
      quick: values.quick,
      depth,
      progress,
    });
  }
  report.seconds = Math.round((Date.now() - start) / 1000);
  process.stdout.write(document(report, sections));
  if (values.json) writeFileSync(values.json, `${JSON.stringify(report, null, 1)}\n`);
} finally {
  await redis.stop();
}

/** What is measured is what would be published: every package's dist, as its sources are now. */
function buildPackages() {
  const setup = fileURLToPath(new URL("../scripts/setup.js", import.meta.url));
  const { status } = spawnSync(process.execPath, [setup], { stdio: ["ignore", 2, 2] });
  if (status !== 0) process.exit(1);
}

/** @param {string} message */
function progress(message) {
  process.stderr.write(`[${((Date.now() - start) / 1000).toFixed(0).padStart(3)} s] ${message}\n`);
}

/**
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(message);
  process.exit(1);
}
