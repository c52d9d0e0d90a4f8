import { every } from "../timers.ts";
import {
  type ClientDone,
  type ClientState,
  type ClusterClient,
  isRedirection,
  type ScriptClient,
} from "./client.ts";
import { noConnection, prefixed } from "./commands.ts";
import {
  areSame,
  clusterPrefixOf,
  type NodeRedisCluster,
  type NodeRedisLike,
  type Owners,
  ownersBy,
  ownersOf,
  PLAIN,
  tellOf,
  written,
} from "./node-redis-shape.ts";

/** The library tells of few changes; so they are looked for so often, milliseconds. It costs no command. */
const LOOK_MS = 500;

/** A server is asked who has which slots at most so often, milliseconds. */
const REFRESH_MS = 1000;

/** How often a command is sent on, and how long it waits where its keys are on the move, milliseconds. */
const REDIRECTIONS = 5;
const TRY_AGAIN_MS = 10;

/** Whether a slot is on its way to a server that has none yet: the router does not know such a one. */
const isOutOfReach = (error: unknown): boolean =>
  error instanceof Error && error.message.startsWith("Cannot find node ");

const EVENTS = ["connect", "disconnect", "node-connect", "node-ready", "node-disconnect"];

/**
 * An application's own Cluster client, as it is. Commands go to a server's own client; only what a
 * server refused with MOVED, ASK or TRYAGAIN goes through the library's router.
 */
export class SharedCluster implements ClusterClient {
  readonly keyPrefix: string;
  readonly trouble = undefined;
  readonly #cluster: NodeRedisCluster;
  readonly #looking: NodeJS.Timeout;
  readonly #look = () => this.#lookAround();
  readonly #nodes = new Map<string, Node>();
  #changed: () => void = () => {};
  #told: { readonly state: ClientState; readonly owners: Owners };
  #isAsking = false;
  #askedAt = -Infinity;

