/** The client that an application has: what it is set to, and what a limiter makes of that. */
import { createLimiter, type Decision, fixedWindow, globally, tokenBucket, user } from "@tidegate/core";
import { Cluster, type ClusterOptions } from "ioredis";
import { Cluster as Cluster5 } from "ioredis5";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { used } from "../cases/asking.ts";
import { type ClusterNode, startClusterOf, type TestCluster } from "../harness/cluster.ts";
import { during, expectWell, keysOn, limiterOn, namesOn, refusals, slotOfName } from "./clustered.ts";

let cluster: TestCluster;
beforeAll(async () => void (cluster = await startClusterOf({ fullCoverage: false })));
afterAll(() => cluster.stop());

const policies = {
  burst: tokenBucket({ capacity: 10, refillPerSecond: 0.001 }),
  day: fixedWindow({ limit: 10, window: "1d" }),
};

/** Several policies of one identity, and one that all share. */
const shared = { ...policies, all: fixedWindow({ limit: 100_000, window: "1h", by: globally() }) };

/** So many slots go from the first primary to the second, and back. */
const MOVING = 300;

async function reshard(): Promise<void> {
  const [a, b] = (await cluster.primaries()) as [ClusterNode, ClusterNode];
  const slots = await cluster.moveSlots(a, b, MOVING);
  await cluster.moveSlots(b, a, slots);
}

/** Names all over the Cluster, some of them in slots that go to and fro. */
async function someNames(): Promise<string[]> {
  const moving = Array.from({ length: 1000 }, (_, i) => `m${i}`).filter((name) => slotOfName(name) < MOVING);
  return [...moving.slice(0, 6), ...(await namesOn(cluster, 2)).flat()];
}

/** Commands that went to where a slot had been: of one run there may be none, of all together there are. */
let [refused, runs] = [0, 0];
afterAll(() => {
  if (runs > 4) expect(refused).toBeGreaterThan(0);
});

