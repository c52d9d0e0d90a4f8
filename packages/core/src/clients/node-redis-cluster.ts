import { every } from "../timers.ts";
import {
  type ClientDone,
  type ClientState,
  type ClusterClient,
  isRedirection,
  type ScriptClient,
} from "./client.ts";
import { SharedCluster } from "./node-redis-cluster-shared.ts";
import { type NodeRedisOptions, OwnConnection } from "./node-redis.ts";
import {
  areSame,
  clusterPrefixOf,
  noConnection,
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

/** How often a command is sent on, and how long it waits where its keys are on the move, milliseconds. */
const REDIRECTIONS = 5;
const TRY_AGAIN_MS = 10;

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
  readonly #nodes = new Map<string, Node>();
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

  node(address: string): Node {
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

  #nodeAt(address: string): Node {
    const known = this.#nodes.get(address);
    if (known) return known;
    const line = new OwnConnection(() => clientFor(this.#cluster, address), this.keyPrefix);
    const made = new Node(line, {
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

interface Hub {
  nodeAt(address: string): Node;
  refresh(): void;
  closed(): void;
}

/** One server of a Cluster. */
class Node implements ScriptClient {
  readonly resends = false;
  readonly renew: () => void;
  /** Whether it is only here as others have sent something on to it. */
  isSpare = true;
  usedAt = performance.now();
  readonly #line: ScriptClient;
  readonly #hub: Hub;
  #waiting: (() => void)[] = [];
  #listener: () => void = () => {};

  constructor(line: ScriptClient, hub: Hub) {
    this.#line = line;
    this.#hub = hub;
    this.renew = () => hub.refresh();
    line.onState(() => {
      this.#goOn();
      this.#listener();
    });
  }

  get state(): ClientState {
    return this.#line.state;
  }

  get trouble(): unknown {
    return this.#line.trouble;
  }

  onState(listener: () => void): void {
    this.#listener = listener;
  }

  send(command: string, args: readonly (string | number)[], done: ClientDone): void {
    this.#line.send(command, args, this.#followed(this, command, args, done, REDIRECTIONS));
  }

  async close(): Promise<void> {
    this.#listener = () => {};
    this.#hub.closed();
    await this.#line.close();
    this.#goOn();
  }

  /** What a server refuses with MOVED, ASK or TRYAGAIN it has not executed. @param by the one that answers */
  #followed(
    by: Node,
    command: string,
    args: readonly (string | number)[],
    done: ClientDone,
    left: number,
  ): ClientDone {
    return (error, reply) => {
      if (left === 0 || !isRedirection(error)) return done(error, reply, by !== this);
      const [kind, , address = ""] = (error as Error).message.split(" ");
      const sendTo = (next: Node) =>
        next.#take(kind === "ASK", command, args, this.#followed(next, command, args, done, left - 1));
      if (kind === "TRYAGAIN") return void setTimeout(sendTo, TRY_AGAIN_MS, this);
      if (kind === "MOVED") this.#hub.refresh();
      sendTo(this.#hub.nodeAt(address));
    };
  }

  /** Carries out what another server has sent here. It may be new, and not be connected yet. */
  #take(isAsked: boolean, command: string, args: readonly (string | number)[], done: ClientDone): void {
    this.usedAt = performance.now();
    if (this.state === "connecting")
      return void this.#waiting.push(() => this.#take(isAsked, command, args, done));
    if (this.state === "down") return done(noConnection(), undefined);
    // It holds for the next command only, and nothing comes between.
    if (isAsked) this.#line.send("asking", [], () => {});
    this.#line.send(command, args, done);
  }

  #goOn(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const go of waiting) go();
  }
}

/** From anywhere on, and round. */
function turned<T>(items: readonly T[]): T[] {
  const start = Math.floor(Math.random() * items.length);
  return [...items.slice(start), ...items.slice(0, start)];
}
