/** Requests per second of the smallest application, with a limiter and without: how many are kept. */
import { fileURLToPath } from "node:url";
import { startChild } from "../lib/child.js";
import { median, rotated, show, spread, table } from "../lib/numbers.js";
import { onServerCore } from "../lib/pin.js";

/** @typedef {import("../http/limits.js").Limiter} Limiter */
/** @typedef {import("../http/load.js").Load} Load */
/** @typedef {import("../http/server.js").Framework} Framework */
/** @typedef {import("../http/server.js").State} State */
/** @typedef {import("../lib/child.js").Child<import("../http/load.js").Order, Load>} Cannon */
/** @typedef {{ framework: Framework, limiter: Limiter, name: string }} Row */
/** @typedef {Row & { samples: Sample[] }} Measured one sample per round */
/** @typedef {Measured & { server: import("../lib/child.js").Child<"state", State> }} Running */

/**
 * @typedef {object} Sample
 * @property {number} requests
 * @property {number} rate requests/s
 * @property {number} cpu of the server, µs per request
 * @property {number} busy how much of the time the server was
 * @property {number} degraded decisions made without Redis
 */

const OURS = { none: "bare", slidingWindow: "tidegate", tokenBucket: "tidegate with tokenBucket" };
/** @type {Record<Framework, Partial<Record<Limiter, string>>>} */
const ROWS = {
  Express: {
    ...OURS,
    peer: "express-rate-limit + rate-limit-redis",
    other: "rate-limiter-flexible",
  },
  Fastify: { ...OURS, peer: "@fastify/rate-limit" },
  Koa: { ...OURS, peer: "koa-ratelimit" },
  Nest: { none: "bare", slidingWindow: "tidegate", peer: "@nestjs/throttler + its Redis storage" },
};
/** Nest is on Express: what it keeps depends on what Nest itself costs. */
const KEPT = {
  Express: { must: 0.88, goal: 0.92 },
  Fastify: { must: 0.72, goal: 0.8 },
  Koa: { must: 0.65, goal: 0.78 },
};

/** Long enough that everything is compiled before it is measured; Express takes longest. */
const WARM_MS = { quick: 1500, full: 4000 };
/** So short that a slow moment meets few, and so many that a median passes over them. */
const TURN_MS = { quick: 500, full: 1000 };
const ROUNDS = { quick: 8, full: 20 };

/** @type {import("./section.js").Section<Measured[]>} */
export const http = {
  title: "HTTP throughput kept, 50 connections",

  async measure({ redis, quick, progress }) {
    const size = quick ? "quick" : "full";
    /** @type {Cannon} */
    const cannon = startChild(...onServerCore(process.execPath, [program("load")]));
    const rows = allRows().map((row) => running(row, redis.url));
    try {
      for (const row of rows) await expectCounting(row, redis.control);
      for (const row of rows) await sample(row, cannon, WARM_MS[size]);
      for (let round = 0; round < ROUNDS[size]; round++) {
        if (round % 4 === 0) progress(`http: ${round} of ${ROUNDS[size]} rounds`);
        for (const row of rotated(rows, round)) {
          await redis.control.flushall();
          row.samples.push(await sample(row, cannon, TURN_MS[size]));
        }
      }
    } finally {
      for (const child of [cannon, ...rows.map(({ server }) => server)]) await child.stop();
      await redis.control.flushall();
    }
    return rows.map(({ framework, limiter, name, samples }) => ({ framework, limiter, name, samples }));
  },

  show: (result) =>
    table(
      ["", "requests/s", "kept", "server CPU, µs per request", "added", "kept by CPU", "busy", "degraded"],
      result.map((row) => cells(row, result)),
    ),

  figures: (result) =>
    Object.entries(KEPT).map(([framework, { must, goal }]) => ({
      what: `throughput kept, ${framework}`,
      measured: median(kept(rowOf(/** @type {Framework} */ (framework), "slidingWindow", result), result)),
      bound: "least",
      must,
      goal,
    })),
};

/** @returns {Row[]} */
function allRows() {
  return /** @type {Framework[]} */ (Object.keys(ROWS)).flatMap((framework) =>
    Object.entries(ROWS[framework]).map(([limiter, what]) => ({
      framework,
      limiter: /** @type {Limiter} */ (limiter),
      name: `${framework}, ${what}`,
    })),
  );
}

