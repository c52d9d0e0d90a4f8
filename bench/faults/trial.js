/** One limiter through one fault. */
import { fileURLToPath } from "node:url";
import { startChild } from "../lib/child.js";
import { median } from "../lib/numbers.js";
import { losingProxy } from "./proxy.js";
import { frailRedis } from "./redis.js";
import { beginVisits, sleep } from "./visits.js";

/** @typedef {import("./visits.js").Visit} Visit */
/** @typedef {import("./redis.js").FrailRedis} FrailRedis */

/**
 * @typedef {object} Trial
 * @property {string} product
 * @property {string} fault
 * @property {number} sent visits since the fault began
 * @property {number} worst the longest of them, ms
 * @property {number} median of those sent during the fault, ms
 * @property {number} errors answers that are no 200, and connections that broke
 * @property {number} hanging visits without an answer when the time was up
 * @property {number} twice units charged beyond one for each visit
 * @property {number} uncounted visits that passed, and that Redis does not know of: by a rule of the limiter's for the time without it
 * @property {number | null} healthy ms from the end of the fault until all is well again; null: it never was
 * @property {number} late how long the machine kept a process waiting, at the worst, ms
 */

const WARM_MS = 1000;
/** What is not answered so long after the fault is taken to hang, ms. So long, all the same, it may take to be well. */
const CAP_MS = 10_000;
/** A visit that takes longer is not well, ms. */
const PROMPT_MS = 250;
/** All is well when it has been so for so long, ms. */
const CALM_MS = 1500;
/** Commands still under way when the last answer is there, ms. */
const SETTLED_MS = 300;

const program = fileURLToPath(new URL("./app.js", import.meta.url));

/**
 * Begins a trial up to where its application listens. The rest is timed: no other application may be starting then.
 *
 * @param {import("./products.js").Product} product
 * @param {import("./faults.js").Fault} fault
 */
export async function prepare(product, fault) {
  const redis = await frailRedis();
  if (!fault.absent) await redis.start();
  const proxy = fault.proxied ? await losingProxy(redis.port) : undefined;
  /** @type {import("../lib/child.js").Child<"port", number>} */
  const app = startChild(process.execPath, [program, product.app, (proxy ?? redis).url]);
  const port = await app.ask("port");

  return async () => {
    const loop = beginVisits(port);
    try {
      if (!fault.absent) await sleep(WARM_MS);
      const from = performance.now();
      await fault.act({ redis, proxy });
      const until = performance.now();
      await wellAgain(product, redis, loop.visits, until);
      loop.stop();
      await loop.answered(until + CAP_MS);
      await sleep(SETTLED_MS);
      const units = await unitsOf(product, redis, loop.visits);
      return trialOf(product, fault, { visits: loop.visits, units, from, until });
    } finally {
      loop.close();
      await app.stop();
      await proxy?.close();
      await redis.stop();
    }
  };
}

/**
 * @typedef {object} Seen
 * @property {Visit[]} visits
 * @property {number[]} units what each was charged
 * @property {number} from when the fault began
 * @property {number} until when it ended
 */

/**
 * @param {import("./products.js").Product} product
 * @param {import("./faults.js").Fault} fault
 * @param {Seen} all
 * @returns {Trial}
 */
function trialOf(product, fault, { visits, units, from, until }) {
  const seen = visits.flatMap((visit, i) => (visit.at >= from ? { ...visit, units: units[i] ?? 0 } : []));
  const hanging = seen.filter(({ ms }) => ms === undefined);
  const waits = seen.map(({ at, ms }) => ms ?? until + CAP_MS - at);
  return {
    product: product.name,
    fault: fault.name,
    sent: seen.length,
    worst: Math.max(...waits),
    median: median(waits.filter((_, i) => (seen[i]?.at ?? until) < until)),
    errors: seen.filter(({ status }) => status !== undefined && status !== 200).length,
    hanging: hanging.length,
    twice: seen.reduce((sum, { units }) => sum + Math.max(0, units - 1), 0),
    uncounted: seen.filter(({ status, units }) => status === 200 && units === 0).length,
    healthy: healthyAfter(visits, units, until),
    late: Math.max(...seen.map(({ late }) => late)),
  };
}

/**
 * Waits until it is, for as long as it may take.
 *
 * @param {import("./products.js").Product} product
 * @param {FrailRedis} redis
 * @param {Visit[]} visits
 * @param {number} until the end of the fault
 */
async function wellAgain(product, redis, visits, until) {
  for (let now = until; now < until + CAP_MS; now = performance.now()) {
    const judged = visits.filter(({ at, ms }) => at > until && (ms !== undefined || at < now - PROMPT_MS));
    const units = await unitsOf(product, redis, judged);
    const bad = judged.findLast((visit, i) => !isWell(visit, units[i]));
    if (now - (bad?.at ?? until) > CALM_MS) return;
    await sleep(100);
  }
}

/**
 * Answered, at once, and counted where all processes count: before that, no limit holds.
 *
 * @param {Visit} visit
 * @param {number} [units]
 */
const isWell = ({ status, ms = Infinity }, units = 0) => status === 200 && ms <= PROMPT_MS && units > 0;

/**
 * @param {Visit[]} visits
 * @param {number[]} units
 * @param {number} until the end of the fault
 */
function healthyAfter(visits, units, until) {
  const lastBad = visits.findLastIndex((visit, i) => visit.at > until && !isWell(visit, units[i]));
  if (lastBad < 0) return 0;
  const next = visits[lastBad + 1];
  return next ? next.at - until : null;
}

/**
 * What each visitor was charged.
 *
 * @param {import("./products.js").Product} product
 * @param {FrailRedis} redis
 * @param {Visit[]} visits
 */
async function unitsOf(product, redis, visits) {
  const pipeline = redis.client.pipeline();
  for (const { id } of visits) product.read(pipeline, id);
  const replies = (await pipeline.exec()) ?? [];
  return replies.map(([, reply]) => product.units(reply));
}
