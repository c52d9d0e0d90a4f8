/** What is done to Redis, or on the way to it. */
import { sleep } from "./visits.js";

/**
 * @typedef {object} Fault
 * @property {string} name
 * @property {string} title
 * @property {boolean} [absent] there is no server when the application starts
 * @property {boolean} [proxied] a proxy stands between
 * @property {(place: Place) => Promise<void>} act what it does; when that is through, all is well again
 *
 * @typedef {object} Place
 * @property {import("./redis.js").FrailRedis} redis
 * @property {import("./proxy.js").LosingProxy | undefined} proxy
 */

/** @type {Fault[]} */
export const faults = [
  {
    name: "absent",
    title: "Redis is absent when the application starts, and comes 3 s later",
    absent: true,
    async act({ redis }) {
      await sleep(3000);
      await redis.start();
    },
  },
  {
    name: "hangs",
    title: "Redis hangs for 3 s (SIGSTOP)",
    async act({ redis }) {
      redis.pause();
      await sleep(3000);
      redis.resume();
    },
  },
  {
    name: "killed",
    title: "Redis is killed (SIGKILL), and back after 1.5 s, empty",
    async act({ redis }) {
      await redis.kill();
      await sleep(1500);
      await redis.start();
    },
  },
  {
    name: "flushed",
    title: "`SCRIPT FLUSH`, 20 times in 2 s",
    act: ({ redis }) => times(20, 100, () => redis.client.script("FLUSH")),
  },
  {
    name: "lost",
    title: "a command is executed, its reply and the connection are lost, 10 times in 4 s",
    proxied: true,
    // Whoever sends nothing any more loses nothing.
    act: ({ proxy }) => times(10, 400, () => Promise.race([proxy?.loseNext(), sleep(2000)])),
  },
];

/**
 * @param {number} count
 * @param {number} everyMs
 * @param {() => unknown} act
 */
async function times(count, everyMs, act) {
  for (let i = 0; i < count; i++) {
    await act();
    await sleep(everyMs);
  }
}
