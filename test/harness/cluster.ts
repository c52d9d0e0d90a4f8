/** A real Cluster of the test's own, on loopback. Everything it tells is asked from its nodes at that moment. */
import { eventually } from "./eventually.ts";
import { freePort, type RedisServer, type StartOptions, startRedis } from "./redis.ts";

export interface ClusterOptions extends Omit<StartOptions, "port"> {
  primaries?: number;
  /** Of each primary. */
  replicas?: 0 | 1;
  /** After so long without a word from a node, the others hold it for failed. */
  nodeTimeoutMs?: number;
  /** Whether all slots are refused while some have no primary, as Redis does by default. */
  fullCoverage?: boolean;
}

export interface ClusterNode extends RedisServer {
  readonly id: string;
  readonly host: string;
  /** What it holds itself for. */
  role(): Promise<"primary" | "replica">;
}

export interface TestCluster {
  /** All that have not been removed, also those that were killed: at first primaries in the order of their slots, then their replicas. */
  readonly nodes: readonly ClusterNode[];
  readonly urls: readonly string[];
  readonly startupNodes: readonly { host: string; port: number }[];
  primaries(): Promise<ClusterNode[]>;
  replicas(): Promise<ClusterNode[]>;
  slotOf(key: string): number;
  primaryOf(key: string): Promise<ClusterNode>;
  replicaOf(primary: ClusterNode): Promise<ClusterNode>;
  /** Starts one more, which all the others know. It has no slots yet. */
  addPrimary(): Promise<ClusterNode>;
  /** Moves slots, these or the first so many, key by key, while clients work. Gives which. */
  moveSlots(from: ClusterNode, to: ClusterNode, which: number | readonly number[]): Promise<number[]>;
  /** Waits until another node has this one's slots, and all that live agree. Gives that node. */
  failedOver(node: ClusterNode): Promise<ClusterNode>;
  /** Waits until all nodes that live say the same of each other, and that the Cluster is well. */
  agreed(): Promise<void>;
  /** Stops a node after the others have forgotten it. It must have no slots and no replicas. */
  removeNode(node: ClusterNode): Promise<void>;
  eachPrimary<T>(fn: (node: ClusterNode) => Promise<T>): Promise<T[]>;
  stop(): Promise<void>;
}

/** A node, and what the test has done to it. */
interface Member extends ClusterNode {
  readonly shard: number;
  readonly busPort: number;
  /** Whether it can answer: a question to one that cannot would wait for ever. */
  lives: boolean;
}

/** A node, as a node sees it. */
interface Sight {
  readonly id: string;
  readonly isMyself: boolean;
  readonly isPrimary: boolean;
  readonly primaryId: string;
  /** Of two that claim a slot, the one with the higher number has it. */
  readonly epoch: number;
  /** First and last slot of each run. */
  readonly runs: readonly (readonly [number, number])[];
}

const HOST = "127.0.0.1";
const SLOTS = 16384;

/** What takes nodes a few seconds takes longer on a busy machine. */
const PATIENCE_MS = 30_000;

/** How many slots are on the move at a time: each takes many round trips, which are long under load. */
const AT_ONCE = 10;

/** How many keys of a slot go at once: both servers do nothing else meanwhile. */
const BATCH = 100;

