/** An open loop of requests, each by a visitor of its own: what one waits for keeps no other. */
import { Agent, get } from "node:http";

/**
 * @typedef {object} Visit
 * @property {string} id
 * @property {number} at when it was sent, ms of `performance.now()`
 * @property {number} late how long after its time it was sent, ms: that is the machine's doing
 * @property {number | undefined} ms until it was answered; `undefined`: not yet
 * @property {number | undefined} status 0: the connection broke
 */

/** 100 a second. */
const EVERY_MS = 10;
const LOOK_MS = 20;

/** @param {number} port */
export function beginVisits(port) {
  const agent = new Agent({ keepAlive: true });
  /** @type {Visit[]} */
  const visits = [];
  let due = performance.now();

  function send() {
    const now = performance.now();
    for (; due <= now; due += EVERY_MS)
      visits.push(visit(port, agent, `visitor-${visits.length}`, now - due));
  }
  const timer = setInterval(send, EVERY_MS);

  return {
    visits,
    stop: () => clearInterval(timer),
    /** Waits until all are answered, or until this moment. */
    async answered(/** @type {number} */ until) {
      while (visits.some(({ ms }) => ms === undefined) && performance.now() < until) await sleep(LOOK_MS);
    },
    close: () => agent.destroy(),
  };
}

/**
 * @param {number} port
 * @param {Agent} agent
 * @param {string} id
 * @param {number} late
 */
function visit(port, agent, id, late) {
  const at = performance.now();
  /** @type {Visit} */
  const made = { id, at, late, ms: undefined, status: undefined };
  const end = (/** @type {number | undefined} */ status) => {
    made.ms ??= performance.now() - at;
    made.status ??= status ?? 0;
  };
  const request = get({ port, host: "127.0.0.1", agent, headers: { "x-id": id } }, (response) => {
    response.resume();
    response.once("close", () => end(response.complete ? response.statusCode : 0));
  });
  request.once("error", () => end(0));
  return made;
}

/** @param {number} ms */
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
