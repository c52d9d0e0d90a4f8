/** The Cluster and the sentinels that the other tests stand on, seen by plain clients. */
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type ClusterNode, slotOf, startClusterOf, type TestCluster } from "../harness/cluster.ts";
import { eventually } from "../harness/eventually.ts";
import type { RedisServer } from "../harness/redis.ts";
import { startSentinel } from "../harness/sentinel.ts";

/** Each in a slot of its own, all over the Cluster. */
const KEYS = Array.from({ length: 300 }, (_, i) => `count:{${i}}`);

function clientOf(cluster: TestCluster): Cluster {
  const client = new Cluster([...cluster.startupNodes]);
  onTestFinished(() => client.disconnect());
  return client;
}

/** Counts up all keys, again and again, while something happens. Gives how often it did. */
async function countingDuring(client: Cluster, happens: () => Promise<void>): Promise<number> {
  let [counted, goesOn] = [0, true];
  const worker = async (first: number) => {
    for (let i = first; goesOn; i++, counted++) await client.incr(KEYS[i % KEYS.length]!);
  };
  const workers = Array.from({ length: 16 }, (_, i) => worker(i * 19));
  await happens();
  goesOn = false;
  await Promise.all(workers);
  return counted;
}

async function sum(client: Cluster): Promise<number> {
  const counts = await Promise.all(KEYS.map((key) => client.get(key)));
  return counts.reduce((total, count) => total + Number(count), 0);
}

/** How many slots it has, as a server says it. */
async function sizeOf(cluster: TestCluster, of: ClusterNode): Promise<number> {
  type Run = [first: number, last: number, primary: [host: string, port: number]];
  const [asked] = await cluster.primaries();
  const runs = (await asked!.client.call("CLUSTER", "SLOTS")) as Run[];
  const own = runs.filter(([, , [, port]]) => port === of.port);
  return own.reduce((total, [first, last]) => total + last - first + 1, 0);
}

describe("a Cluster whose slots move", () => {
  let cluster: TestCluster;
  beforeAll(async () => (cluster = await startClusterOf({ replicas: 1 })));
  afterAll(() => cluster.stop());

  it("comes up with a third of the slots and one replica for each primary", async () => {
    const primaries = await cluster.primaries();
    const counts = await Promise.all(primaries.map((node) => sizeOf(cluster, node)));
    const replicas = await Promise.all(primaries.map((node) => cluster.replicaOf(node)));

    expect(counts).toEqual([5461, 5461, 5462]);
    expect([...primaries, ...replicas]).toEqual(cluster.nodes);
    expect(await cluster.replicas()).toEqual(replicas);
    expect(await Promise.all(replicas.map((node) => node.role()))).toEqual(Array(3).fill("replica"));
    expect(cluster.urls).toEqual(cluster.nodes.map(({ port }) => `redis://127.0.0.1:${port}`));
  });

  it.each(["user:42", "rl:{user:42}:burst:tb", "{user:42}", "a{}{b}", "a{{b}}c", "a{b", "ключ"])(
    "knows the slot of %s and who has it",
    async (key) => {
      const owner = await cluster.primaryOf(key);
      const asked = await cluster.eachPrimary(async (node) => [
        await node.client.call("CLUSTER", "KEYSLOT", key),
        await node.client.get(key).catch(({ message }: Error) => message),
      ]);
      const slot = slotOf(key);
      const moved = [slot, `MOVED ${slot} 127.0.0.1:${owner.port}`];

      expect(asked).toHaveLength(3);
      expect(asked).toEqual(expect.arrayContaining([moved, [slot, null]]));
      expect(asked.filter(([, answer]) => answer === null)).toHaveLength(1);
    },
  );

  it("has keys of one tag in one slot", () => {
    const slots = ["rl:{user:42}:burst:tb", "rl:{user:42}:day:fw", "{user:42}"].map(slotOf);

    expect(slots).toEqual(Array(3).fill(slotOf("user:42")));
    expect(slotOf("rl:{user:43}:day:fw")).not.toBe(slotOf("user:42"));
  });

  it("moves 1,500 slots while they are in use, and no count is lost", async () => {
    const client = clientOf(cluster);
    const [from, to] = (await cluster.primaries()) as [ClusterNode, ClusterNode];
    const before = await sizeOf(cluster, to);
    let moved: number[] = [];
    const counted = await countingDuring(client, async () => {
      moved = await cluster.moveSlots(from, to, 1500);
    });
    const movedKeys = KEYS.filter((key) => moved.includes(slotOf(key)));

    expect(counted).toBeGreaterThan(KEYS.length);
    expect(await sum(client)).toBe(counted);
    expect(new Set(moved).size).toBe(1500);
    expect(await sizeOf(cluster, to)).toBe(before + 1500);
    expect(movedKeys.length).toBeGreaterThan(0);
    for (const key of movedKeys) expect((await cluster.primaryOf(key)).id).toBe(to.id);
  });

  it("takes in a fourth primary, and lets go of it", async () => {
    const client = clientOf(cluster);
    const before = await sum(client);
    const fourth = await cluster.addPrimary();
    expect([await fourth.role(), await sizeOf(cluster, fourth)]).toEqual(["primary", 0]);
    expect(await cluster.primaries()).toHaveLength(4);

    const slot = slotOf(KEYS[0]!);
    const owner = await cluster.primaryOf(KEYS[0]!);
    await cluster.moveSlots(owner, fourth, [slot]);
    expect((await cluster.primaryOf(KEYS[0]!)).id).toBe(fourth.id);
    expect(await client.incr(KEYS[0]!)).toBe(Number(await fourth.client.get(KEYS[0]!)));
    await cluster.moveSlots(fourth, owner, [slot]);

    await cluster.removeNode(fourth);
    await cluster.agreed();
    expect(cluster.nodes).toHaveLength(6);
    expect(String(await owner.client.call("CLUSTER", "INFO"))).toContain("cluster_known_nodes:6");
    expect(await sum(client)).toBe(before + 1);
  });
});

