/** A Cluster of our own: primaries on loopback, each with an equal share of the slots, without replicas. */
import { freePort, startRedis } from "./redis.js";

/** @typedef {import("./redis.js").Server} Server */
/** @typedef {Awaited<ReturnType<typeof startCluster>>} RunningCluster */

const HOST = "127.0.0.1";
const SLOTS = 16384;
const PATIENCE_MS = 30_000;

/** @param {number} size */
export async function startCluster(size) {
  /** @type {Server[]} */
  const servers = [];
  const stop = async () => void (await Promise.all(servers.map((server) => server.stop())));
  try {
    /** @type {number[]} */
    const busPorts = [];
    for (let i = 0; i < size; i++) {
      busPorts.push(await freePort());
      servers.push(await startRedis(["--cluster-enabled", "yes", "--cluster-port", String(busPorts[i])]));
    }
    await Promise.all(servers.map((server, i) => giveShare(server, i, size)));
    for (const { control } of servers)
      await Promise.all(
        servers.map(({ port }, i) => control.call("CLUSTER", "MEET", HOST, port, String(busPorts[i]))),
      );
    await untilWell(servers);
  } catch (error) {
    await stop();
    throw error;
  }
  return { servers, nodes: servers.map(({ port }) => ({ host: HOST, port })), stop };
}

/**
 * The i-th of `size` equal shares. Numbers that are given need not be agreed on later.
 *
 * @param {Server} server
 * @param {number} i
 * @param {number} size
 */
async function giveShare({ control }, i, size) {
  const first = (/** @type {number} */ share) => Math.floor((share * SLOTS) / size);
  await control.call("CLUSTER", "SET-CONFIG-EPOCH", i + 1);
  await control.call("CLUSTER", "ADDSLOTSRANGE", first(i), first(i + 1) - 1);
}

/** @param {Server[]} servers */
async function untilWell(servers) {
  const end = Date.now() + PATIENCE_MS;
  while (!(await Promise.all(servers.map((server) => isWell(server, servers.length)))).every(Boolean)) {
    if (Date.now() > end) throw new Error("the servers do not become a Cluster");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/**
 * Whether a server knows who has each slot.
 *
 * @param {Server} server
 * @param {number} size
 */
async function isWell({ control }, size) {
  const info = String(await control.call("CLUSTER", "INFO"));
  const owners = /** @type {unknown[]} */ (await control.call("CLUSTER", "SLOTS"));
  return info.includes("cluster_state:ok") && owners.length === size;
}
