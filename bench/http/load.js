/** Requests from a process of its own: as many connections as identities, each waiting for one answer at a time. */
import autocannon from "autocannon";
import { answerQuestions } from "../lib/child.js";

/** @typedef {{ port: number, ms: number }} Order */
/**
 * @typedef {object} Load
 * @property {number} ms how long it really took
 * @property {Record<string, number>} statuses answers by status
 * @property {number} unanswered errors and timeouts
 */

const CONNECTIONS = 50;

answerQuestions(async (/** @type {Order} */ { port, ms }) => {
  let identities = 0;
  const result = await autocannon({
    url: `http://127.0.0.1:${port}/`,
    connections: CONNECTIONS,
    duration: ms / 1000,
    // It ends with one of these, milliseconds.
    sampleInt: 100,
    setupClient: (client) => client.setHeaders({ "x-id": `u${identities++}` }),
  });
  const statuses = Object.entries(result.statusCodeStats ?? {});
  return /** @type {Load} */ ({
    ms: result.finish.getTime() - result.start.getTime(),
    statuses: Object.fromEntries(statuses.map(([status, { count }]) => [status, count])),
    unanswered: result.errors + result.timeouts,
  });
});
