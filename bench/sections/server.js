/**
 * Redis' own CPU per decision: what goes over the wire for one round of decisions is recorded, then
 * sent again in pipelines. Noise only ever adds to it, so the least of all samples counts.
 */
import { least, median, rotated, show, table } from "../lib/numbers.js";
import { markedWrites, recordingProxy, replayer } from "../lib/wire.js";
import { decisionsOf, KEYS } from "../subjects/subject.js";

/** @typedef {import("../subjects/subject.js").Subject} Subject */
/** @typedef {{ subject: Subject, writes: Buffer[], bytes: number }} Tape `bytes`: sent per decision */
/** @typedef {Record<string, { cpu: number[], bytes: number }>} Result µs per decision; bytes sent per decision */

/** One sample is so many replays: 5 to 100 ms of Redis, short enough to fall between disturbances. */
const REPLAYS = 5;
const CONNECTIONS = 4;

/** @type {import("./section.js").Section<Result>} */
export const server = {
  title: "Redis CPU per decision, replayed",

  async measure({ redis, subjects, quick, depth, progress }) {
    const tapes = await record(redis, subjects, depth);
    /** @type {Result} */
    const result = {};
    for (const { subject, bytes } of tapes) result[subject.name] = { cpu: [], bytes };
    const player = await replayer(redis.port, CONNECTIONS);
    const rounds = quick ? 15 : 60;
    for (let round = 0; round < rounds; round++) {
      for (const tape of rotated(tapes, round)) {
        result[tape.subject.name]?.cpu.push(await sample(redis, player, tape));
      }
      if ((round + 1) % 15 === 0) progress(`server: ${round + 1} of ${rounds} rounds`);
    }
    player.close();
    await redis.control.flushall();
    return result;
  },

  show(result) {
    const incr = cost(result, "incr");
    const classic = cost(result, "classic");
    return table(
      ["", "µs, least", "median", "× INCR", "× classic", "bytes sent"],
      Object.entries(result).map(([name, { cpu, bytes }]) => {
        const us = least(cpu);
        return [
          name,
          show(us, 2),
          show(median(cpu), 2),
          show(us / incr, 2),
          show(us / classic, 2),
          show(bytes, 0),
        ];
      }),
    );
  },

  figures(result) {
    const over = (/** @type {string} */ one, /** @type {string} */ other) =>
      cost(result, one) / cost(result, other);
    return [
      { what: "gcra ÷ INCR", measured: over("gcra", "incr"), must: 13, goal: 10 },
      { what: "fixedWindow ÷ INCR", measured: over("fixedWindow", "incr"), must: 13, goal: 10 },
      { what: "slidingWindow ÷ INCR", measured: over("slidingWindow", "incr"), must: 13, goal: 10 },
      { what: "tokenBucket ÷ classic", measured: over("tokenBucket", "classic"), must: 1.25 },
      ...["fixedWindow", "slidingWindow", "tokenBucket"].map((name) => ({
        what: `${name} in batches of 64 ÷ INCR`,
        measured: over(`${name}:batch`, "incr"),
        must: 6,
        goal: 4,
      })),
      {
        what: "three policies in one call ÷ three calls",
        measured: over("three", "three:calls"),
        must: 0.85,
        goal: 0.75,
      },
    ];
  },
};

/**
 * @param {Result} result
 * @param {string} name
 */
const cost = (result, name) => least(result[name]?.cpu ?? [NaN]);

/**
 * What each subject sends for one decision on each of the keys.
 *
 * @param {import("../lib/redis.js").Server} redis
 * @param {Subject[]} subjects
 * @param {number} depth commands per write
 */
async function record(redis, subjects, depth) {
  const proxy = await recordingProxy(redis.port);
  /** @type {Tape[]} */
  const tapes = [];
  for (const subject of subjects) {
    const session = await subject.open(proxy.url);
    await session.decide(0);
    proxy.take();
    const steps = [];
    for (let step = 0; step < KEYS / decisionsOf(subject); step++) {
      await session.decide(step);
      steps.push(proxy.take());
    }
    const bytes = Buffer.concat(steps).length / KEYS;
    tapes.push({ subject, writes: markedWrites(steps, Math.ceil(depth / (subject.commands ?? 1))), bytes });
    await session.close();
  }
  await proxy.close();
  return tapes;
}

/**
 * @param {import("../lib/redis.js").Server} redis
 * @param {Awaited<ReturnType<typeof replayer>>} player
 * @param {Tape} tape
 * @returns {Promise<number>} µs per decision
 */
async function sample(redis, player, { subject, writes }) {
  await redis.control.flushall();
  // The first round writes keys that are not there yet; it is not measured.
  for (let i = 0; i < 1 + (subject.spend ?? 0); i++) await player.play(writes);
  const [errors, before] = [await redis.errors(), await redis.cpu()];
  let tail = "";
  for (let i = 0; i < REPLAYS; i++) tail = await player.play(writes);
  const used = (await redis.cpu()) - before;
  if ((await redis.errors()) > errors || !subject.answer.test(tail)) {
    throw new Error(`${subject.name}: replayed, it is not answered as it should be: ${JSON.stringify(tail)}`);
  }
  return used / (REPLAYS * KEYS);
}
