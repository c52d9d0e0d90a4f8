/** The store in this process's memory, which answers when Redis cannot: how fast, and how large. */
import { fileURLToPath } from "node:url";
import { startChild } from "../lib/child.js";
import { median, rotated, show, spread, table } from "../lib/numbers.js";

/** @typedef {import("../load/store.js").How} How */
/** @typedef {import("../load/store.js").Speed & import("../load/store.js").Size} Answer */
/** @typedef {import("../lib/child.js").Child<import("../load/store.js").Order, Answer>} Child */
/** @typedef {{ name: string, rates: Record<How, number[]>, heap: number, rss: number }} Row decisions/s; bytes */

const POLICIES = ["slidingWindow", "fixedWindow", "tokenBucket", "gcra"];
/** @type {How[]} */
const HOWS = ["store", "newcomers", "limiter"];
const SIZE = { quick: { ms: 250, rounds: 3 }, full: { ms: 600, rounds: 9 } };

const program = fileURLToPath(new URL("../load/store.js", import.meta.url));

/** @type {import("./section.js").Section<Row[]>} */
export const inProcess = {
  title: "Memory store: decisions per second of one process, and a million identities",

  async measure({ quick, progress }) {
    const { ms, rounds } = SIZE[quick ? "quick" : "full"];
    const rows = POLICIES.map((name) => ({
      name,
      child: /** @type {Child} */ (startChild(process.execPath, ["--expose-gc", program, name])),
      rates: /** @type {Row["rates"]} */ ({ store: [], newcomers: [], limiter: [] }),
      heap: NaN,
      rss: NaN,
    }));
    try {
      for (const row of rows) Object.assign(row, await row.child.ask({ act: "fill" }));
      for (const { child } of rows) for (const act of HOWS) await child.ask({ act, ms });
      for (let round = 0; round < rounds; round++) {
        progress(`process: ${round} of ${rounds} rounds`);
        for (const act of HOWS)
          for (const { child, rates } of rotated(rows, round))
            rates[act].push((await child.ask({ act, ms })).rate);
      }
    } finally {
      for (const { child } of rows) await child.stop();
    }
    return rows.map(({ name, rates, heap, rss }) => ({ name, rates, heap, rss }));
  },

  show: (rows) =>
    table(
      [
        "1,000 decisions/s",
        "the store",
        "the store, full, newcomers only",
        "limiter.decide",
        "1,000,000 identities, MB of heap",
        "of the process",
      ],
      rows.map(({ name, rates, heap, rss }) => [
        name,
        ...HOWS.map((how) =>
          spread(
            rates[how].map((rate) => rate / 1000),
            0,
          ),
        ),
        show(heap / 1e6, 0),
        show(rss / 1e6, 0),
      ]),
    ),

  figures: (rows) => [
    {
      what: "memory store, decisions/s, slowest policy",
      measured: slowest(rows, "store"),
      must: 1_000_000,
      bound: "least",
    },
    {
      what: "the same through limiter.decide",
      measured: slowest(rows, "limiter"),
      must: 1_000_000,
      bound: "least",
    },
    {
      what: "memory store, 1,000,000 identities, MB of heap, largest policy",
      measured: Math.max(...rows.map(({ heap }) => heap / 1e6)),
      must: 300,
    },
  ],
};

/**
 * @param {Row[]} rows
 * @param {How} how
 */
const slowest = (rows, how) => Math.min(...rows.map(({ rates }) => median(rates[how])));
