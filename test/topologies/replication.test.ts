/** What a replica has, and what is lost when it takes over before it has everything. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Config, fixedWindow, tokenBucket } from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { names as algorithms, made, policyOf, rates, recipes } from "../decisions/algorithms.ts";
import { type ClusterNode, startClusterOf, type TestCluster } from "../harness/cluster.ts";
import { eventually } from "../harness/eventually.ts";
import { clientOf, type Clustered, keysOn, limiterOn, namesOn } from "./clustered.ts";
import { isDegraded, steady, type Watched } from "./steady.ts";

let cluster: TestCluster;
beforeAll(async () => void (cluster = await startClusterOf({ replicas: 1, fullCoverage: false })));
afterAll(() => cluster.stop());

const LIMIT = 20;
const PLENTY = 1_000_000;

const limiting = (config: Partial<Config>) => limiterOn(clientOf(cluster), config);

/** Waits until a primary's replica has all that the primary has. */
async function replicated(primary: ClusterNode): Promise<void> {
  const names = await namesOn(cluster, 1);
  const place = (await cluster.primaries()).findIndex(({ id }) => id === primary.id);
  // WAIT waits for what its own connection wrote.
  await primary.client.set(`waits:{id:${names[place]![0]}}`, 1);
  expect(await primary.client.wait(1, 10_000)).toBe(1);
}

/** Every key of a node with what it holds, byte by byte, and the moment of its end, µs. */
async function contents({ client }: ClusterNode, prefix: string) {
  await client.readonly();
  const keys = (await client.keys(`${prefix}:*`)).sort();
  return Promise.all(
    keys.map(async (key) => {
      const [bytes, ends] = await Promise.all([client.dumpBuffer(key), client.pexpiretime(key)]);
      return [key, bytes!.toString("hex"), ends];
    }),
  );
}

/** After that a replica holds the same as its primary. Gives how many keys that were. */
async function expectSame({ prefix, events }: Clustered): Promise<number> {
  let count = 0;
  await cluster.eachPrimary(async (primary) => {
    await replicated(primary);
    const here = await contents(primary, prefix);
    expect(await contents(await cluster.replicaOf(primary), prefix)).toEqual(here);
    count += here.length;
  });
  expect(events.filter(({ type }) => type !== "audit")).toEqual([]);
  return count;
}

const many = Array.from({ length: 30 }, (_, i) => `n${i}`);

describe("a replica has the same bytes, and ends of life, as its primary", () => {
  it.each(algorithms)(
    "of %s: charged, refused, merged, given back, charged more, on trial",
    async (algorithm) => {
      const [maker, options] = recipes[algorithm]!(3);
      const trial = made([maker, { ...options, mode: "shadow" }]);
      const policies = { real: policyOf(algorithm, LIMIT), trial };
      const subject = limiting({ policies });
      const decisions = await Promise.all(
        many.flatMap((name) => [3, 1, 1, 1].map((cost) => subject.ask(name, { cost }))),
      );
      await Promise.all(many.map((name) => subject.ask(name, { cost: LIMIT })));
      for (const [i, decision] of decisions.entries())
        if (decision.allowed && i % 2 === 0)
          await subject.limiter.settle(decision, i % 3 === 0 ? "giveBack" : 5);
      // Where all came back of what was on trial, nothing is left of that.
      expect(await expectSame(subject)).toBeGreaterThanOrEqual(many.length);
    },
  );

  it("of blocks, for a while and for ever, of resets, and of idempotency keys", async () => {
    const policies = Object.fromEntries(rates.map((rate, i) => [`p${i}`, policyOf(rate, LIMIT)]));
    const subject = limiting({ policies, blocking: true });
    await Promise.all(many.map((name) => subject.ask(name, { idempotencyKey: "k" })));
    for (const name of many.slice(0, 9)) await subject.limiter.reset(name);
    for (const name of many.slice(6, 12)) await subject.limiter.block(name, "1h", "a reason");
    for (const name of many.slice(12, 18)) await subject.limiter.block(name, "forever");
    await subject.limiter.unblock(many[17]!);
    const charged = (many.length - 9) * rates.length;
    expect(await expectSame(subject)).toBeGreaterThanOrEqual(charged + 11);
  });
});

const PER_SECOND = 200;
const CUT_MS = 500;
const PASSWORD = "not-for-replicas";

