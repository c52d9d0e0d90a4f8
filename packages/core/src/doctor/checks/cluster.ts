/** Whether a Cluster is well as a whole. */
import type { ClusterClient } from "../../clients/client.ts";
import { type Fields, numberIn, replyOf } from "../ask.ts";
import type { Facts } from "../facts.ts";
import { type Found, found, well } from "../finding.ts";
import { countText, listText, numberText } from "../text.ts";

const SLOTS = 16_384;

/** Slots that the client knows nobody to have. */
export function slotsWithout(cluster: Pick<ClusterClient, "ownerOf">): number {
  const owners = Array.from({ length: SLOTS }, (_, slot) => cluster.ownerOf(slot));
  return owners.filter((owner) => owner === undefined).length;
}

/**
 * @param uncovered slots that nobody has
 * @param told CLUSTER INFO, of each server that may be asked
 */
export function clusterFound(uncovered: number, told: readonly Fields[]): Found[] {
  const failing = told.filter((fields) => fields.get("cluster_state") === "fail").length;
  const down = Math.max(uncovered, ...told.map((fields) => numberIn(fields, "cluster_slots_fail") ?? 0));
  const value = { uncovered: down, failing, servers: told.length };
  if (failing === 0 && down === 0)
    return [well("CLUSTER", `All ${numberText(SLOTS)} slots have a server.`, value)];
  const signs = [
    `${countText(down, "slot")} of ${numberText(SLOTS)} ${down === 1 ? "has" : "have"} no server that answers`,
    `cluster_state is fail, as ${failing} of ${told.length} tell`,
  ].filter((_, i) => (i === 0 ? down : failing) > 0);
  const message = `${listText(signs)}: identities there get no decision.`;
  const advice =
    "redis-cli --cluster check HOST:PORT tells which; bring the server back, fail over to a replica of it, or give its slots to others (redis-cli --cluster fix).";
  return [found("CLUSTER", "must", message, advice, value)];
}

/** Primaries whose slots nobody could take over. */
export function replicasFound(all: readonly Facts[]): Found[] {
  const counts = all.map(({ address, info }) => ({
    address,
    replicas: numberIn(replyOf(info), "connected_slaves"),
  }));
  const alone = counts.filter(({ replicas }) => replicas === 0).map(({ address }) => address);
  if (counts.some(({ replicas }) => replicas === undefined) && alone.length === 0) return [];
  const value = { alone };
  if (alone.length === 0) return [well("REPLICAS", "Every primary has a replica.", value)];
  const message = `${listText(alone)} ${alone.length === 1 ? "has" : "have"} no replica: when one dies, its identities get no decision until it is back.`;
  const advice = "redis-cli --cluster add-node HOST:PORT EXISTING:PORT --cluster-slave gives it one.";
  return [found("REPLICAS", "notice", message, advice, value)];
}
