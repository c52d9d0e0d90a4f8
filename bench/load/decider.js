/** A limiter in a process of its own: `node decider.js <name> <JSON: where Redis is, and the limit>`. */
import { answerQuestions } from "../lib/child.js";
import { after, drive, pace, waits } from "../lib/drive.js";
import { FLOODED, identities, order } from "../lib/traffic.js";
import { limiters } from "../limiters/index.js";

/** @typedef {import("../lib/drive.js").Driven} Driven */
/** @typedef {import("../lib/traffic.js").Traffic} Traffic */
/** @typedef {import("../limiters/limiter.js").Target} Target */
/** @typedef {import("../limiters/limiter.js").Limit} Limit */
/** @typedef {{ target: Target, limit: Limit }} Setting */

/**
 * - `drive`: so many in flight, for so long
 * - `spend`: the flooded identity uses up what it has
 * - `wait`: others wait for one decision at a time, while the flooded identity does so much
 *
 * @typedef {{ act: "drive", traffic: Traffic | "flood", inFlight: number, ms: number }} Drive
 * @typedef {{ act: "spend" }} Spend
 * @typedef {{ act: "wait", flood: Flood, ms: number }} Wait
 * @typedef {"none" | "paced" | "full"} Flood
 * @typedef {Drive | Spend | Wait} Order
 */

/** @typedef {{ waits: number[], flooded: number }} Waited `waits`: milliseconds; `flooded`: answers to the flood */

/** Others than the flooded one. Each has room for all that is asked here. */
const OTHERS = 1000;
/** What a flood is at most at any moment. */
const MOST = 512;
/** More than one process of Node takes over HTTP. */
const PACE = 100_000;

const [name = "", setting = ""] = process.argv.slice(2);
const { target, limit } = /** @type {Setting} */ (JSON.parse(setting));
const found = limiters.find((each) => each.name === name);
if (!found) throw new Error(`there is no limiter ${name}`);
const limiter = await (await found.load()).open(name, target, limit);

/** @typedef {{ next: () => string, isOver: () => boolean }} Load */
const FLOODS = {
  paced: (/** @type {Load} */ load) => pace(limiter, { ...load, perSecond: PACE, most: MOST }),
  full: (/** @type {Load} */ load) => drive(limiter, { ...load, inFlight: MOST }),
};

const names = identities();
/** @type {Map<Traffic | "flood", () => string>} */
const suppliers = new Map([["flood", () => FLOODED]]);
const nextOther = byTurns(
  names.slice(0, OTHERS),
  Uint32Array.from({ length: OTHERS }, (_, i) => i),
);

answerQuestions((/** @type {Order} */ question) => answer(question));

/**
 * @param {Order} question
 * @returns {Promise<Driven | Waited>}
 */
function answer(question) {
  if (question.act === "drive") return drive(limiter, { ...question, next: supplier(question.traffic) });
  if (question.act === "wait") return wait(question);
  return spend();
}

/** @param {Traffic | "flood"} traffic */
function supplier(traffic) {
  const known = suppliers.get(traffic) ?? byTurns(names, order(/** @type {Traffic} */ (traffic)));
  suppliers.set(traffic, known);
  return known;
}

/**
 * @param {string[]} all
 * @param {Uint32Array} places
 */
function byTurns(all, places) {
  let at = 0;
  return () => {
    if (at === places.length) at = 0;
    return /** @type {string} */ (all[/** @type {number} */ (places[at++])]);
  };
}

function spend() {
  let left = limit.limit + 1;
  const next = () => {
    left--;
    return FLOODED;
  };
  return drive(limiter, { next, inFlight: 8, isOver: () => left <= 0 });
}

/**
 * @param {Wait} order
 * @returns {Promise<Waited>}
 */
async function wait({ flood, ms }) {
  const isOver = after(ms);
  const flooding = flood === "none" ? undefined : FLOODS[flood]({ next: supplier("flood"), isOver });
  const found = await waits(limiter, { next: nextOther, isOver });
  return { waits: found, flooded: (await flooding)?.refused ?? 0 };
}
