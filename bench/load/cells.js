/** Limiters under every kind of load in turn, each limiter in a process of its own that lives through it all. */
import { fileURLToPath } from "node:url";
import { startChild } from "../lib/child.js";
import { median, rotated } from "../lib/numbers.js";

/** @typedef {import("../limiters/limiter.js").Limiter} Limiter */
/** @typedef {import("../lib/drive.js").Driven} Driven */
/** @typedef {import("./decider.js").Drive} Drive */
/** @typedef {import("./decider.js").Setting} Setting */
/** @typedef {import("../lib/redis.js").Server} Server */

/** @typedef {Pick<Drive, "traffic" | "inFlight">} Cell one kind of load */
/** @typedef {Cell & { name: string, title: string, samples: Sample[] }} Row one sample per round */

/**
 * What a server has to do.
 *
 * @typedef {object} Cost
 * @property {number} cpu µs
 * @property {number} calls commands that it is sent
 * @property {number} writes of a key, within scripts: SET
 */

/**
 * @typedef {object} Sample
 * @property {number} decisions
 * @property {number} rate decisions/s
 * @property {number} cpu of the process, µs per decision
 * @property {number} degraded how many more were answered without Redis
 * @property {Cost[]} servers what each had to do, per decision
 */

const program = fileURLToPath(new URL("decider.js", import.meta.url));

/**
 * @template Question, Answer
 * @param {Limiter} limiter
 * @param {Setting} setting
 * @param {string | undefined} profile the folder for a profile of its CPU, `<name>.cpuprofile`
 * @returns {import("../lib/child.js").Child<Question, Answer>}
 */
export function startDecider({ name }, setting, profile) {
  const file = `--cpu-prof-name=${name.replace(":", "-")}.cpuprofile`;
  const flags = profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`, file];
  return startChild(process.execPath, [...flags, program, name, JSON.stringify(setting)]);
}

/**
 * @param {object} plan
 * @param {Limiter[]} plan.limiters
 * @param {(limiter: Limiter) => Cell[]} plan.cellsOf
 * @param {Setting} plan.setting
 * @param {Server[]} plan.servers
 * @param {{ warmMs: number, ms: number, rounds: number }} plan.size
 * @param {string | undefined} plan.profile
 * @param {(round: number) => void} plan.progress
 * @returns {Promise<Row[]>}
 */
export async function measureCells({ limiters, cellsOf, setting, servers, size, profile, progress }) {
  const running = limiters.map((limiter) => ({
    limiter,
    child: /** @type {import("../lib/child.js").Child<Drive, Driven>} */ (
      startDecider(limiter, setting, profile)
    ),
  }));
  const rows = running.flatMap(({ limiter, child }) =>
    cellsOf(limiter).map((cell) => ({ ...cell, limiter, child, samples: /** @type {Sample[]} */ ([]) })),
  );
  try {
    for (const { child, traffic, inFlight } of rows)
      await child.ask({ act: "drive", traffic, inFlight, ms: size.warmMs });
    for (let round = 0; round < size.rounds; round++) {
      progress(round);
      for (const row of interleaved(rows, round)) row.samples.push(await sample(row, servers, size.ms));
    }
  } finally {
    for (const { child } of running) await child.stop();
  }
  return rows.map(({ limiter: { name, title }, traffic, inFlight, samples }) => ({
    name,
    title,
    traffic,
    inFlight,
    samples,
  }));
}

/**
 * Cell by cell, so that what is compared is measured close together.
 *
 * @template {Cell} T
 * @param {T[]} rows
 * @param {number} round
 */
function interleaved(rows, round) {
  const cellOf = (/** @type {Cell} */ { traffic, inFlight }) => `${traffic} ${inFlight}`;
  const cells = [...new Set(rows.map(cellOf))];
  return cells.flatMap((cell) =>
    rotated(
      rows.filter((row) => cellOf(row) === cell),
      round,
    ),
  );
}

/**
 * @param {Cell & { limiter: Limiter, child: import("../lib/child.js").Child<Drive, Driven> }} row
 * @param {Server[]} servers
 * @param {number} ms
 * @returns {Promise<Sample>}
 */
async function sample({ limiter, child, traffic, inFlight }, servers, ms) {
  const before = await costs(servers, limiter);
  const driven = await child.ask({ act: "drive", traffic, inFlight, ms });
  const after = await costs(servers, limiter);
  if (driven.refused > 0)
    throw new Error(`${limiter.title}: refused ${driven.refused}, though there was room`);
  const decisions = driven.allowed;
  const spent = after.map(({ cpu, calls, writes }, i) => {
    const start = before[i] ?? { cpu: NaN, calls: NaN, writes: NaN };
    return {
      cpu: (cpu - start.cpu) / decisions,
      calls: (calls - start.calls) / decisions,
      writes: (writes - start.writes) / decisions,
    };
  });
  return {
    decisions,
    rate: (1000 * decisions) / driven.ms,
    cpu: driven.cpu / decisions,
    degraded: driven.degraded,
    servers: spent,
  };
}

const SCRIPTS = ["evalsha", "eval", "fcall"];

/**
 * Since the servers began.
 *
 * @param {Server[]} servers
 * @param {Limiter} limiter
 * @returns {Promise<Cost[]>}
 */
export const costs = (servers, { commands = SCRIPTS }) =>
  Promise.all(
    servers.map(async (server) => ({
      cpu: await server.cpu(),
      calls: await server.calls(commands),
      writes: await server.calls(["set"]),
    })),
  );

/** A stall of the machine degrades what is in flight. More says that it was not Redis that was asked. */
const MOST_DEGRADED = 0.1;

/** @param {Row} row */
export function isMeasured({ samples }) {
  const sum = (/** @type {"degraded" | "decisions"} */ what) =>
    samples.reduce((total, each) => total + each[what], 0);
  return sum("degraded") <= MOST_DEGRADED * (sum("decisions") + sum("degraded"));
}

/**
 * @param {Row[]} rows
 * @param {string} name
 * @param {Cell} cell
 */
export const rowOf = (rows, name, { traffic, inFlight }) =>
  rows.find((row) => row.name === name && row.traffic === traffic && row.inFlight === inFlight);

/**
 * A row's rate by that of another one under the same load in the same round.
 *
 * @param {Row[]} rows
 * @param {string} name
 * @param {string} other
 * @param {Cell} cell
 * @returns {number[]}
 */
export function ratios(rows, name, other, cell) {
  const [row, base] = [rowOf(rows, name, cell), rowOf(rows, other, cell)];
  if (!row || !base || !isMeasured(row)) return [];
  return row.samples.map(({ rate }, round) => rate / (base.samples[round]?.rate ?? NaN));
}

/**
 * The median of what all samples of a row say; not a number where the row was not measured.
 *
 * @param {Row | undefined} row
 * @param {(sample: Sample) => number} what
 */
export const typical = (row, what) => (row && isMeasured(row) ? median(row.samples.map(what)) : NaN);

/** @param {Sample} sample */
export const callsOf = ({ servers }) => servers.reduce((sum, { calls }) => sum + calls, 0);