/** Cuts a primary off from its replica: it is not let in any more, and whoever is in already stays. */
async function cut({ client }: ClusterNode): Promise<void> {
  await client.config("SET", "requirepass", PASSWORD);
  await client.call("CLIENT", "KILL", "TYPE", "replica");
  await eventually("it has no replica", async () =>
    (await client.info("replication")).includes("connected_slaves:0"),
  );
}

/** Units that servers have counted for these names. */
async function countedFor(prefix: string, names: readonly string[]): Promise<number> {
  let sum = 0;
  const found = await keysOn(cluster, prefix);
  for (const name of names) {
    const key = `${prefix}:{id:${name}}:p:fw`;
    sum += Number(await found.get(key)?.client.get(key));
  }
  return sum;
}

const granted = (requests: readonly Watched[]) =>
  requests.filter((request) => request.decision.allowed && !isDegraded(request));

describe("a replica that takes over", () => {
  /** A shard under traffic that is patient; its first ten names are asked for all the time. */
  async function shard() {
    const victim = (await cluster.primaries())[0]!;
    const names = (await namesOn(cluster, 40))[0]!;
    const subject = limiting({ policies: { p: fixedWindow({ limit: PLENTY, window: "1h" }) } });
    await Promise.all(names.map((name) => subject.ask(name, { cost: 0 })));
    const asked = names.slice(0, 10);
    const traffic = steady((name) => subject.ask(name), asked, { perSecond: PER_SECOND, timeoutMs: 10_000 });
    return { ...subject, victim, names, asked, traffic };
  }

  it("from a primary that was cut off from it: has lost what was granted in that time at most, and nobody gets more than one limit more", async () => {
    const { prefix, victim, names, asked, traffic } = await shard();
    const policies = {
      f: fixedWindow({ limit: LIMIT, window: "1h" }),
      t: tokenBucket({ capacity: LIMIT, refillPerSecond: 0.001 }),
    };
    const tight = limiting({ policies });
    const admitted = async (name: string) => {
      const decisions = await Promise.all(Array.from({ length: LIMIT + 5 }, () => tight.ask(name)));
      return decisions.filter(({ allowed, degraded }) => allowed && !degraded).length;
    };
    const [before, during] = [names.slice(10, 15), names.slice(15, 20)];
    expect(await Promise.all(before.map(admitted))).toEqual(before.map(() => LIMIT));
    await sleep(300);
    await replicated(victim);

    const cutAt = performance.now();
    await cut(victim);
    expect(await Promise.all(during.map(admitted))).toEqual(during.map(() => LIMIT));
    await sleep(CUT_MS - (performance.now() - cutAt));
    await victim.kill();
    const killedAt = performance.now();
    const requests = await traffic.end();
    await cluster.failedOver(victim);

    const all = granted(requests);
    const inVain = all.filter(({ at }) => at >= cutAt);
    const lost = all.length - (await countedFor(prefix, asked));
    console.log(
      `cut off for ${Math.round(killedAt - cutAt)} ms at ${PER_SECOND} requests/s: ${lost} of ${all.length} grants lost, ${inVain.length} were granted in that time`,
    );
    expect(lost).toBeGreaterThan(0);
    expect(lost).toBeLessThanOrEqual(inVain.length);
    expect(inVain.length).toBeLessThanOrEqual(((killedAt - cutAt) / 1000) * PER_SECOND + 10);
    await eventually("the heir decides", async () => !(await tight.ask(names[20]!)).degraded, 20_000);
    // What the replica had is as it was. What it had not may be had once more, and no more than once.
    expect(await Promise.all(before.map(admitted))).toEqual(before.map(() => 0));
    expect(await Promise.all(during.map(admitted))).toEqual(during.map(() => LIMIT));
    expect(await Promise.all(during.map(admitted))).toEqual(during.map(() => 0));
  });

  it("from a primary that is killed: has lost what was granted in the last 100 ms at most", async () => {
    const { prefix, victim, asked, traffic } = await shard();
    await sleep(500);
    await victim.kill();
    const killedAt = performance.now();
    const requests = await traffic.end();
    await cluster.failedOver(victim);
    const all = granted(requests);
    const lost = all.length - (await countedFor(prefix, asked));
    console.log(`killed: ${lost} of ${all.length} grants lost at ${PER_SECOND} requests/s`);
    expect(all.length).toBeGreaterThan(50);
    expect(lost).toBeLessThanOrEqual(all.filter(({ at }) => at > killedAt - 100).length);
  });
});