  constructor(cluster: NodeRedisCluster) {
    this.keyPrefix = clusterPrefixOf(cluster);
    this.#cluster = cluster;
    this.#told = { state: this.state, owners: ownersOf(cluster) };
    for (const event of EVENTS) cluster.on(event, this.#look);
    this.#looking = every(LOOK_MS, this.#look);
  }

  get state(): ClientState {
    if (!this.#cluster.isOpen) return "down";
    return this.#cluster.masters.length > 0 ? "ready" : "connecting";
  }

  onChange(listener: () => void): void {
    this.#changed = listener;
  }

  ownerOf(slot: number): string | undefined {
    return this.#cluster.isOpen ? this.#cluster.slots[slot]?.master.address : undefined;
  }

  primaries(): readonly string[] {
    return this.#cluster.masters.map(({ address }) => address);
  }

  node(address: string): Node {
    const known = this.#nodes.get(address);
    if (known) return known;
    const refresh = () => this.refresh();
    const made = new Node(this.#cluster, address, this.keyPrefix, refresh, () => this.#nodes.delete(address));
    this.#nodes.set(address, made);
    return made;
  }

  /** The library asks only when a server says MOVED, and of one that hangs it hears nothing. */
  refresh(): void {
    if (this.#isAsking || this.state !== "ready" || performance.now() - this.#askedAt < REFRESH_MS) return;
    this.#askedAt = performance.now();
    this.#isAsking = true;
    void this.#ask().then(() => (this.#isAsking = false));
  }

  async close(): Promise<void> {
    this.#changed = () => {};
    clearInterval(this.#looking);
    for (const event of EVENTS) this.#cluster.off(event, this.#look);
    for (const node of this.#nodes.values()) await node.close();
  }

  #lookAround(): void {
    for (const node of this.#nodes.values()) node.look();
    const [state, owners] = [this.state, ownersOf(this.#cluster)];
    if (state === this.#told.state && areSame(owners, this.#told.owners)) return;
    this.#told = { state, owners };
    this.#changed();
  }

  async #ask(): Promise<void> {
    for (const { client } of this.#cluster.masters) {
      const found = client?.isReady && (await ownersBy(asked(client)));
      if (!found) continue;
      if (!areSame(found, ownersOf(this.#cluster))) this.#rediscover(client);
      return;
    }
  }

  /** As the library does after a MOVED. Before that ends it may wait for long for other servers. */
  #rediscover(startWith: NodeRedisLike): void {
    this.#cluster._slots?.rediscover?.(startWith).then(this.#look, this.#look);
  }
}

/** An application's client, asked in plain words. */
const asked = (client: NodeRedisLike): Pick<ScriptClient, "send"> => ({
  send: (command, args, done) => tellOf(client.sendCommand(written(command, args), PLAIN), done),
});

/** One server of a Cluster. The library gives it another client when it had left and came back. */
class Node implements ScriptClient {
  readonly resends = false;
  readonly renew: () => void;
  readonly #cluster: NodeRedisCluster;
  readonly #address: string;
  readonly #prefix: string;
  readonly #closed: () => void;
  #client: NodeRedisLike | undefined;
  #state: ClientState = "connecting";
  #trouble: unknown;
  #listener: () => void = () => {};

  constructor(
    cluster: NodeRedisCluster,
    address: string,
    prefix: string,
    refresh: () => void,
    closed: () => void,
  ) {
    this.#cluster = cluster;
    this.#address = address;
    this.#prefix = prefix;
    this.renew = refresh;
    this.#closed = closed;
    this.look();
  }

  get state(): ClientState {
    return this.#state;
  }

  get trouble(): unknown {
    return this.#trouble;
  }

  onState(listener: () => void): void {
    this.#listener = listener;
  }

  /** Whether the client is still the same. */
  look(): void {
    const server = this.#cluster.nodeByAddress.get(this.#address);
    // Its first command would connect it as well; but the first decision is not to wait for that.
    if (server && !server.client && !server.connectPromise) this.#cluster.nodeClient(server).catch(() => {});
    const client = server?.client;
    if (client === this.#client) return;
    this.#leave();
    this.#client = client;
    client?.on("ready", this.#ready);
    client?.on("error", this.#lost);
    client?.on("end", this.#lost);
    if (client?.isReady) this.#ready();
    else if (this.#state === "ready") this.#lost();
  }

  send(command: string, args: readonly (string | number)[], done: ClientDone): void {
    const client = this.#client;
    // The library would queue it, to be carried out long after anybody waits for it.
    if (!client?.isReady) return done(noConnection(), undefined);
    const words = prefixed(this.#prefix, command, args);
    asked(client).send(command, words, (error, reply) => {
      if (isRedirection(error)) this.#sendOn(command, words, done, REDIRECTIONS);
      else done(error, reply);
    });
  }

  async close(): Promise<void> {
    this.#listener = () => {};
    this.#leave();
    this.#client = undefined;
    this.#state = "down";
    this.#closed();
  }

  /** Through the library's router, which follows MOVED and ASK, but not TRYAGAIN. */
  #sendOn(command: string, words: readonly (string | number)[], done: ClientDone, left: number): void {
    const sent = this.#cluster.sendCommand(String(words[2]), false, written(command, words), PLAIN);
    tellOf(sent, (error, reply) => {
      const failure = isOutOfReach(error) ? new Error("TRYAGAIN") : error;
      if (left === 0 || !isRedirection(failure)) return done(failure, reply, true);
      setTimeout(() => this.#sendOn(command, words, done, left - 1), TRY_AGAIN_MS);
    });
  }

  readonly #ready = () => {
    this.#trouble = undefined;
    this.#state = "ready";
    this.#listener();
  };

  readonly #lost = (error?: unknown) => {
    // An error need not be the end of a connection.
    if (this.#client?.isReady) return;
    this.#trouble = error;
    if (this.#state === "down") return;
    this.#state = "down";
    this.#listener();
  };

  #leave(): void {
    this.#client?.off("ready", this.#ready);
    this.#client?.off("error", this.#lost);
    this.#client?.off("end", this.#lost);
  }
}
