/** Whether a server is one on which limits can be kept, and keeps them now. */
import { errorIn, type Fields, numberIn, replyOf } from "../ask.ts";
import type { Facts } from "../facts.ts";
import { type Found, found, well } from "../finding.ts";
import { countText } from "../text.ts";

export interface Version {
  /** As it calls itself: `Redis`, `Valkey`. */
  readonly name: string;
  readonly version: string;
}

/** Out of INFO. Valkey tells its own version beside that of the Redis it stands for. */
export function versionIn(info: Fields | undefined): Version | undefined {
  const redis = info?.get("redis_version");
  const valkey = info?.get("valkey_version");
  if (valkey !== undefined) return { name: "Valkey", version: valkey };
  if (redis === undefined) return undefined;
  const name = info?.get("server_name") ?? "Redis";
  return { name: name === "redis" ? "Redis" : name, version: redis };
}

const NEEDED = "Redis 7.0 or Valkey 7.2, or newer";

/** The scripts need what came with Redis 7.0. The first Valkey was 7.2. */
export function versionFound(info: Fields | undefined): Found[] {
  if (info === undefined) return [];
  const told = versionIn(info);
  if (!told) return [found("VERSION", "notice", "The server tells no version.", `It has to be ${NEEDED}.`)];
  const text = `${told.name} ${told.version}`;
  if (Number.parseInt(told.version, 10) >= 7) return [well("VERSION", `It is ${text}.`, { ...told })];
  const message = `It is ${text}, which cannot run the scripts: every decision is the failure rule's.`;
  return [found("VERSION", "must", message, `Use ${NEEDED}.`, { ...told })];
}

/** Whether it is what it was taken for: a server, or one of a Cluster. */
export function topologyFound({ info, cluster }: Facts, inCluster: boolean): Found[] {
  const fields = replyOf(info);
  const mode = fields?.get("redis_mode") ?? fields?.get("server_mode");
  if (mode === "sentinel") {
    const advice = 'Give a client that asks the sentinels: new Redis({ sentinels: […], name: "…" }).';
    return [found("TOPOLOGY", "must", "It is a sentinel, which keeps no limits.", advice, { mode })];
  }
  if (!inCluster && mode === "cluster") return [aloneFound(replyOf(cluster))];
  return mode === undefined ? [] : [well("TOPOLOGY", `Its mode is ${mode}.`, { mode })];
}

const SLOTS = 16_384;

/** @param told what a server of a Cluster says that is given as if it were the only one; which it may be */
function aloneFound(told: Fields | undefined): Found {
  const primaries = numberIn(told, "cluster_size") ?? 0;
  const value = { mode: "cluster", primaries };
  // A server that has never had a slot counts one primary.
  if (primaries === 1 && numberIn(told, "cluster_slots_assigned") === SLOTS)
    return well("TOPOLOGY", "It is the only primary of a Cluster.", value);
  const others = primaries > 1 ? `the ${countText(primaries - 1, "other server")}` : "other servers";
  const message = `It is one server of a Cluster: identities of ${others} get no decision.`;
  const advice = "Give a client of the Cluster as redis: new Cluster([{ host, port }]).";
  return found("TOPOLOGY", "must", message, advice, value);
}

/** Whether it takes writes. */
export function replicaFound({ info, runs }: Facts): Found[] {
  const fields = replyOf(info);
  const role = fields?.get("role");
  const refused = runs.some((run) => errorIn(run)?.reason === "readonly");
  if (role !== "slave" && !refused) return role === undefined ? [] : [well("REPLICA", "It is a primary.")];
  const host = fields?.get("master_host");
  const primary = host === undefined ? undefined : `${host}:${fields?.get("master_port")}`;
  const message = "It is a replica and takes no writes: every decision is the failure rule's.";
  const advice = `Let redis lead to the primary${primary ? `, ${primary}` : ""}.`;
  return [found("REPLICA", "must", message, advice, { primary })];
}

/** What to do about a server's own word for why it cannot decide. */
const ADVICE: Readonly<Record<string, string>> = {
  LOADING: "Wait until it has loaded its data: INFO persistence tells how far it is.",
  BUSY: "A script runs for too long, and none of ours does. SCRIPT KILL ends it unless it has written; find out whose it is.",
  MASTERDOWN: "It is a replica that has lost its primary: let redis lead to the primary.",
  CLUSTERDOWN: "See what CLUSTER INFO and CLUSTER NODES say of servers that failed and of slots without one.",
  MISCONF:
    "It cannot save its data: make room on its disk, and see its log. Or CONFIG SET stop-writes-on-bgsave-error no.",
  NOREPLICAS: "Bring its replicas back, or lower min-replicas-to-write.",
  OOM: "Raise maxmemory.",
};

/** The word of a server, or of Node, in a store's error. */
export const wordOf = (message: string): string | undefined => /\((\w+)[,)]/.exec(message)?.[1];

/** Whether the shipped scripts run on it, whatever the user may. */
export function readyFound({ runs, info }: Facts): Found[] {
  const error = [...runs, info].map(errorIn).find((each) => each && !JUDGED_ELSEWHERE.has(each.reason));
  if (!error)
    return runs.length > 0 && runs.every((run) => !errorIn(run))
      ? [well("READY", "It runs the scripts.")]
      : [];
  if (error.reason === "timeout" || error.reason === "connection") return [];
  return [notReady(error.message)];
}

/** @param message of a store's error */
export function notReady(message: string): Found {
  const word = wordOf(message);
  const advice =
    (word && ADVICE[word]) ?? "See the server's log, and what it is: a proxy may stand before it.";
  return found("READY", "must", `It does not decide: ${message}.`, advice, { word });
}

const JUDGED_ELSEWHERE: ReadonlySet<string> = new Set(["denied", "readonly"]);