export async function startClusterOf({
  primaries = 3,
  replicas = 0,
  nodeTimeoutMs = 1500,
  fullCoverage = true,
  args = [],
  ...options
}: ClusterOptions = {}): Promise<TestCluster> {
  const members: Member[] = [];
  let shards = primaries;
  const settings = [
    ["--cluster-enabled", "yes"],
    ["--cluster-node-timeout", String(nodeTimeoutMs)],
    ["--cluster-announce-ip", HOST],
    ["--cluster-require-full-coverage", fullCoverage ? "yes" : "no"],
    ["--cluster-allow-replica-migration", "no"], // A replica stays in the shard it was made for.
    ["--repl-diskless-sync-delay", "0"],
    // A replica that has heard nothing from its primary is in no client's list.
    ["--repl-ping-replica-period", "1"],
  ].flat();
  const start = async (shard: number) => {
    const member = await startMember(shard, { ...options, args: [...settings, ...args] });
    members.push(member);
    return member;
  };
  const live = () => members.filter(({ lives }) => lives);
  const ownSights = () => Promise.all(live().map(async (node) => ({ node, sight: await mySight(node) })));
  const ofRole = async (isPrimary: boolean) =>
    (await ownSights()).filter(({ sight }) => sight.isPrimary === isPrimary).map(({ node }) => node);

  const agreed = () => eventually("all nodes of the Cluster agree", async () => agree(live()), PATIENCE_MS);

  /** Every node meets every other: waiting for hearsay takes longer. */
  const meet = (newcomers: readonly Member[]) =>
    Promise.all(
      newcomers.flatMap((a, i) =>
        [...members.filter((b) => b.lives && !newcomers.includes(b)), ...newcomers.slice(i + 1)].map((b) =>
          a.client.call("CLUSTER", "MEET", HOST, b.port, b.busPort),
        ),
      ),
    );

  async function build(): Promise<void> {
    const roles = Array.from({ length: primaries * (1 + replicas) }, (_, i) => i % primaries);
    const all = await Promise.all(roles.map(start));
    members.sort((a, b) => all.indexOf(a) - all.indexOf(b));
    await Promise.all(all.slice(0, primaries).map((node, i) => giveSlots(node, i, primaries)));
    await meet(all);
    await Promise.all(all.slice(primaries).map((node) => follow(node, all[node.shard]!)));
    await agreed();
  }

  async function failedOver(node: ClusterNode): Promise<ClusterNode> {
    const { shard } = members.find(({ id }) => id === node.id)!;
    if (!live().some((other) => other.shard === shard && other.id !== node.id))
      throw new Error(`nobody lives who could take over from port ${node.port}`);
    let heir: ClusterNode | undefined;
    await eventually(
      `another node takes over from port ${node.port}`,
      async () => {
        const claims = (await ownSights()).filter((claim) => claim.node.shard === shard);
        heir = claims.find(({ node: { id }, sight }) => id !== node.id && sight.runs.length > 0)?.node;
        return heir && (await agree(live().filter(({ id }) => id !== node.id)));
      },
      PATIENCE_MS,
    );
    return heir!;
  }

  async function primaryOf(key: string): Promise<ClusterNode> {
    const slot = slotOf(key);
    const claims = (await ownSights()).filter(({ sight }) => hasSlot(sight, slot));
    claims.sort((a, b) => b.sight.epoch - a.sight.epoch);
    if (!claims[0]) throw new Error(`no node that lives has slot ${slot}, of ${JSON.stringify(key)}`);
    return claims[0].node;
  }

  const cluster: TestCluster = {
    get nodes() {
      return [...members];
    },
    get urls() {
      return members.map(({ url }) => url);
    },
    get startupNodes() {
      return members.map(({ port }) => ({ host: HOST, port }));
    },
    primaries: () => ofRole(true),
    replicas: () => ofRole(false),
    slotOf,
    primaryOf,
    async replicaOf(primary) {
      const found = (await ownSights()).find(({ sight }) => sight.primaryId === primary.id);
      if (!found) throw new Error(`no node that lives is a replica of port ${primary.port}`);
      return found.node;
    },
    async addPrimary() {
      const node = await start(shards++);
      await meet([node]);
      await agreed();
      return node;
    },
    async moveSlots(from, to, which) {
      const slots = typeof which === "number" ? slotsOf(await mySight(from)).slice(0, which) : [...which];
      const others = (await ofRole(true)).filter(({ id }) => id !== from.id && id !== to.id);
      for (let i = 0; i < slots.length; i += AT_ONCE)
        await Promise.all(slots.slice(i, i + AT_ONCE).map((slot) => moveSlot(slot, from, to, others)));
      return slots;
    },
    failedOver,
    agreed,
    async removeNode(node) {
      const others = live().filter(({ id }) => id !== node.id);
      await Promise.all(others.map((other) => other.client.call("CLUSTER", "FORGET", node.id)));
      members.splice(
        members.findIndex(({ id }) => id === node.id),
        1,
      );
      await node.stop();
    },
    eachPrimary: async (fn) => Promise.all((await ofRole(true)).map(fn)),
    async stop() {
      await Promise.all(members.map((node) => node.stop()));
    },
  };
  try {
    await build();
  } catch (error) {
    await cluster.stop();
    throw error;
  }
  return cluster;
}

/** By the servers' own rule: what stands in the first braces, unless that is nothing, else the whole key. */
export function slotOf(key: string): number {
  const tag = /^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key;
  return Buffer.from(tag).reduce(crc16, 0) % SLOTS;
}

function crc16(crc: number, byte: number): number {
  crc ^= byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  return crc;
}

async function startMember(shard: number, { args = [], ...options }: StartOptions): Promise<Member> {
  for (let tries = 5; ; tries--) {
    try {
      const busPort = await freePort(); // The usual one, 10000 above, may be no port at all.
      const server = await startRedis({ ...options, args: [...args, "--cluster-port", String(busPort)] });
      const id = String(await server.client.call("CLUSTER", "MYID"));
      return member(server, { id, shard, busPort });
    } catch (error) {
      if (tries <= 1) throw error;
    }
  }
}