/** @param {string} name */
const program = (name) => fileURLToPath(new URL(`../http/${name}.js`, import.meta.url));

/**
 * @param {Row} row
 * @param {string} redis
 * @returns {Running}
 */
function running(row, redis) {
  const { framework, limiter } = row;
  const server = startChild(process.execPath, [program("server"), framework, limiter, redis]);
  return { ...row, server, samples: [] };
}

/**
 * A limiter that is not asked, or counts somebody else, would be the fastest of all.
 *
 * @param {Running} row
 * @param {import("ioredis").Redis} control
 */
async function expectCounting({ name, limiter, server }, control) {
  await control.flushall();
  const { port } = await server.ask("state");
  const keys = [];
  for (const identity of ["somebody", "another"]) {
    const { status } = await fetch(`http://127.0.0.1:${port}/`, { headers: { "x-id": identity } });
    if (status !== 200) throw new Error(`${name}: answered ${status}`);
    keys.push(await control.dbsize());
  }
  const [first = 0, both = 0] = keys;
  const counts = 0 < first && first < both;
  if (counts !== (limiter !== "none") || (!counts && both > 0))
    throw new Error(`${name}: two who asked left ${first} keys, then ${both}`);
}

/**
 * @param {Running} row
 * @param {Cannon} cannon
 * @param {number} ms
 * @param {number} [tries]
 * @returns {Promise<Sample>}
 */
async function sample(row, cannon, ms, tries = 5) {
  const { name, server } = row;
  const before = await server.ask("state");
  const load = await cannon.ask({ port: before.port, ms });
  const after = await server.ask("state");
  // No answer at all: for so long the machine was busy with something else.
  const isLost = Object.keys(load.statuses).length === 0 && load.unanswered === 0;
  if (isLost && tries > 1) return sample(row, cannon, ms, tries - 1);
  expectOnly200(name, load);
  const requests = load.statuses["200"] ?? NaN;
  const cpu = after.cpu - before.cpu;
  return {
    requests,
    rate: (1000 * requests) / load.ms,
    cpu: cpu / requests,
    busy: cpu / 1000 / load.ms,
    degraded: after.degraded - before.degraded,
  };
}

/**
 * @param {string} name
 * @param {Load} load
 */
function expectOnly200(name, { statuses, unanswered }) {
  if (Object.keys(statuses).join() === "200" && unanswered === 0) return;
  const answers = JSON.stringify({ ...statuses, unanswered });
  throw new Error(`${name}: only answers of 200 are a measurement, got ${answers}`);
}

/**
 * @param {Measured} row
 * @param {Measured[]} result
 */
function cells(row, result) {
  const all = (/** @type {Exclude<keyof Sample, "requests">} */ what) =>
    row.samples.map((each) => each[what]);
  const share = kept(row, result);
  const bare = rowOf(row.framework, "none", result).samples.map(({ cpu }) => cpu);
  return [
    row.name,
    spread(all("rate"), 0),
    share.length > 0 ? spread(share, 2) : "not measured",
    spread(all("cpu"), 0),
    row.limiter === "none" ? "" : show(median(all("cpu").map((cpu, round) => cpu - (bare[round] ?? NaN))), 0),
    show(median(all("cpu").map((cpu, round) => (bare[round] ?? NaN) / cpu)), 2),
    show(median(all("busy")), 2),
    String(sum(all("degraded"))),
  ];
}

/** A stall of the machine degrades what is in flight. More says that it was not Redis that was asked. */
const MOST_DEGRADED = 0.1;

/**
 * Of what the bare application did in the same round; nothing when too much was decided without Redis.
 *
 * @param {Measured} row
 * @param {Measured[]} result
 */
function kept({ framework, samples }, result) {
  const degraded = sum(samples.map((each) => each.degraded));
  if (degraded > MOST_DEGRADED * sum(samples.map(({ requests }) => requests))) return [];
  const bare = rowOf(framework, "none", result);
  return samples.map(({ rate }, round) => rate / (bare.samples[round]?.rate ?? NaN));
}

/**
 * @param {Framework} framework
 * @param {Limiter} limiter
 * @param {Measured[]} result
 */
function rowOf(framework, limiter, result) {
  const found = result.find((row) => row.framework === framework && row.limiter === limiter);
  if (!found) throw new Error(`there is no row of ${framework} with ${limiter}`);
  return found;
}

/** @param {number[]} numbers */
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
