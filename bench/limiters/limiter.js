/**
 * One way to decide, as an application would call it, without HTTP.
 *
 * @typedef {object} Limiter
 * @property {string} name what `--only` says; `<what>:<how>` for a variant
 * @property {string} title what the tables say
 * @property {() => Promise<{ open: Open }>} load its module: a process loads no library but its own
 * @property {boolean} [baseline] always measured, so that there are ratios
 * @property {string[]} [commands] what a decision sends, where that is no script
 *
 * @typedef {(name: string, target: Target, limit: Limit) => Promise<Opened>} Open
 *
 * @typedef {object} Opened
 * @property {(identity: string) => Promise<unknown>} ask takes one unit
 * @property {(answer: any) => Verdict} read what `ask` gave
 * @property {(reason: unknown) => Verdict} [failed] what it failed with, where a refusal is a failure
 * @property {() => unknown} close
 *
 * @typedef {"allowed" | "refused" | "degraded"} Verdict `degraded`: answered without Redis
 *
 * Where Redis is: one server, or servers of a Cluster.
 * @typedef {{ url: string } | { nodes: { host: string, port: number }[] }} Target
 *
 * @typedef {object} Limit
 * @property {number} limit units per window
 * @property {number} windowMs
 */
import { Cluster, Redis } from "ioredis";

/**
 * ioredis as it comes, once it can be asked.
 *
 * @param {Target} target
 * @param {{ enableAutoPipelining?: boolean }} [options]
 * @returns {Promise<Redis | Cluster>}
 */
export async function connected(target, options = {}) {
  const client = "url" in target ? new Redis(target.url, options) : new Cluster(target.nodes, options);
  await new Promise((resolve, reject) => client.once("ready", resolve).once("error", reject));
  return client;
}

/** How long a bucket takes from empty to full: one that is full again is a key that goes. Six years. */
export const SLOW_S = 200_000_000;

/**
 * @param {boolean} isAllowed
 * @returns {Verdict}
 */
export const verdict = (isAllowed) => (isAllowed ? "allowed" : "refused");
