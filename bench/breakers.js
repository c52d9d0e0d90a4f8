/**
 * What a circuit breaker costs a decision that goes well: `node bench/breakers.js`. Each wraps the same
 * function, which answers at once, as this process's memory does; nanoseconds per call, median of the rounds
 * with the least and the most. See docs/decisions/0030.
 */
import { ConsecutiveBreaker, circuitBreaker, handleAll } from "cockatiel";
// @ts-expect-error It brings no types.
import CircuitBreaker from "opossum";
import { withBreaker } from "../packages/core/dist/esm/failure/breaker.js";
import { median } from "./lib/numbers.js";

const CALLS = 200_000;
const ROUNDS = 9;

const opossum = new CircuitBreaker(async () => true, { timeout: false });
const cockatiel = circuitBreaker(handleAll, { halfOpenAfter: 200, breaker: new ConsecutiveBreaker(5) });
const check = /** @type {any} */ ({ keys: [] });
const outcome = /** @type {any} */ ({ granted: true });
const next = { decide: (/** @type {any} */ _check, /** @type {any} */ done) => done(undefined, outcome) };
const ours = withBreaker(next, 50, { changed() {}, answered() {} });
const late = () => {};
const done = () => {};

/** @type {Record<string, () => Promise<void>>} */
const subjects = {
  async "a promise alone"() {
    for (let i = 0; i < CALLS; i++) await Promise.resolve(true);
  },
  async opossum() {
    for (let i = 0; i < CALLS; i++) await opossum.fire();
  },
  async cockatiel() {
    for (let i = 0; i < CALLS; i++) await cockatiel.execute(() => true);
  },
  async ours() {
    for (let i = 0; i < CALLS; i++) ours.decide(check, done, late);
  },
};

/** @type {Record<string, number[]>} */
const found = {};
for (let round = 0; round <= ROUNDS; round++) {
  for (const [name, run] of Object.entries(subjects)) {
    const start = process.hrtime.bigint();
    await run();
    // The first round warms up.
    if (round > 0) (found[name] ??= []).push(Number(process.hrtime.bigint() - start) / CALLS);
  }
}
for (const [name, ns] of Object.entries(found)) {
  const [least, most] = [Math.min(...ns), Math.max(...ns)];
  console.log(`${name}: ${median(ns).toFixed(0)} ns (${least.toFixed(0)} to ${most.toFixed(0)})`);
}
opossum.shutdown();
