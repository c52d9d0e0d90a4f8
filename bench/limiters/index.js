/** Everything that can be asked for a decision without HTTP. */

const plain = () => import("./plain.js");
const ours = () => import("./tidegate.js");
const flexible = () => import("./rate-limiter-flexible.js");

/** @type {import("./limiter.js").Limiter[]} */
export const limiters = [
  { name: "ping", title: "PING", load: plain, baseline: true, commands: ["ping"] },
  { name: "incr", title: "INCR", load: plain, baseline: true, commands: ["incr"] },
  { name: "evalsha", title: "plain EVALSHA", load: plain, baseline: true },
  { name: "evalsha:autopipelined", title: "the same, auto-pipelined", load: plain },
  { name: "classic", title: "classic token bucket", load: plain },
  { name: "tidegate", title: "tidegate", load: ours },
  { name: "tidegate:tokenBucket", title: "tidegate, tokenBucket", load: ours },
  { name: "tidegate:three", title: "tidegate, three policies in one call", load: ours },
  { name: "tidegate:three-calls", title: "tidegate, three limiters in a row", load: ours },
  { name: "tidegate:shards", title: "tidegate, shards: 8", load: ours },
  { name: "tidegate:unlike", title: "tidegate, costs 1 and 2 by turns", load: ours },
  { name: "tidegate:unlike-shards", title: "tidegate, the same, shards: 8", load: ours },
  { name: "rate-limiter-flexible", title: "rate-limiter-flexible", load: flexible },
  {
    name: "rate-limiter-flexible:block",
    title: "rate-limiter-flexible, inMemoryBlockOnConsumed",
    load: flexible,
  },
  {
    name: "rate-limit-redis",
    title: "rate-limit-redis, the store",
    load: () => import("./rate-limit-redis.js"),
  },
  { name: "throttler", title: "@nest-lab/throttler-storage-redis", load: () => import("./throttler.js") },
  { name: "at-once", title: "no limiter: refuses at once", load: () => import("./at-once.js") },
];

/** @param {string[]} names */
export const limitersNamed = (names) => limiters.filter(({ name }) => names.includes(name));
