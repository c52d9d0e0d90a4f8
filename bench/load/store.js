/** The memory store in a process of its own: `node --expose-gc store.js <policy>`. */
import { createLimiter, fixedWindow, gcra, memoryStore, slidingWindow, tokenBucket } from "@tidegate/core";
import { answerQuestions } from "../lib/child.js";
import { drive } from "../lib/drive.js";
import { identities, order } from "../lib/traffic.js";
import { verdict } from "../limiters/limiter.js";
import { check } from "../subjects/tidegate.js";

/**
 * - `store`: the store alone, asked one after the other
 * - `newcomers`: the same; it is full, and every decision is somebody's first
 * - `limiter`: `limiter.decide`, 512 in flight
 * - `fill`: a million identities, one decision each
 *
 * @typedef {"store" | "newcomers" | "limiter"} How
 * @typedef {{ act: How, ms: number } | { act: "fill" }} Order
 */

/** @typedef {{ rate: number }} Speed decisions/s */
/** @typedef {{ heap: number, rss: number }} Size bytes that were added */

const MILLION = 1_000_000;
/** Looked at the clock after so many decisions. */
const PORTION = 1000;

const SIZE = { limit: 100_000_000, window: "1m" };
const POLICIES = {
  slidingWindow: slidingWindow(SIZE),
  fixedWindow: fixedWindow(SIZE),
  tokenBucket: tokenBucket({ capacity: SIZE.limit, refillPerSecond: 1 }),
  gcra: gcra({ limit: 1_000_000, window: "1m", burst: 1_000_000 }),
};

const policy = POLICIES[/** @type {keyof typeof POLICIES} */ (process.argv[2])];
const names = identities();
const places = order("uniform");

let granted = 0;
/** @type {import("@tidegate/core").Done} */
const done = (_, outcome) => {
  if (outcome?.granted) granted++;
};

const known = names.map((_, i) => check([policy], i));
const store = memoryStore();
const full = memoryStore();
const limiter = createLimiter({ store: memoryStore(), policies: { default: policy } });
let at = 0;
let newcomers = 0;

const ACTS = {
  store: (/** @type {number} */ ms) =>
    repeat(ms, () => store.decide([/** @type {any} */ (known[nextPlace()])], [done])),
  newcomers: (/** @type {number} */ ms) =>
    repeat(ms, () => full.decide([check([policy], newcomers++)], [done])),
  async limiter(/** @type {number} */ ms) {
    const driven = await drive(
      {
        ask: (identity) => limiter.decide({ identity }),
        read: ({ allowed }) => verdict(allowed),
      },
      { next: () => String(names[nextPlace()]), inFlight: 512, ms },
    );
    granted += driven.allowed;
    return { rate: (1000 * driven.allowed) / driven.ms };
  },
};

/**
 * @param {Order} order
 * @returns {Promise<Speed | Size>}
 */
const answer = async (order) => (order.act === "fill" ? fill() : ACTS[order.act](order.ms));

answerQuestions(answer);

function nextPlace() {
  if (at === places.length) at = 0;
  return /** @type {number} */ (places[at++]);
}

/**
 * @param {number} ms
 * @param {() => void} decide
 * @returns {Speed}
 */
function repeat(ms, decide) {
  const before = granted;
  const start = performance.now();
  let asked = 0;
  for (; performance.now() - start < ms; asked += PORTION) for (let i = 0; i < PORTION; i++) decide();
  if (granted - before !== asked) throw new Error(`${granted - before} of ${asked} were granted`);
  return { rate: (1000 * asked) / (performance.now() - start) };
}

/** @returns {Promise<Size>} */
async function fill() {
  const before = used();
  const large = memoryStore({ maxEntries: MILLION });
  for (let i = 0; i < MILLION; i++) large.decide([check([policy], i)], [done]);
  const after = used();
  if (large.size !== MILLION) throw new Error(`keeps ${large.size} of ${MILLION}`);
  await large.close();
  return { heap: after.heap - before.heap, rss: after.rss - before.rss };
}

function used() {
  globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heap: heapUsed + external, rss };
}
