/** The same decisions on a Cluster, and one identity whose limit is split among its servers. */
import { startCluster } from "../lib/cluster.js";
import { picked } from "../lib/named.js";
import { median, show, spread, table } from "../lib/numbers.js";
import { limitersNamed } from "../limiters/index.js";
import { callsOf, isMeasured, measureCells, ratios, rowOf, typical } from "../load/cells.js";

/** @typedef {import("../load/cells.js").Cell} Cell */
/** @typedef {import("../load/cells.js").Row} Row */
/** @typedef {import("../load/cells.js").Sample} Sample */
/** @typedef {import("../lib/traffic.js").Traffic} Traffic */

const SERVERS = 3;
const LIMIT = { limit: 100_000_000, windowMs: 60_000 };
const SIZE = { quick: { warmMs: 300, ms: 400, rounds: 5 }, full: { warmMs: 800, ms: 1000, rounds: 15 } };

const ROWS = ["evalsha", "evalsha:autopipelined", "tidegate", "rate-limiter-flexible"];
/** @type {Record<Traffic, string>} */
const TITLES = {
  uniform: "20,000 identities, uniform",
  zipf: "20,000 identities, zipf",
  one: "one identity",
};
const TRAFFICS = /** @type {Traffic[]} */ (Object.keys(TITLES));
const MUST = { uniform: 1.3, one: 10 };

/**
 * One identity as it comes, its limit whole and split: requests that can be asked as one, and such
 * that cannot, as their neighbours cost something else.
 *
 * @type {Map<string, { title: string, unsplit: string }>}
 */
const SPLIT = new Map([
  ["tidegate", { title: "equal requests", unsplit: "tidegate" }],
  ["tidegate:shards", { title: "equal requests, shards: 8", unsplit: "tidegate" }],
  ["tidegate:unlike", { title: "costs of 1 and 2 by turns", unsplit: "tidegate:unlike" }],
  ["tidegate:unlike-shards", { title: "costs of 1 and 2 by turns, shards: 8", unsplit: "tidegate:unlike" }],
]);

/** @param {Traffic} traffic */
const at512 = (traffic) => /** @type {Cell} */ ({ traffic, inFlight: 512 });
const HOT = at512("one");

/** @type {import("./section.js").Section<Row[]>} */
export const cluster = {
  title: "A Cluster of three servers, 512 in flight",

  async measure({ only, profile, quick, progress }) {
    const size = SIZE[quick ? "quick" : "full"];
    const { servers, nodes, stop } = await startCluster(SERVERS);
    try {
      return await measureCells({
        limiters: picked(limitersNamed([...ROWS, ...SPLIT.keys()]), only),
        cellsOf: ({ name }) => (ROWS.includes(name) ? TRAFFICS.map(at512) : [HOT]),
        setting: { target: { nodes }, limit: LIMIT },
        servers,
        size,
        profile,
        progress: (round) => progress(`cluster: ${round} of ${size.rounds} rounds`),
      });
    } finally {
      await stop();
    }
  },

  show: (rows) => [...TRAFFICS.map((traffic) => rates(rows, traffic)), split(rows)].join("\n\n"),

  figures: (rows) => [
    ...Object.entries(MUST).map(([traffic, must]) => ({
      what: `Cluster: decisions/s ÷ plain EVALSHA, 512 in flight, ${traffic}`,
      measured: median(ratios(rows, "tidegate", "evalsha", at512(/** @type {Traffic} */ (traffic)))),
      must,
      bound: /** @type {const} */ ("least"),
    })),
    {
      what: "Cluster: commands to one identity's busiest server with shards: 8, whole percent",
      measured: Math.round(100 * typical(rowOf(rows, "tidegate:shards", HOT), largestShare("calls"))),
      must: 50,
    },
  ],
};

/**
 * @param {Row[]} rows
 * @param {Traffic} traffic
 */
function rates(rows, traffic) {
  const shown = rows.filter((row) => row.traffic === traffic && ROWS.includes(row.name));
  const head = [TITLES[traffic], "1,000 decisions/s", "× EVALSHA", "Node µs", "commands per decision"];
  return table(
    head,
    shown.map((row) => [
      row.title,
      thousands(row),
      spread(ratios(rows, row.name, "evalsha", row), 2),
      show(
        typical(row, ({ cpu }) => cpu),
        1,
      ),
      show(typical(row, callsOf), 3),
    ]),
  );
}

/** @param {Row[]} rows */
function split(rows) {
  const head = [
    "one identity",
    "1,000 decisions/s",
    "× unsplit",
    "commands per decision",
    "busiest server: its share of charges",
    "of commands",
    "its CPU µs per decision",
    "CPU of all three",
    "Node µs",
  ];
  const body = [...SPLIT].flatMap(([name, { title, unsplit }]) => {
    const row = rowOf(rows, name, HOT);
    if (!row) return [];
    return [
      [
        title,
        thousands(row),
        spread(ratios(rows, name, unsplit, HOT), 2),
        show(typical(row, callsOf), 3),
        percent(typical(row, largestShare("writes"))),
        percent(typical(row, largestShare("calls"))),
        show(
          typical(row, (each) => Math.max(...cpus(each))),
          2,
        ),
        show(
          typical(row, (each) => sum(cpus(each))),
          2,
        ),
        show(
          typical(row, ({ cpu }) => cpu),
          1,
        ),
      ],
    ];
  });
  return table(head, body);
}

/** @param {Row} row */
const thousands = (row) =>
  isMeasured(row)
    ? spread(
        row.samples.map(({ rate }) => rate / 1000),
        1,
      )
    : "not measured";

/** @param {Sample} sample */
const cpus = ({ servers }) => servers.map(({ cpu }) => cpu);

/**
 * Of all that the servers had to do, how much the busiest had.
 *
 * @param {"calls" | "writes"} what
 */
const largestShare =
  (what) =>
  (/** @type {Sample} */ { servers }) => {
    const each = servers.map((server) => server[what]);
    return Math.max(...each) / sum(each);
  };

/** @param {number} share */
const percent = (share) => `${show(100 * share, 0)} %`;

/** @param {number[]} numbers */
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
