/** What the doctor says of a Cluster: of each primary, and of all together. */
import { createLimiter } from "@tidegate/core";
import { Cluster } from "ioredis";
import { createCluster } from "redis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type ClusterNode, startClusterOf, type TestCluster } from "../harness/cluster.ts";
import { eventually } from "../harness/eventually.ts";
import { deciding } from "../harness/rights.ts";
import { examine, of, onLevel, the, userOf } from "./asking.ts";

const addressOf = ({ port }: ClusterNode) => `127.0.0.1:${port}`;

function clientOf(cluster: TestCluster, options: object = {}): Cluster {
  const client = new Cluster([...cluster.startupNodes], { lazyConnect: true, ...options });
  onTestFinished(() => client.disconnect());
  return client;
}

describe("a Cluster of three primaries", () => {
  let cluster: TestCluster;
  beforeAll(async () => void (cluster = await startClusterOf({ fullCoverage: false })));
  afterAll(() => cluster.stop());

  const addresses = () => cluster.nodes.map(addressOf).toSorted();

  it.each([
    ["ioredis", () => clientOf(cluster)],
    ["node-redis", () => createCluster({ rootNodes: cluster.urls.map((url) => ({ url })) })],
  ])("is looked at server by server, through %s, and is well", async (_, made) => {
    const report = await examine({ redis: made() });
    expect(onLevel(report, "must", "warning")).toEqual([]);
    expect(report.servers.map(({ address }) => address).toSorted()).toEqual(addresses());
    for (const subject of ["VERSION", "READY", "RIGHTS", "LATENCY", "CLOCK", "KEYS"])
      expect([
        subject,
        of(report, subject)
          .map(({ server }) => server!)
          .toSorted(),
      ]).toEqual([subject, addresses()]);
    expect(the(report, "CLUSTER")).toMatchObject({
      level: "ok",
      server: undefined,
      value: { uncovered: 0, failing: 0, servers: 3 },
    });
    expect(the(report, "CLOCK_SPREAD")).toMatchObject({ level: "ok", server: undefined });
  });

  it("tells which primaries have no replica", async () => {
    const report = await examine({ redis: clientOf(cluster) });
    const { level, value } = the(report, "REPLICAS");
    expect(level).toBe("notice");
    expect([...(value!["alone"] as string[])].toSorted()).toEqual(addresses());
  });

  it("tells of each whether the script is loaded, which a limiter does", async () => {
    await cluster.eachPrimary((node) => node.client.script("FLUSH"));
    expect(of(await examine({ redis: clientOf(cluster) }), "SCRIPTS").map(({ level }) => level)).toEqual(
      Array(3).fill("notice"),
    );
    const limiter = createLimiter({ redis: clientOf(cluster), limit: 5, window: "1m", timeoutMs: 10_000 });
    onTestFinished(() => limiter.close());
    await limiter.decide({ identity: "x" });
    const loaded = async () => {
      const report = await examine({ redis: clientOf(cluster) });
      return of(report, "SCRIPTS").every(({ level }) => level === "ok");
    };
    await eventually("all have it", loaded);
  });

  it("finds keys wherever they are, behind a client's own prefix too", async () => {
    const redis = clientOf(cluster, { keyPrefix: "app:" });
    const limiter = createLimiter({ redis, limit: 5, window: "1m", timeoutMs: 10_000 });
    onTestFinished(() => limiter.close());
    for (let i = 0; i < 30; i++) await limiter.decide({ identity: i });
    await cluster.eachPrimary(async ({ client }) => {
      for (const key of await client.keys("app:rl:*")) await client.persist(key);
    });
    const report = await examine({ redis: clientOf(cluster, { keyPrefix: "app:" }) });
    const counts = of(report, "NO_EXPIRY").map(({ value }) => value!["keys"] as number);
    expect(counts.length).toBe(3);
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(30);
    expect(report.servers.reduce((sum, { keys }) => sum + keys!, 0)).toBe(30);
  });

  it("tells of one server's settings with its address", async () => {
    const [one] = await cluster.primaries();
    await one!.client.config("SET", "maxmemory", "200mb");
    await one!.client.config("SET", "maxmemory-policy", "volatile-lru");
    onTestFinished(async () => void (await one!.client.config("SET", "maxmemory-policy", "noeviction")));
    const report = await examine({ redis: clientOf(cluster) });
    expect(of(report, "EVICTION").filter(({ level }) => level === "warning")).toMatchObject([
      { server: addressOf(one!) },
    ]);
  });

  it("asks for no right that a limiter does not need: cluster|slots besides those of deciding", async () => {
    const rules = ["~rl:*", ...deciding.map((right) => `+${right}`), "+cluster|slots"];
    await cluster.eachPrimary((node) => userOf(node, "narrow", ...rules));
    const options = { redisOptions: { username: "narrow", password: "secret" } };
    const limiter = createLimiter({
      redis: clientOf(cluster, options),
      limit: 1,
      window: "1s",
      timeoutMs: 10_000,
    });
    onTestFinished(() => limiter.close());
    expect((await limiter.decide({ identity: "x" })).degraded).toBeUndefined();

    const report = await examine({ redis: clientOf(cluster, options) });
    expect(onLevel(report, "must", "warning")).toEqual([]);
    for (const { value } of of(report, "LOOK"))
      expect(value!["missing"]).toEqual(
        expect.arrayContaining(["config|get", "script|exists", "scan", "cluster|info"]),
      );
  });

  it("tells who may not ask for slots that it needs to", async () => {
    await cluster.eachPrimary((node) => userOf(node, "narrower", "~rl:*", "+info"));
    const redis = clientOf(cluster, { redisOptions: { username: "narrower", password: "secret" } });
    const report = await examine({ redis });
    expect(onLevel(report, "must")).toEqual(["RIGHTS"]);
    expect(the(report, "RIGHTS").advice).toContain("+cluster|slots");
  });

  it("is not let in by a wrong password", async () => {
    await cluster.eachPrimary((node) => node.client.call("ACL", "SETUSER", "known", "on", ">right"));
    const redis = clientOf(cluster, { redisOptions: { username: "known", password: "wrong" } });
    expect(onLevel(await examine({ redis }), "must")).toEqual(["LOGIN"]);
  });

  it("given as one server, must be given as a Cluster", async () => {
    expect(the(await examine({ redis: cluster.urls[0]! }), "TOPOLOGY")).toMatchObject({
      level: "must",
      message: "It is one server of a Cluster: identities of the 2 other servers get no decision.",
      value: { mode: "cluster", primaries: 3 },
    });
  });

  it("with a slot that nobody has must be mended", async () => {
    const each = (command: string) =>
      Promise.all(cluster.nodes.map((node) => node.client.call("CLUSTER", command, 0).catch(() => {})));
    const owner = cluster.nodes[0]!;
    await each("DELSLOTS");
    onTestFinished(async () => {
      await owner.client.call("CLUSTER", "ADDSLOTS", 0);
      await cluster.agreed();
    });
    const report = await examine({ redis: clientOf(cluster) });
    expect(onLevel(report, "must")).toEqual(["CLUSTER"]);
    expect(the(report, "CLUSTER")).toMatchObject({
      message: "1 slot of 16,384 has no server that answers: identities there get no decision.",
      value: { uncovered: 1 },
    });
  });

  it("whose primary dies is told so: of one, or of all, where slots without a server are not put up with", async () => {
    const dead = cluster.nodes[2]!;
    const others = cluster.nodes.slice(0, 2);
    const fullCoverage = (value: "yes" | "no") =>
      Promise.all(others.map(({ client }) => client.config("SET", "cluster-require-full-coverage", value)));
    const allSay = (word: string) =>
      eventually(
        `both say ${word}`,
        async () => {
          const said = await Promise.all(others.map(({ client }) => client.call("CLUSTER", "INFO")));
          return said.every((text) => String(text).includes(word));
        },
        30_000,
      );
    await fullCoverage("yes");
    await dead.kill();
    await allSay("cluster_state:fail");
    const all = await examine({ redis: clientOf(cluster), answerMs: 2000 });
    expect(onLevel(all, "must")).toEqual(["CLUSTER", "CONNECTION", "READY", "READY"]);
    expect(the(all, "CLUSTER").message).toBe(
      "5,462 slots of 16,384 have no server that answers and cluster_state is fail, as 2 of 2 tell: identities there get no decision.",
    );
    expect(the(all, "CONNECTION").server).toBe(addressOf(dead));
    for (const { value } of of(all, "READY")) expect(value).toEqual({ word: "CLUSTERDOWN" });

    await fullCoverage("no");
    await allSay("cluster_state:ok");
    const one = await examine({ redis: clientOf(cluster), answerMs: 2000 });
    expect(onLevel(one, "must")).toEqual(["CLUSTER", "CONNECTION"]);
    expect(the(one, "CLUSTER").message).toBe(
      "5,462 slots of 16,384 have no server that answers: identities there get no decision.",
    );
    const ready = of(one, "READY").map(({ level, server }) => `${level} ${server}`);
    expect(ready.toSorted()).toEqual(others.map((node) => `ok ${addressOf(node)}`).toSorted());
  });
});

it("a Cluster of one primary and its replica has nothing to be told", async () => {
  const cluster = await startClusterOf({ primaries: 1, replicas: 1 });
  onTestFinished(() => cluster.stop());
  const report = await examine({ redis: clientOf(cluster) });
  expect(onLevel(report, "must", "warning")).toEqual([]);
  expect(the(report, "REPLICAS")).toMatchObject({ level: "ok", message: "Every primary has a replica." });
  expect(report.servers.map(({ address }) => address)).toEqual([addressOf(cluster.nodes[0]!)]);
});