describe.each([
  ["ioredis 6", Cluster as unknown as typeof Cluster5],
  ["ioredis 5", Cluster5],
])("a client of %s", (_, Client) => {
  function clientWith(options: object, servers = cluster.startupNodes): Cluster {
    const client = new Client([...servers], options as never);
    client.on("error", () => {});
    onTestFinished(() => client.disconnect());
    return client as unknown as Cluster;
  }

  describe.each([
    ["on connections of our own", false],
    ["shared", true],
  ])("%s", (_, shareConnection) => {
    it.each<[string, ClusterOptions]>([
      ["a keyPrefix", { keyPrefix: "app:" }],
      ["a keyPrefix of its nodes", { redisOptions: { keyPrefix: "app:" } }],
    ])("with %s: every key carries it once, also while slots move", async (_, options) => {
      const subject = limiterOn(clientWith(options), { policies: shared, shareConnection });
      const { limiter, prefix, ask } = subject;
      const names = await someNames();
      const moved = await refusals(cluster, "MOVED");
      const admitted = new Map(names.map((name) => [name, 0]));
      const decisions = await during(reshard, async (i) => {
        const name = names[i % names.length]!;
        const decision = await ask(name);
        if (decision.allowed) admitted.set(name, admitted.get(name)! + 1);
        return decision;
      });
      expectWell([subject], decisions);
      expect([...admitted.values()]).toEqual(names.map(() => 10));
      refused += (await refusals(cluster, "MOVED")) - moved;
      runs++;

      await limiter.reset(names[0]!);
      expect((await used(limiter, names[0])).slice(0, 2)).toEqual([0, 0]);
      const keys = [...(await keysOn(cluster, `*${prefix}`)).keys()];
      expect(keys.filter((key) => !key.startsWith(`app:${prefix}:{`))).toEqual([]);
      expect(keys.filter((key) => key.endsWith(":fw"))).toHaveLength(names.length);
    });
  });

  it("with a keyPrefix that chooses a slot: is refused when the limiter is made", () => {
    const redis = clientWith({ keyPrefix: "{app}:" });
    expect(() => createLimiter({ redis, policies })).toThrow(
      expect.objectContaining({
        name: "ConfigError",
        code: "TIDEGATE_OPTION_INVALID",
        option: "redis.options.keyPrefix",
        message: expect.stringContaining("puts every key into one slot"),
      }),
    );
  });

  it("with enableAutoPipelining: decides on connections of our own, also while slots move", async () => {
    const subject = limiterOn(clientWith({ enableAutoPipelining: true }), { policies: shared });
    const decisions = await during(reshard, (i) => subject.ask(user(i)), 64);
    expectWell([subject], decisions);
    expect(decisions.filter(({ allowed }) => !allowed)).toEqual([]);
  });

  it("with enableAutoPipelining, shared: is refused when the limiter is made, and why", () => {
    const redis = clientWith({ enableAutoPipelining: true });
    expect(() => createLimiter({ redis, policies, shareConnection: true })).toThrow(
      expect.objectContaining({
        name: "ConfigError",
        code: "TIDEGATE_OPTION_INVALID",
        option: "shareConnection",
        message: expect.stringContaining("hands MOVED to its callers"),
      }),
    );
  });

  it("shared: is listened to while the limiter lives, not at all afterwards, and stays open", async () => {
    const client = clientWith({});
    await client.set("theirs", "kept");
    const listeners = () => client.eventNames().map((name) => [name, client.listenerCount(name)]);
    const nodes = () =>
      client.nodes("all").map((node) => node.eventNames().map((name) => [name, node.listenerCount(name)]));
    const before = [listeners(), nodes()];
    const options = JSON.stringify(client.options);
    const { limiter, ask } = limiterOn(client, { policies: shared, shareConnection: true });
    const decisions: Decision[] = await Promise.all([1, 2, 3, 4, 5, 6].map((i) => ask(user(i))));
    expect(decisions.map(({ degraded }) => degraded)).toEqual(decisions.map(() => undefined));
    await limiter.close();
    await limiter.close();
    expect([listeners(), nodes()]).toEqual(before);
    expect(JSON.stringify(client.options)).toBe(options);
    expect(await client.get("theirs")).toBe("kept");
  });

  it.each([
    ["with lazyConnect", { lazyConnect: true }],
    ["that reads from replicas", { scaleReads: "slave" }],
    ["without an offline queue", { enableOfflineQueue: false }],
    ["that follows no redirections", { maxRedirections: 1 }],
    [
      "with hasty settings of its nodes",
      { redisOptions: { commandTimeout: 1, maxRetriesPerRequest: 1, stringNumbers: true } },
    ],
  ])("%s: decides exactly, on connections of our own", async (_, options) => {
    // It knows one server, and finds the others by itself.
    const client = clientWith(options, cluster.startupNodes.slice(0, 1));
    const { ask } = limiterOn(client, { policies });
    const decisions = await Promise.all(Array.from({ length: 36 }, (_, i) => ask(user(i % 3))));
    expect(decisions.filter(({ degraded }) => degraded)).toEqual([]);
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(30);
  });
});

describe("a user with a password", () => {
  const PASSWORD = "a-password";

  it("is who asks, on every node", async () => {
    await cluster.eachPrimary(({ client }) =>
      client.call("ACL", "SETUSER", "app", "on", `>${PASSWORD}`, "~*", "+@all"),
    );
    const client = new Cluster([...cluster.startupNodes], {
      redisOptions: { username: "app", password: PASSWORD },
    });
    onTestFinished(() => client.disconnect());
    const { ask } = limiterOn(client, { policies });
    for (const name of (await namesOn(cluster, 1)).flat()) expect((await ask(name)).degraded).toBeUndefined();
    const asking = await cluster.eachPrimary(async (node) => {
      const listed = String(await node.client.call("CLIENT", "LIST"));
      return listed.split("\n").filter((line) => /cmd=evalsha\b/.test(line) && / user=app /.test(line))
        .length;
    });
    expect(Math.min(...asking)).toBeGreaterThan(0);
  });

  it("that is wrong: the rule answers, and says denied", async () => {
    const client = new Cluster([...cluster.startupNodes], {
      redisOptions: { username: "app", password: "wrong" },
    });
    client.on("error", () => {});
    onTestFinished(() => client.disconnect());
    const { ask, events } = limiterOn(client, { policies });
    expect((await ask("x")).degraded).toEqual({ rule: "open", reason: "denied" });
    expect(JSON.stringify(events)).not.toContain("wrong");
  });
});