describe("a Cluster whose primaries fail", () => {
  let cluster: TestCluster;
  beforeAll(async () => (cluster = await startClusterOf({ replicas: 1 })));
  afterAll(() => cluster.stop());

  /** Of the first primary and of the last one. */
  const first = KEYS.find((key) => slotOf(key) < 5461)!;
  const last = KEYS.find((key) => slotOf(key) > 10_922)!;

  it("goes on with the replica of a primary that was killed", async () => {
    const client = clientOf(cluster);
    const primary = await cluster.primaryOf(first);
    const replica = await cluster.replicaOf(primary);
    await client.set(first, "before");
    await eventually("it is replicated", async () => (await replica.client.dbsize()) === 1);
    await primary.kill();

    expect((await cluster.failedOver(primary)).id).toBe(replica.id);
    expect(await replica.role()).toBe("primary");
    expect((await cluster.primaryOf(first)).id).toBe(replica.id);
    expect(await client.get(first)).toBe("before");
    expect(await cluster.primaries()).toHaveLength(3);
    await expect(primary.role()).rejects.toThrow(`port ${primary.port} cannot answer`);
    await expect(cluster.failedOver(replica)).rejects.toThrow(
      `nobody lives who could take over from port ${replica.port}`,
    );
  });

  it("goes on with the replica of a primary that is silent, and that follows it once it is back", async () => {
    const primary = await cluster.primaryOf(last);
    const replica = await cluster.replicaOf(primary);
    primary.pause();

    expect((await cluster.failedOver(primary)).id).toBe(replica.id);
    expect((await cluster.primaryOf(last)).id).toBe(replica.id);
    primary.resume();
    await cluster.agreed();
    expect(await primary.role()).toBe("replica");
    expect((await cluster.replicaOf(replica)).id).toBe(primary.id);
  });
});

describe("three sentinels", () => {
  it.each([
    ["was killed", (primary: RedisServer) => primary.kill()],
    ["is silent", (primary: RedisServer) => Promise.resolve(primary.pause())],
  ])("name another primary when theirs %s", async (_, fail) => {
    const watched = await startSentinel();
    onTestFinished(() => watched.stop());
    const client = new Redis({ sentinels: [...watched.sentinels], name: watched.name });
    client.on("error", () => {});
    onTestFinished(() => client.disconnect());
    await client.set("kept", "before");
    await client.wait(2, 5000);

    const primary = await watched.primary();
    expect(primary).toBe(watched.servers[0]);
    await fail(primary);
    const heir = await watched.failedOver(primary);

    expect(watched.servers.slice(1)).toContain(heir);
    expect(await watched.primary()).toBe(heir);
    expect(await heir.client.get("kept")).toBe("before");
    expect(await heir.client.set("kept", "after")).toBe("OK");
  });
});
