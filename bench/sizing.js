/**
 * The formula of docs/performance.md for the size of a Redis, against measured points: `node bench/sizing.js`.
 * Redis CPU per decision, µs, by how many decisions travel together and how many policies each has; the median of
 * three.
 */
import { createLimiter, fixedWindow, gcra, slidingWindow, user } from "@tidegate/core";
import { median } from "./lib/numbers.js";
import { startRedis } from "./lib/redis.js";

/** Of a script, whoever sends it and however many checks it has, µs: most of it is reading from a socket and writing to it. */
const SCRIPT = 28;
/** Of each policy of a check, µs. */
const POLICY = 2.7;

const one = { window: slidingWindow({ limit: 1e8, window: "1h" }) };
const three = {
  ...one,
  fixed: fixedWindow({ limit: 1e8, window: "1h" }),
  even: gcra({ limit: 1e6, window: "1h" }),
};
const identities = Array.from({ length: 20_000 }, (_, i) => user(`user-${i}`));

const redis = await startRedis();
console.log("| policies | in flight | checks per script | measured, µs | by the formula, µs |");
console.log("| ---: | ---: | ---: | ---: | ---: |");
for (const policies of [one, three]) for (const inFlight of [1, 64, 512]) await measure(policies, inFlight);
await redis.stop();

/**
 * @param {Record<string, import("@tidegate/core").Policy>} policies
 * @param {number} inFlight
 */
async function measure(policies, inFlight) {
  const count = Object.keys(policies).length;
  const limiter = createLimiter({ redis: redis.url, prefix: `p${count}`, policies, timeoutMs: 5000 });
  const decisions = inFlight === 1 ? 20_000 : 150_000;
  await drive(limiter, decisions, inFlight);
  /** @type {number[]} */
  const micros = [];
  let checks = NaN;
  for (let round = 0; round < 3; round++) {
    const [cpu, calls] = [await redis.cpu(), await redis.calls(["evalsha"])];
    await drive(limiter, decisions, inFlight);
    micros.push(((await redis.cpu()) - cpu) / decisions);
    checks = decisions / ((await redis.calls(["evalsha"])) - calls);
  }
  await limiter.close();
  const formula = SCRIPT / checks + POLICY * count;
  const row = [count, inFlight, checks.toFixed(1), median(micros).toFixed(1), formula.toFixed(1)];
  console.log(`| ${row.join(" | ")} |`);
}

/**
 * @param {import("@tidegate/core").Limiter} limiter
 * @param {number} decisions
 * @param {number} inFlight
 */
async function drive(limiter, decisions, inFlight) {
  let left = decisions;
  const worker = async () => {
    while (left-- > 0) await limiter.decide({ identity: identities[left % identities.length] ?? user("x") });
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
}