function member(server: RedisServer, known: { id: string; shard: number; busPort: number }): Member {
  const self: Member = {
    ...server,
    ...known,
    host: HOST,
    lives: true,
    async role() {
      if (!self.lives) throw new Error(`port ${server.port} cannot answer`);
      return (await mySight(server)).isPrimary ? "primary" : "replica";
    },
    pause() {
      self.lives = false;
      server.pause();
    },
    resume() {
      server.resume();
      self.lives = true;
    },
    kill() {
      self.lives = false;
      return server.kill();
    },
    stop() {
      self.lives = false;
      return server.stop();
    },
  };
  return self;
}

/** The i-th of n equal shares. Numbers that are given instead of found out need not be agreed on later. */
async function giveSlots({ client }: RedisServer, i: number, n: number): Promise<void> {
  const share = (k: number) => Math.floor((k * SLOTS) / n);
  await client.call("CLUSTER", "SET-CONFIG-EPOCH", i + 1);
  await client.call("CLUSTER", "ADDSLOTSRANGE", share(i), share(i + 1) - 1);
}

async function follow(node: ClusterNode, primary: ClusterNode): Promise<void> {
  const knows = async () => (await sights(node)).some(({ id }) => id === primary.id);
  await eventually(`port ${node.port} knows port ${primary.port}`, knows, PATIENCE_MS);
  await node.client.call("CLUSTER", "REPLICATE", primary.id);
}

/** As `redis-cli --cluster reshard` does it. */
async function moveSlot(slot: number, from: ClusterNode, to: ClusterNode, others: readonly ClusterNode[]) {
  await to.client.call("CLUSTER", "SETSLOT", slot, "IMPORTING", from.id);
  await from.client.call("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id);
  for (;;) {
    const keys = (await from.client.call("CLUSTER", "GETKEYSINSLOT", slot, BATCH)) as string[];
    if (keys.length === 0) break;
    await from.client.call("MIGRATE", to.host, to.port, "", 0, 10_000, "KEYS", ...keys);
  }
  const give = (node: ClusterNode) => node.client.call("CLUSTER", "SETSLOT", slot, "NODE", to.id);
  await give(to); // First, or nobody has the slot for a moment.
  await give(from);
  await Promise.all(others.map(give));
}

/** Whether all say the same of each other and are well, and a client that asks any of them hears of all. */
async function agree(nodes: readonly Member[]): Promise<boolean> {
  const views = await Promise.all(nodes.map((node) => viewOf(node, nodes)));
  return views.every((view) => view !== undefined && view === views[0]);
}

/** What a node says of these nodes, to be compared; `undefined` as long as it is not well. */
async function viewOf({ client }: Member, nodes: readonly Member[]): Promise<string | undefined> {
  const [info, replication, listed, seen] = await Promise.all([
    client.call("CLUSTER", "INFO"),
    client.info("replication"),
    client.call("CLUSTER", "SLOTS"),
    sights({ client }),
  ]);
  const views = nodes.map(({ id }) => seen.find((sight) => sight.id === id));
  const replicas = views.filter((view) => view && !view.isPrimary);
  const isWell =
    String(info).includes("cluster_state:ok") &&
    !replication.includes("master_link_status:down") &&
    replicas.every((replica) => String(listed).includes(replica!.id));
  if (!isWell) return undefined;
  return JSON.stringify(views.map((view) => view && [view.id, view.isPrimary, view.primaryId, view.runs]));
}

async function mySight(node: RedisServer): Promise<Sight> {
  return (await sights(node)).find(({ isMyself }) => isMyself)!;
}

async function sights({ client }: Pick<RedisServer, "client">): Promise<Sight[]> {
  const lines = String(await client.call("CLUSTER", "NODES")).split("\n");
  return lines.filter((line) => line && !/handshake|noaddr/.test(line)).map(parseSight);
}

/** A line of CLUSTER NODES: id, address, flags, its primary, ping, pong, epoch, link, and then its slots. */
function parseSight(line: string): Sight {
  const [id, , flags, primaryId, , , epoch, , ...ranges] = line.split(" ");
  return {
    id: id!,
    isMyself: flags!.includes("myself"),
    isPrimary: flags!.includes("master"),
    primaryId: primaryId!,
    epoch: Number(epoch),
    runs: ranges.filter((range) => !range.startsWith("[")).map(parseRun), // In brackets: on the move.
  };
}

function parseRun(range: string): [number, number] {
  const [first, last = first] = range.split("-").map(Number);
  return [first!, last!];
}

const hasSlot = ({ runs }: Sight, slot: number) =>
  runs.some(([first, last]) => first <= slot && slot <= last);

const slotsOf = ({ runs }: Sight) =>
  runs.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, i) => first + i));
