/** One identity far over its limit, and what others notice of it in the same process. */
import { picked } from "../lib/named.js";
import { median, percentile, rotated, show, spread, table } from "../lib/numbers.js";
import { limitersNamed } from "../limiters/index.js";
import { costs, startDecider } from "../load/cells.js";

/** @typedef {import("../limiters/limiter.js").Limiter} Limiter */
/** @typedef {import("../lib/drive.js").Driven} Driven */
/** @typedef {import("../load/decider.js").Flood} Flood */
/** @typedef {import("../load/decider.js").Waited} Waited */
/** @typedef {import("../lib/child.js").Child<import("../load/decider.js").Order, Driven & Waited>} Decider */
/** @typedef {{ name: string, title: string, samples: Sample[] }} Row one sample per round */

/**
 * @typedef {object} Sample
 * @property {number} rate refusals/s
 * @property {number} cpu of the process, µs per refusal
 * @property {number} calls of Redis, per refusal
 * @property {Record<Flood, { p50: number, p99: number, flooded: number }>} others how long others waited, ms; refusals/s
 */

/** The flooded identity has used it up before anything is timed; others never do. */
const LIMIT = { limit: 1000, windowMs: 3_600_000 };
const ROWS = [
  "at-once",
  "tidegate",
  "tidegate:tokenBucket",
  "rate-limiter-flexible:block",
  "rate-limiter-flexible",
  "rate-limit-redis",
  "throttler",
];
const SIZE = { quick: { ms: 400, waitMs: 250, rounds: 3 }, full: { ms: 1500, waitMs: 600, rounds: 7 } };
/** @type {Flood[]} */
const FLOODS = ["none", "paced", "full"];

/** @type {import("./section.js").Section<Row[]>} */
export const flood = {
  title: "A flood: one identity far over its limit, 512 in flight",

  async measure({ redis, only, profile, quick, progress }) {
    await redis.control.flushall();
    const size = SIZE[quick ? "quick" : "full"];
    const rows = picked(limitersNamed(ROWS), only).map((limiter) => ({
      limiter,
      child: /** @type {Decider} */ (
        startDecider(limiter, { target: { url: redis.url }, limit: LIMIT }, profile)
      ),
      samples: /** @type {Sample[]} */ ([]),
    }));
    try {
      for (const row of rows) await expectRefusals(row);
      for (const row of rows) await sample(row, redis, size);
      for (let round = 0; round < size.rounds; round++) {
        progress(`flood: ${round} of ${size.rounds} rounds`);
        for (const row of rotated(rows, round)) row.samples.push(await sample(row, redis, size));
      }
    } finally {
      for (const { child } of rows) await child.stop();
      await redis.control.flushall();
    }
    return rows.map(({ limiter: { name, title }, samples }) => ({ name, title, samples }));
  },

  show: (rows) => [refusals(rows), waiting(rows)].join("\n\n"),

  figures(rows) {
    const ours = rows.find(({ name }) => name === "tidegate");
    const of = (/** @type {(sample: Sample) => number} */ what) =>
      ours ? median(ours.samples.map(what)) : NaN;
    return [
      {
        what: "refusals/s of one identity, 512 in flight",
        measured: of(({ rate }) => rate),
        must: 600_000,
        goal: 1_000_000,
        bound: "least",
      },
      { what: "Redis calls per refusal", measured: of(({ calls }) => calls), must: 0.001, goal: 0.001 },
      {
        what: "p99 of others during a flood of 100,000/s ÷ alone",
        measured: of((each) => slower(each, "paced")),
        must: 3,
      },
    ];
  },
};

/** @param {{ limiter: Limiter, child: Decider }} row */
async function expectRefusals({ limiter, child }) {
  await child.ask({ act: "spend" });
  const { refused, allowed } = await child.ask({ act: "drive", traffic: "flood", inFlight: 8, ms: 50 });
  if (refused === 0 || allowed > 0)
    throw new Error(`${limiter.title}: let ${allowed} pass that are too many`);
}

/**
 * @param {{ limiter: Limiter, child: Decider }} row
 * @param {import("../lib/redis.js").Server} redis
 * @param {{ ms: number, waitMs: number }} size
 * @returns {Promise<Sample>}
 */
async function sample({ limiter, child }, redis, { ms, waitMs }) {
  const before = await costs([redis], limiter);
  const driven = await child.ask({ act: "drive", traffic: "flood", inFlight: 512, ms });
  const after = await costs([redis], limiter);
  const { refused, allowed } = driven;
  if (allowed > 0) throw new Error(`${limiter.title}: let ${allowed} pass that are too many`);
  const others = /** @type {Sample["others"]} */ ({});
  for (const flood of FLOODS) {
    const { waits, flooded } = await child.ask({ act: "wait", flood, ms: waitMs });
    others[flood] = {
      p50: percentile(waits, 50),
      p99: percentile(waits, 99),
      flooded: (1000 * flooded) / waitMs,
    };
  }
  return {
    rate: (1000 * refused) / driven.ms,
    cpu: driven.cpu / refused,
    calls: ((after[0]?.calls ?? NaN) - (before[0]?.calls ?? NaN)) / refused,
    others,
  };
}

/** @param {Row[]} rows */
const refusals = (rows) =>
  table(
    ["", "refusals/s", "Node µs per refusal", "Redis calls per refusal"],
    rows.map(({ title, samples }) => [
      title,
      spread(
        samples.map(({ rate }) => rate),
        0,
      ),
      show(median(samples.map(({ cpu }) => cpu)), 2),
      show(median(samples.map(({ calls }) => calls)), 5),
    ]),
  );

/** @param {Row[]} rows */
const waiting = (rows) =>
  table(
    [
      "how long others wait, µs",
      "alone: p50",
      "p99",
      "beside 100,000/s: answered/s",
      "p50",
      "p99",
      "× alone",
      "beside 512 in flight: answered/s",
      "p50",
      "p99",
      "× alone",
    ],
    rows.map(({ title, samples }) => [
      title,
      ...waits(samples, "none"),
      ...besideFlood(samples, "paced"),
      ...besideFlood(samples, "full"),
    ]),
  );

/**
 * @param {Sample[]} samples
 * @param {Flood} flood
 */
const waits = (samples, flood) =>
  /** @type {const} */ (["p50", "p99"]).map((what) =>
    show(1000 * median(samples.map(({ others }) => others[flood][what])), 0),
  );

/**
 * @param {Sample[]} samples
 * @param {Flood} flood
 */
const besideFlood = (samples, flood) => [
  show(median(samples.map(({ others }) => others[flood].flooded)), 0),
  ...waits(samples, flood),
  spread(
    samples.map((each) => slower(each, flood)),
    1,
  ),
];

/**
 * @param {Sample} sample
 * @param {Flood} flood
 */
const slower = ({ others }, flood) => others[flood].p99 / others.none.p99;
