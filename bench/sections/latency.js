/** One decision at a time, as a caller of the limiter waits for it, against a bare round trip of the same client. */
import { createLimiter, user } from "@tidegate/core";
import { median, percentile, rotated, spread, table } from "../lib/numbers.js";
import { KEYS } from "../subjects/subject.js";
import { PLENTY } from "../subjects/tidegate.js";

/** @typedef {import("../subjects/subject.js").Session} Session */
/** @typedef {Record<string, { p50: number[], p99: number[] }>} Result ms, one entry per round */

/** Asked through the client, or the store, alone. */
const ALONE = {
  ping: "PING",
  evalsha: "plain EVALSHA",
  classic: "classic",
  tokenBucket: "store alone: tokenBucket",
};
const PER_ROUND = 1000;
/** A turn is so short that a slow moment meets several in turn. */
const PER_TURN = 50;

/** @type {import("./section.js").Section<Result>} */
export const latency = {
  title: "Latency, one decision in flight",

  async measure({ redis, subjects, quick }) {
    await redis.control.flushall();
    /** @type {[string, Session][]} */
    const sessions = [];
    for (const [name, label] of Object.entries(ALONE)) {
      const subject = subjects.find((each) => each.name === name);
      if (subject) sessions.push([label, await subject.open(redis.url)]);
    }
    for (const [name, policies] of limiters()) sessions.push([name, limiterSession(redis.url, policies)]);

    await round(sessions, 0);
    /** @type {Result} */
    const result = Object.fromEntries(sessions.map(([name]) => [name, { p50: [], p99: [] }]));
    for (let i = 0; i < (quick ? 9 : 31); i++) {
      for (const [name, samples] of await round(sessions, i)) {
        result[name]?.p50.push(percentile(samples, 50));
        result[name]?.p99.push(percentile(samples, 99));
      }
    }
    for (const [, session] of sessions) await session.close();
    return result;
  },

  show(result) {
    return table(
      ["", "p50, µs", "p99, µs", "p50 × PING"],
      Object.entries(result).map(([name, { p50, p99 }]) => [
        name,
        spread(p50.map(toMicro), 0),
        spread(p99.map(toMicro), 0),
        spread(toPing(result, name), 2),
      ]),
    );
  },

  figures: (result) =>
    Object.keys(result)
      .filter((name) => name in PLENTY)
      .map((name) => ({
        what: `latency p50 of ${name}, 1 in flight ÷ PING`,
        measured: median(toPing(result, name)),
        must: 1.5,
        goal: 1.25,
      })),
};

/** @returns {[string, Record<string, import("@tidegate/core").Policy>][]} */
function limiters() {
  const { tokenBucket, slidingWindow, fixedWindow } = PLENTY;
  return [
    ["tokenBucket", { tokenBucket }],
    ["slidingWindow", { slidingWindow }],
    ["fixedWindow", { fixedWindow }],
    ["three", { tokenBucket, slidingWindow, fixedWindow }],
  ];
}

/**
 * @param {string} url
 * @param {Record<string, import("@tidegate/core").Policy>} policies
 * @returns {Session}
 */
function limiterSession(url, policies) {
  const limiter = createLimiter({ redis: url, policies, timeoutMs: 1000 });
  return {
    async decide(step) {
      const decision = await limiter.decide({ identity: user(String(step)) });
      if (!decision.allowed || decision.degraded)
        throw new Error("a decision was refused, or made without Redis");
    },
    close: () => limiter.close(),
  };
}

/**
 * @param {[string, Session][]} sessions
 * @param {number} turn
 * @returns {Promise<Map<string, number[]>>} ms of each decision
 */
async function round(sessions, turn) {
  const samples = new Map(sessions.map(([name]) => [name, /** @type {number[]} */ ([])]));
  for (let done = 0; done < PER_ROUND; done += PER_TURN) {
    for (const [name, session] of rotated(sessions, turn + done / PER_TURN)) {
      for (let i = 0; i < PER_TURN; i++) {
        const start = performance.now();
        await session.decide((done + i) % KEYS);
        samples.get(name)?.push(performance.now() - start);
      }
    }
  }
  return samples;
}

/**
 * @param {Result} result
 * @param {string} name
 */
const toPing = (result, name) =>
  (result[name]?.p50 ?? []).map((p50, i) => p50 / (result.PING?.p50[i] ?? NaN));

/** @param {number} ms */
const toMicro = (ms) => ms * 1000;
