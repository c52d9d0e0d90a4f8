/** Decisions per second of one process, from one in flight to thousands, asked without HTTP. */
import { picked } from "../lib/named.js";
import { median, show, spread, table } from "../lib/numbers.js";
import { limitersNamed } from "../limiters/index.js";
import { callsOf, isMeasured, measureCells, ratios, rowOf, typical } from "../load/cells.js";

/** @typedef {import("../load/cells.js").Cell} Cell */
/** @typedef {import("../load/cells.js").Row} Row */
/** @typedef {import("../lib/traffic.js").Traffic} Traffic */

/** @type {Record<Traffic, string>} */
const TRAFFIC = {
  uniform: "20,000 identities, each as often as any other",
  zipf: "20,000 identities, zipf(1.0): the first asks for a tenth",
  one: "one identity, under its limit",
};
const TRAFFICS = /** @type {Traffic[]} */ (Object.keys(TRAFFIC));
const IN_FLIGHT = [1, 64, 512, 4096];

/** Compared with each other only, where Redis's part is measured. */
const THREE = ["tidegate:three", "tidegate:three-calls"];
const ROWS = [
  "ping",
  "incr",
  "evalsha",
  "evalsha:autopipelined",
  "classic",
  "tidegate",
  "tidegate:tokenBucket",
  ...THREE,
  "rate-limiter-flexible",
  "rate-limiter-flexible:block",
  "rate-limit-redis",
  "throttler",
];

/** Never used up, and its windows still counted exactly. */
const LIMIT = { limit: 100_000_000, windowMs: 60_000 };
const SIZE = { quick: { warmMs: 100, ms: 180, rounds: 3 }, full: { warmMs: 400, ms: 500, rounds: 7 } };

const AT_64 = /** @type {const} */ ({ traffic: "uniform", inFlight: 64 });
const AT_512 = /** @type {const} */ ({ traffic: "uniform", inFlight: 512 });
const HOT = /** @type {const} */ ({ traffic: "one", inFlight: 512 });

/** @type {import("./section.js").Section<Row[]>} */
export const throughput = {
  title: "Decisions per second of one process",

  async measure({ redis, only, profile, quick, progress }) {
    await redis.control.flushall();
    const size = SIZE[quick ? "quick" : "full"];
    const rows = await measureCells({
      limiters: picked(limitersNamed(ROWS), only),
      cellsOf: ({ name }) => (THREE.includes(name) ? [AT_64] : CELLS),
      setting: { target: { url: redis.url }, limit: LIMIT },
      servers: [redis],
      size,
      profile,
      progress: (round) => progress(`throughput: ${round} of ${size.rounds} rounds`),
    });
    await redis.control.flushall();
    return rows;
  },

  show: (rows) =>
    [...TRAFFICS.map((traffic) => rates(rows, traffic)), asked(rows), withoutRedis(rows)].join("\n\n"),

  figures(rows) {
    const ours = (/** @type {Cell} */ cell) => rowOf(rows, "tidegate", cell);
    const [three = NaN, calls = NaN] = THREE.map((name) => typical(rowOf(rows, name, AT_64), redisCpu));
    return [
      {
        what: "decisions/s ÷ plain EVALSHA, 512 in flight, uniform",
        measured: median(ratios(rows, "tidegate", "evalsha", AT_512)),
        must: 2,
        goal: 3,
        bound: "least",
      },
      {
        what: "decisions/s ÷ plain EVALSHA, 512 in flight, one identity",
        measured: median(ratios(rows, "tidegate", "evalsha", HOT)),
        must: 10,
        goal: 20,
        bound: "least",
      },
      {
        what: "Node CPU per decision, 512 in flight, uniform, µs",
        measured: typical(ours(AT_512), ({ cpu }) => cpu),
        must: 6,
        goal: 3,
      },
      {
        what: "Redis CPU per decision, 64 in flight, uniform, µs",
        measured: typical(ours(AT_64), redisCpu),
        must: 6,
        goal: 4,
      },
      {
        what: "Redis CPU of three policies in one call ÷ three calls, 64 in flight",
        measured: three / calls,
        must: 0.85,
        goal: 0.75,
      },
    ];
  },
};

/** @type {Cell[]} */
const CELLS = TRAFFICS.flatMap((traffic) => IN_FLIGHT.map((inFlight) => ({ traffic, inFlight })));

/**
 * @param {Row[]} rows
 * @param {Traffic} traffic
 */
function rates(rows, traffic) {
  const head = IN_FLIGHT.flatMap((inFlight) => [`${inFlight} in flight`, "× EVALSHA", "Node µs"]);
  const shown = rows.filter((row) => row.traffic === traffic && !THREE.includes(row.name));
  const names = [...new Set(shown.map(({ name }) => name))];
  const body = names.map((name) => {
    const title = shown.find((row) => row.name === name)?.title ?? name;
    return [title, ...IN_FLIGHT.flatMap((inFlight) => cells(rows, name, { traffic, inFlight }))];
  });
  return `**${TRAFFIC[traffic]}**\n\n${table(["1,000 decisions/s", ...head], body)}`;
}

/**
 * @param {Row[]} rows
 * @param {string} name
 * @param {Cell} cell
 */
function cells(rows, name, cell) {
  const row = rowOf(rows, name, cell);
  if (!row || !isMeasured(row)) return ["not measured", "", ""];
  return [
    spread(
      row.samples.map(({ rate }) => rate / 1000),
      1,
    ),
    show(median(ratios(rows, name, "evalsha", cell)), 2),
    show(
      typical(row, ({ cpu }) => cpu),
      1,
    ),
  ];
}

/** @param {Row[]} rows */
function asked(rows) {
  const at64 = rows.filter((row) => row.traffic === "uniform" && row.inFlight === 64);
  const calls = (/** @type {string} */ name, /** @type {Cell} */ cell) =>
    show(typical(rowOf(rows, name, cell), callsOf), 3);
  const body = at64.map(({ name, title }) => [
    title,
    show(typical(rowOf(rows, name, AT_64), redisCpu), 1),
    calls(name, AT_64),
    calls(name, AT_512),
    calls(name, HOT),
  ]);
  const head = ["", "CPU µs, 64 in flight", "commands, 64", "commands, 512", "commands, 512, one identity"];
  return `**What a decision asks of Redis**\n\n${table(head, body)}`;
}

/** @param {import("../load/cells.js").Sample} sample */
const redisCpu = ({ servers }) => servers.reduce((sum, { cpu }) => sum + cpu, 0);

/** @param {Row[]} rows */
function withoutRedis(rows) {
  const some = rows.filter(({ samples }) => samples.some(({ degraded }) => degraded > 0));
  if (some.length === 0) return "No decision was made without Redis.";
  const parts = some.map(({ title, traffic, inFlight, samples }) => {
    const degraded = samples.reduce((sum, sample) => sum + sample.degraded, 0);
    return `${degraded} by ${title} (${traffic}, ${inFlight} in flight)`;
  });
  return `Made without Redis, and not counted: ${parts.join("; ")}.`;
}
