import { every } from "../timers.ts";
import type { ClientState, ClusterClient } from "./client.ts";
import { OwnNode } from "./node-redis-cluster-node.ts";
import { SharedCluster } from "./node-redis-cluster-shared.ts";
import { type NodeRedisOptions, OwnConnection } from "./node-redis.ts";
import {
  areSame,
  clusterPrefixOf,
  type NodeRedisCluster,
  type NodeRedisLike,
  type Owners,
  oursOver,
  ownersBy,
  ownersOf,
  primariesIn,
} from "./node-redis-shape.ts";

/** How often who has which slots is asked while that is not known, milliseconds; else half as often. */
const LOOK_MS = 500;

/** It is asked at most so often, milliseconds. */
const REFRESH_MS = 250;

/** How long a server that the application named may say nothing, milliseconds. */
const SILENT_MS = 1500;

/** How long the connection to a server that has no slots yet is kept after its last use, milliseconds. */
const SPARE_MS = 10_000;

/**
 * Connections of our own to the Cluster of a client of node-redis, which stays untouched; or that
 * client itself. Neither sends a command twice.
 *
 * The library learns who has which slots only when a server says MOVED, and then waits until it is
 * connected to all of them: of a primary that hangs, it would learn nothing. Ours makes clients with
 * it, and asks and follows redirections by itself.
 *
 * @throws ConfigError when the client's keyPrefix has braces
 */
export function nodeRedisCluster(
  cluster: NodeRedisCluster,
  { share = false }: NodeRedisOptions = {},
): ClusterClient {
  return share ? new SharedCluster(cluster) : new OwnCluster(cluster);
}

class OwnCluster implements ClusterClient {
  readonly keyPrefix: string;
  readonly #cluster: NodeRedisCluster;
  readonly #looking: NodeJS.Timeout;
  readonly #nodes = new Map<string, OwnNode>();
  #owners: Owners = [];
  #state: ClientState = "connecting";
  #trouble: unknown;
  #changed: () => void = () => {};
  #isAsking = false;
  #isWanted = false;
  #isClosed = false;
  #askedAt = -Infinity;
  #looks = 0;

  constructor(given: NodeRedisCluster) {
    this.keyPrefix = clusterPrefixOf(given);
    this.#cluster = duplicateOf(given);
    // Of every server that could not be asked. Without a listener it would be thrown.
    this.#cluster.on("error", (error) => (this.#trouble = error));
    this.#looking = every(LOOK_MS, () => this.#look());
    this.#learn();
  }

  get state(): ClientState {
    return this.#state;
  }

  get trouble(): unknown {
    return this.#trouble;
  }

  onChange(listener: () => void): void {
    this.#changed = listener;
  }

  ownerOf(slot: number): string | undefined {
    return this.#state === "ready" ? this.#owners[slot] : undefined;
  }

  primaries(): readonly string[] {
    return primariesIn(this.#owners);
  }

  node(address: string): OwnNode {
    const node = this.#nodeAt(address);
    node.isSpare = false;
    return node;
  }

  refresh(): void {
    this.#isWanted = true;
    if (performance.now() - this.#askedAt >= REFRESH_MS) this.#learn();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#changed = () => {};
    clearInterval(this.#looking);
    for (const node of this.#nodes.values()) await node.close();
    if (this.#cluster.isOpen) this.#cluster.destroy();
  }

  #look(): void {
    if (this.#state !== "ready" || this.#isWanted || ++this.#looks % 2 === 0) this.#learn();
  }

  #learn(): void {
    if (this.#isAsking || this.#isClosed) return;
    this.#isAsking = true;
    this.#isWanted = false;
    this.#askedAt = performance.now();
    void this.#ask().then((found) => {
      this.#isAsking = false;
      if (!this.#isClosed) this.#learned(found);
    });
  }

  /** Any server that we are connected to knows; else one of those that the application named. */
  async #ask(): Promise<Owners | undefined> {
    const ready = [...this.#nodes.values()].filter((node) => node.state === "ready");
    for (const node of turned(ready)) {
      const found = await ownersBy(node);
      if (found || this.#isClosed) return found;
    }
    try {
      await this.#cluster.connect();
      return ownersOf(this.#cluster);
    } catch {
      return undefined; // Why, has been told as an event.
    } finally {
      if (this.#cluster.isOpen) this.#cluster.destroy();
    }
  }

  #learned(found: Owners | undefined): void {
    this.#dropSpares();
    const isNews = found
      ? this.#state !== "ready" || !areSame(found, this.#owners)
      : this.#state === "connecting";
    if (found) this.#trouble = undefined;
    if (!isNews) return;
    this.#owners = found ?? [];
    this.#state = found ? "ready" : "down";
    this.#changed();
  }

  #dropSpares(): void {
    const now = performance.now();
    for (const node of this.#nodes.values())
      if (node.isSpare && now - node.usedAt > SPARE_MS) void node.close();
  }

  #nodeAt(address: string): OwnNode {
    const known = this.#nodes.get(address);
    if (known) return known;
    const line = new OwnConnection(() => clientFor(this.#cluster, address), this.keyPrefix);
    const made = new OwnNode(line, {
      nodeAt: (other) => this.#nodeAt(other),
      refresh: () => this.refresh(),
      closed: () => this.#nodes.delete(address),
    });
    this.#nodes.set(address, made);
    return made;
  }
}

/** A Cluster client with the same servers and credentials, and our settings. It keeps no connection. */
function duplicateOf(given: NodeRedisCluster): NodeRedisCluster {
  const { rootNodes, defaults } = given._options;
  // What stands with a server goes before the defaults; and the library writes into it.
  const named = rootNodes.map((root) => {
    const ours = oursOver(root);
    return { ...ours, socket: { ...ours.socket, socketTimeout: SILENT_MS } };
  });
  return given.duplicate({
    rootNodes: named,
    defaults: oursOver(defaults),
    minimizeConnections: true,
    useReplicas: false,
    clientSideCache: undefined,
    topologyRefreshOnReconnectionAttemptStrategy: false,
  });
}

/** The library makes a client for whatever server it is given, with the application's defaults and map of addresses. */
function clientFor(cluster: NodeRedisCluster, address: string): NodeRedisLike {
  const colon = address.lastIndexOf(":");
  const [host, port] = [address.slice(0, colon), Number(address.slice(colon + 1))];
  const server = { address, host, port, readonly: false, client: undefined };
  cluster.nodeClient(server).catch(() => {});
  return server.client!;
}

/** From anywhere on, and round. */
function turned<T>(items: readonly T[]): T[] {
  const start = Math.floor(Math.random() * items.length);
  return [...items.slice(start), ...items.slice(0, start)];
}
