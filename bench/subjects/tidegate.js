/** Our own store, one way of asking after the other. */
import {
  concurrency,
  fixedWindow,
  gcra,
  ioredisClient,
  redisStore,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";
import { identityOf } from "./subject.js";

/** @typedef {import("@tidegate/core").Policy} Policy */
/** @typedef {import("@tidegate/core").Store} Store */
/** @typedef {import("@tidegate/core").Check} Check */
/** @typedef {import("./subject.js").Subject} Subject */

/** Never used up while a recording is played again, nor back to full, when the key would go. */
export const PLENTY = {
  tokenBucket: tokenBucket({ capacity: 1000, refillPerSecond: 0.05 }),
  slidingWindow: slidingWindow({ limit: 1_000_000, window: "10m" }),
  fixedWindow: fixedWindow({ limit: 1_000_000, window: "10m" }),
  slidingLog: slidingLog({ limit: 1000, window: "10m" }),
  gcra: gcra({ limit: 4320, window: "1d", burst: 1000 }),
  clockWindow: fixedWindow({ limit: 1_000_000, window: "1d", align: "clock" }),
  concurrency: concurrency({ limit: 1000, leaseMs: 600_000 }),
};

/** Used up by `SPEND` decisions, and not back before the end of the day. */
const SCARCE = {
  tokenBucket: tokenBucket({ capacity: 2, refillPerSecond: 0.0001 }),
  slidingWindow: slidingWindow({ limit: 2, window: "1d" }),
  fixedWindow: fixedWindow({ limit: 2, window: "1d" }),
  slidingLog: slidingLog({ limit: 2, window: "1d" }),
  gcra: gcra({ limit: 2, window: "1d" }),
  clockWindow: fixedWindow({ limit: 2, window: "365d", align: "clock" }),
};
const SPEND = 2;

const BATCH = 64;
/** One identity's policies in the figure "three in one call". */
const THREE = [PLENTY.tokenBucket, PLENTY.slidingWindow, PLENTY.fixedWindow];

const GRANTED = /:1\r\n:\d{16}\r\n:1\r\n/;
const REFUSED = /:1\r\n:\d{16}\r\n:0\r\n/;

/** So far ahead that the script reads a deadline, as it does in life, and never meets it. */
const A_DAY_MS = 86_400_000;

/**
 * @param {{ sha: string, text: string }} [script] the one we ship by default
 * @param {string} [suffix] tells its rows from those of another script
 * @returns {Subject[]}
 */
export function tidegate(script, suffix = "") {
  const each = Object.entries(PLENTY);
  /** @type {Subject[]} */
  const subjects = [
    ...each.map(([name, policy]) => ({ name, answer: GRANTED, open: session((i) => [check([policy], i)]) })),
    { name: "three", answer: GRANTED, open: session((i) => [check(THREE, i)]) },
    {
      name: "three:calls",
      answer: GRANTED,
      commands: THREE.length,
      open: session(...THREE.map((policy) => (/** @type {number} */ i) => [check([policy], i)])),
    },
    ...Object.entries(SCARCE).map(([name, policy]) => ({
      name: `${name}:refused`,
      answer: REFUSED,
      spend: SPEND,
      open: session((i) => [check([policy], i)]),
    })),
    { name: "three:refused", answer: REFUSED, spend: SPEND, open: session((i) => [check(THREE_SCARCE, i)]) },
    ...[...each, /** @type {const} */ (["three", THREE])].map(([name, policies]) => ({
      name: `${name}:batch`,
      answer: /:1\r\n/,
      decisions: BATCH,
      open: session((step) => range(BATCH).map((i) => check([policies].flat(), step * BATCH + i))),
    })),
  ];
  return subjects.map((subject) => ({ ...subject, name: subject.name + suffix }));

  /** @param {((step: number) => Check[])[]} batches the batches of one step, sent one after the other */
  function session(...batches) {
    return async (/** @type {string} */ url) => {
      const store = redisStore(ioredisClient(url), script ? { scripts: { decide: script } } : {});
      // Teaches the store the server's clock, without which it sends no deadline.
      await ask(store, [check([PLENTY.fixedWindow], -1)]);
      return {
        decide: (/** @type {number} */ step) => Promise.all(batches.map((batch) => ask(store, batch(step)))),
        close: () => store.close(),
      };
    };
  }
}

const THREE_SCARCE = [SCARCE.tokenBucket, SCARCE.slidingWindow, SCARCE.fixedWindow];

let leases = 0;

/**
 * @param {Policy[]} policies
 * @param {number} i which identity
 * @returns {Check}
 */
export function check(policies, i) {
  const keys = policies.map((policy) => `rl:{${identityOf(i)}}:api:${policy.algorithm.tag}`);
  const costs = policies.map(() => 1);
  const deadline = performance.now() + A_DAY_MS;
  const lease = policies.some(({ algorithm }) => "renew" in algorithm) ? `lease-${++leases}` : undefined;
  return { policies, keys, costs, deadline, peek: false, blocks: [], lease, nonce: undefined };
}

/**
 * Sends one batch.
 *
 * @param {Store} store
 * @param {Check[]} batch
 */
export function ask(store, batch) {
  return new Promise((resolve, reject) => {
    let missing = batch.length;
    /** @type {import("@tidegate/core").Done} */
    const done = (error, outcome) => {
      if (error) reject(error);
      else if (--missing === 0) resolve(outcome);
    };
    store.decide(batch, Array(batch.length).fill(done));
  });
}

/** @param {number} length */
const range = (length) => Array.from({ length }, (_, i) => i);
