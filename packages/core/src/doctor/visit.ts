import { setTimeout as sleep } from "node:timers/promises";
import slotOfKey from "cluster-key-slot";
import type { ClientState, ClusterClient, ScriptClient } from "../clients/client.ts";
import { connectionOf, type RedisInput } from "../clients/connection.ts";
import { StoreError } from "../errors.ts";
import { type Failure, failed } from "./ask.ts";
import { msText } from "./text.ts";
import { addressIn, clusterIn, prefixIn, toldBy } from "./where.ts";

/** A connection to the server, or to the servers of a Cluster, for as long as the doctor looks. */
export interface Visit {
  readonly servers: readonly Visited[];
  readonly cluster: ClusterClient | undefined;
  /** Why there is no Cluster to look at. There are no servers then. */
  readonly trouble: Failure | undefined;
  /** What was to be reached, without credentials. */
  readonly address: string;
  /** The number of the database that is asked for; 0 where none is. */
  readonly database: number;
  /** What the client puts before every key, as far as it tells. */
  readonly keyPrefix: string;
  close(): Promise<void>;
}

export interface Visited {
  readonly address: string;
  readonly client: ScriptClient;
  /** Why there is no connection to this server. */
  readonly trouble: Failure | undefined;
  /** A key of this server's, that nobody uses, ending in this; `undefined`: no slot of its own was found. */
  keyFor(ending: string): string | undefined;
}

/** How often it is looked whether a connection is there. A client's one listener may be a limiter's. */
const LOOK_MS = 5;

/**
 * Connects, or says why that did not come about, within twice `answerMs`.
 *
 * @throws ConfigError when `redis` is nothing that we know
 */
export async function visit(redis: RedisInput, prefix: string, answerMs: number): Promise<Visit> {
  const connection = connectionOf(redis, { share: false });
  const client = "cluster" in connection ? connection.cluster : connection.client;
  const told = toldBy(redis);
  const found =
    "cluster" in connection
      ? await visitCluster(connection.cluster, prefix, answerMs)
      : { servers: [await visitServer(connection.client, addressIn(told), prefix, answerMs)] };
  return {
    cluster: undefined,
    trouble: undefined,
    ...found,
    address: "cluster" in connection ? clusterIn(redis) : addressIn(told),
    database: told.db ?? told.database ?? 0,
    keyPrefix: prefixIn(told),
    // An implementation of our contract is another's, and in use.
    close: async () => void (client !== redis && (await client.close())),
  };
}

async function visitServer(
  client: ScriptClient,
  address: string,
  prefix: string,
  answerMs: number,
): Promise<Visited> {
  const trouble = await troubleOf(client, answerMs);
  return { address, client, trouble, keyFor: (ending) => keyOf(prefix, 0, ending) };
}

async function visitCluster(cluster: ClusterClient, prefix: string, answerMs: number) {
  const trouble = await troubleOf(cluster, answerMs);
  const servers = (trouble ? [] : cluster.primaries()).map(async (address): Promise<Visited> => {
    const server = await visitServer(cluster.node(address), address, prefix, answerMs);
    return { ...server, keyFor: (ending) => keyAt(cluster, address, prefix, ending) };
  });
  return { cluster, trouble, servers: await Promise.all(servers) };
}

/** Waits for a connection; gives what stands in its way. */
async function troubleOf(
  client: { readonly state: ClientState; readonly trouble: unknown },
  answerMs: number,
): Promise<Failure | undefined> {
  const end = performance.now() + answerMs;
  while (client.state !== "ready") {
    const over = performance.now() > end;
    if (client.trouble !== undefined && (over || client.state === "down"))
      return failed(causeOf(client.trouble));
    if (over) return failed(new StoreError("timeout", `there was no connection within ${msText(answerMs)}`));
    await sleep(LOOK_MS);
  }
  return undefined;
}

/** What a client of a Cluster says of its last server, where it only says that all failed. */
const causeOf = (trouble: unknown): unknown =>
  (trouble as { lastNodeError?: unknown } | null)?.lastNodeError ?? trouble;

/** A name that no policy can have: what is done to it meets nobody's counts. */
const keyOf = (prefix: string, n: number, ending: string): string => `${prefix}:{id:doctor-${n}}::${ending}`;

/** Tries for a key in one of a server's slots. It may have few of the 16,384. */
const MOST_TRIES = 200_000;

function keyAt(cluster: ClusterClient, address: string, prefix: string, ending: string): string | undefined {
  for (let n = 0; n < MOST_TRIES; n++) {
    const key = keyOf(prefix, n, ending);
    if (cluster.ownerOf(slotOfKey(cluster.keyPrefix + key)) === address) return key;
  }
  return undefined;
}
