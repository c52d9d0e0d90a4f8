/** Decisions whose identities are in several slots of a Cluster: judged everywhere first, then charged. */
import { setTimeout as sleep } from "node:timers/promises";
import {
  concurrency,
  type Decision,
  fixedWindow,
  globally,
  type Policy,
  slidingWindow,
  tenant,
  user,
} from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { used } from "../cases/asking.ts";
import { names as algorithms, policyOf } from "../decisions/algorithms.ts";
import { type ClusterNode, startClusterOf, type TestCluster } from "../harness/cluster.ts";
import { eventually } from "../harness/eventually.ts";
import { faultProxy } from "../harness/fault-proxy.ts";
import { clientOf, expectWell, keysOn, limiterOn, namesOn } from "./clustered.ts";

let cluster: TestCluster;
/** Two names of identities on each of the three primaries. */
let here: Record<"first" | "second" | "third", [string, string]>;
beforeAll(async () => {
  // Nobody is to take a server that a test has stopped for failed.
  cluster = await startClusterOf({ nodeTimeoutMs: 60_000, fullCoverage: false });
  const [first, second, third] = (await namesOn(cluster, 2, "user")) as [string, string][];
  here = { first: first!, second: second!, third: third! };
});
afterAll(() => cluster.stop());

const limiting = (policies: Record<string, Policy>, more: object = {}) =>
  limiterOn(clientOf(cluster), { policies, ...more });

const hourly = (limit: number, more: object = {}) => fixedWindow({ limit, window: "1h", ...more });

/** One identity on each server, as three policies count them. */
const everywhere = () => ({ a: user(here.first[0]), b: user(here.second[0]), c: user(here.third[0]) });
const three = (limits: { a?: number; b?: number; c?: number } = {}, more: object = {}) => ({
  a: hourly(limits.a ?? 10, more),
  b: hourly(limits.b ?? 10, more),
  c: hourly(limits.c ?? 10, more),
});

/** Units by key, of all policies that count in fixed windows. */
async function counted(prefix: string): Promise<Map<string, number>> {
  const units = new Map<string, number>();
  for (const [key, node] of await keysOn(cluster, prefix))
    if (key.endsWith(":fw")) units.set(key, Number(await node.client.get(key)));
  return units;
}

const sumOf = (units: Map<string, number>, part: string): number =>
  [...units].reduce((sum, [key, count]) => sum + (key.includes(part) ? count : 0), 0);

it("asks servers that are not one", async () => {
  const owners = await Promise.all(
    Object.values(everywhere()).map(({ value }) => cluster.primaryOf(`{user:${value}}`)),
  );
  expect(new Set(owners.map(({ id }) => id)).size).toBe(3);
});

describe("under contention", () => {
  it("never lets in more than a limit that all share, and gives back all that it charged beside it", async () => {
    const { ask, prefix } = limiting({ person: hourly(5), all: hourly(100, { by: globally() }) });
    const decisions = await Promise.all(Array.from({ length: 300 }, (_, i) => ask(user(i))));
    const admitted = decisions.filter(({ allowed }) => allowed).length;

    expect(decisions.filter(({ degraded }) => degraded)).toEqual([]);
    expect(admitted).toBe(100);
    await eventually("no refused one is charged", async () => {
      const units = await counted(prefix);
      return sumOf(units, ":person:") === admitted && sumOf(units, ":all:") === admitted;
    });
    const refused = decisions.flatMap(({ allowed }, i) =>
      allowed ? [] : [`${prefix}:{user:${i}}:person:fw`],
    );
    const units = await counted(prefix);
    expect(refused.filter((key) => (units.get(key) ?? 0) > 0)).toEqual([]);
  });

  it("of limits that run out in two places: never more than either, and what is left can be had", async () => {
    const { ask, prefix } = limiting({ company: hourly(7), all: hourly(50, { by: globally() }) });
    const decisions = await Promise.all(Array.from({ length: 300 }, (_, i) => ask(tenant(i % 10))));
    const admitted = decisions.filter(({ allowed }) => allowed).length;
    expect(admitted).toBeLessThanOrEqual(50);
    await eventually("no refused one is charged", async () => {
      const units = await counted(prefix);
      return sumOf(units, ":company:") === admitted && sumOf(units, ":all:") === admitted;
    });
    for (const count of (await counted(prefix)).values()) expect(count).toBeLessThanOrEqual(50);
    let more = 0;
    for (let i = 0; i < 100; i++) if ((await ask(tenant(i % 10))).allowed) more++;
    expect(admitted + more).toBe(50);
  });
});

describe("a refusal", () => {
  it.each(["a", "b", "c"] as const)("by %s leaves the others uncharged", async (name) => {
    const { limiter, ask } = limiting(three({ [name]: 2 }));
    const decisions = [await ask(everywhere()), await ask(everywhere()), await ask(everywhere())];
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, false]);
    expect(
      decisions[2]!.verdicts.map(({ policy, allowed, remaining }) => [policy, allowed, remaining]),
    ).toEqual(["a", "b", "c"].map((policy) => [policy, policy !== name, policy === name ? 0 : 8]));
    expect(decisions[2]).toMatchObject({ receipt: undefined, degraded: undefined });
    expect(decisions[2]!.retryAfterMs).toBeGreaterThan(3_500_000);
    expect(await used(limiter, everywhere())).toEqual([2, 2, 2]);
  });
});

it("tells of each policy in the order of the configuration, at its own cost, whatever the slots", async () => {
  const { ask } = limiting({ ...three(), d: hourly(10) });
  const identity = { d: user(here.second[1]), ...everywhere() };
  const decision = await ask(identity, { cost: { a: 1, b: 2, c: 3, d: 0 } });
  expect(decision.verdicts.map(({ policy, remaining }) => [policy, remaining])).toEqual([
    ["a", 9],
    ["b", 8],
    ["c", 7],
    ["d", 10],
  ]);
});

describe("what a decision leaves", () => {
  it.each(algorithms)("by %s beside others, is settled in all of its slots", async (algorithm) => {
    const { limiter, ask } = limiting({ a: policyOf(algorithm, 10), b: hourly(10), c: policyOf("sw", 10) });
    const decision = await ask(everywhere(), { cost: 4 });
    expect(await used(limiter, everywhere())).toEqual([4, 4, 4]);
    await limiter.settle(decision, "giveBack");
    expect(await used(limiter, everywhere())).toEqual([0, 0, 0]);
  });

  it("may cost less or more afterwards, in each slot by itself", async () => {
    const { limiter, ask } = limiting(three());
    await limiter.settle(await ask(everywhere(), { cost: 4 }), { a: 1, b: 6 });
    expect(await used(limiter, everywhere())).toEqual([1, 6, 4]);
    const reservation = await limiter.reserve({ identity: everywhere(), cost: 3 });
    await reservation.commit(2);
    expect(await used(limiter, everywhere())).toEqual([3, 8, 6]);
  });

  it("is forgotten by a reset of one identity, and no other", async () => {
    const { limiter, ask } = limiting(three());
    await ask(everywhere());
    await limiter.reset(everywhere().b);
    expect(await used(limiter, everywhere())).toEqual([1, 0, 1]);
  });

  it("is nothing, where it only looked", async () => {
    const { limiter, ask, prefix } = limiting({ ...three(), d: concurrency({ limit: 2, leaseMs: 60_000 }) });
    const identity = { ...everywhere(), d: user(here.third[1]) };
    for (let i = 0; i < 20; i++) {
      expect((await limiter.peek({ identity })).allowed).toBe(true);
      await ask(identity, { cost: 0 });
    }
    expect([...(await keysOn(cluster, prefix)).keys()]).toEqual([]);
  });
});

describe("slots in flight", () => {
  const person = { person: user("p"), slots: tenant("t") };
  const policies = { slots: concurrency({ limit: 20, leaseMs: 60_000 }), person: hourly(5) };

  it("are free again when another slot refuses, also in a race", async () => {
    const { limiter, ask } = limiting(policies);
    const decisions = await Promise.all(Array.from({ length: 60 }, () => ask(person)));
    const held = decisions.filter(({ allowed }) => allowed);
    expect(held).toHaveLength(5);
    await eventually(
      "only those let in hold a slot",
      async () => String(await used(limiter, person)) === "5,5",
    );
    for (const decision of held) await limiter.settle(decision, "keep");
    expect(await used(limiter, person)).toEqual([0, 5]);
  });

  it("are renewed in many slots beyond the length of their leases, and given back at the end", async () => {
    const leased = { slots: concurrency({ limit: 1, leaseMs: 900 }) };
    const holder = limiting(leased);
    const other = limiting(leased, { prefix: holder.prefix });
    const many = Array.from({ length: 150 }, (_, i) => user(i));
    const held = await Promise.all(many.map((identity) => holder.ask(identity)));
    expect(held.filter(({ allowed }) => allowed)).toHaveLength(150);
    await sleep(1500);
    const meanwhile = await Promise.all(many.map((identity) => other.ask(identity)));
    expect(meanwhile.filter(({ allowed }) => allowed)).toEqual([]);
    await holder.limiter.close();
    const afterwards = await Promise.all(many.map((identity) => other.ask(identity)));
    expect(afterwards.filter(({ allowed }) => allowed)).toHaveLength(150);
    expectWell([holder, other], [...held, ...meanwhile, ...afterwards]);
  });
});

describe("an idempotency key", () => {
  it("is charged once in every slot, and the grant is given again", async () => {
    const { limiter, ask } = limiting(three());
    const again = () => ask(everywhere(), { cost: 2, idempotencyKey: "order-1" });
    const [first, second] = [await again(), await again()];
    expect([first.allowed, first.replayed, second.allowed, second.replayed]).toEqual([
      true,
      false,
      true,
      true,
    ]);
    expect(second.verdicts).toEqual(first.verdicts);
    expect(await used(limiter, everywhere())).toEqual([2, 2, 2]);
  });

  it("is charged once when both ask at once", async () => {
    const { limiter, ask } = limiting(three());
    const decisions = await Promise.all([0, 1].map(() => ask(everywhere(), { idempotencyKey: "order-2" })));
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true]);
    expect(await used(limiter, everywhere())).toEqual([1, 1, 1]);
  });

  it("is charged anew after it was given back", async () => {
    const { limiter, ask } = limiting(three());
    const once = () => ask(everywhere(), { idempotencyKey: "order-3" });
    await limiter.settle(await once(), "giveBack");
    expect(await used(limiter, everywhere())).toEqual([0, 0, 0]);
    expect((await once()).replayed).toBe(false);
    expect(await used(limiter, everywhere())).toEqual([1, 1, 1]);
  });

  it("wins nothing by a race that one slot loses: the next try is charged in all", async () => {
    const { limiter, ask } = limiting(three({ c: 1 }));
    const tries = await Promise.all(
      Array.from({ length: 10 }, (_, i) => ask(everywhere(), { idempotencyKey: `try-${i}` })),
    );
    expect(tries.filter(({ allowed }) => allowed)).toHaveLength(1);
    await eventually(
      "the others are given back",
      async () => String(await used(limiter, everywhere())) === "1,1,1",
    );
    await limiter.reset(everywhere().c);
    const loser = tries.findIndex(({ allowed }) => !allowed);
    expect(await ask(everywhere(), { idempotencyKey: `try-${loser}` })).toMatchObject({
      allowed: true,
      replayed: false,
    });
    expect(await used(limiter, everywhere())).toEqual([2, 2, 1]);
  });
});

describe("a block", () => {
  it.each(["a", "b", "c"] as const)("of %s refuses all, and charges nobody", async (name) => {
    const { limiter, ask } = limiting(three(), { blocking: true });
    await limiter.block(everywhere()[name], "1h");
    expect(await ask(everywhere())).toMatchObject({ allowed: false, blocked: true, degraded: undefined });
    await limiter.unblock(everywhere()[name]);
    expect(await used(limiter, everywhere())).toEqual([0, 0, 0]);
    expect((await ask(everywhere())).allowed).toBe(true);
  });

  it("of an identity refuses it in each of its shards", async () => {
    const { limiter, ask } = limiting({ p: hourly(64, { shards: 8 }) }, { blocking: true });
    await limiter.block("bad", "1h");
    const decisions = await Promise.all(Array.from({ length: 30 }, () => ask("bad")));
    expect(decisions.filter(({ blocked }) => !blocked)).toEqual([]);
    expect((await ask("good")).allowed).toBe(true);
  });
});

/** One server says nothing until `back`. */
async function silent(name: string) {
  const server = await cluster.primaryOf(`{user:${name}}`);
  server.pause();
  const back = () => server.resume();
  onTestFinished(back);
  return { address: `127.0.0.1:${server.port}`, back };
}

describe("one server that says nothing", () => {
  it.each(["a", "b", "c"] as const)(
    "of %s: the rule answers in time, and nobody is charged",
    async (name) => {
      const { limiter, ask, degraded, events } = limiting(three(), { timeoutMs: 150, onFailure: "closed" });
      await eventually("all servers answer", async () => !(await ask(everywhere(), { cost: 0 })).degraded);
      events.length = 0;
      const { address, back } = await silent(everywhere()[name].value);
      const decision = await ask(everywhere());
      expect(decision).toMatchObject({ allowed: false, degraded: { rule: "closed", reason: "timeout" } });
      expect(degraded()).toEqual(["timeout"]);
      expect(events).toMatchObject([{ type: "storeError", reason: "timeout", server: address }, {}]);
      back();
      await eventually("it is well", () => events.some(({ type }) => type === "recovered"));
      expect(await used(limiter, everywhere())).toEqual([0, 0, 0]);
    },
  );

  it("refuses nobody where only policies on trial are counted there", async () => {
    const policies = { a: hourly(10), b: hourly(10, { mode: "shadow" }), c: hourly(10) };
    const { limiter, ask, events } = limiting(policies, { timeoutMs: 300, onFailure: "closed" });
    await eventually("all servers answer", async () => !(await ask(everywhere(), { cost: 0 })).degraded);
    const { back } = await silent(here.second[0]);
    const decisions: Decision[] = [];
    for (let i = 0; i < 8; i++) decisions.push(await ask(everywhere()));
    expect(decisions.map(({ allowed, degraded }) => [allowed, degraded])).toEqual(
      decisions.map(() => [true, undefined]),
    );
    expect(decisions[0]!.verdicts.map(({ policy, shadow }) => [policy, shadow])).toEqual([
      ["a", false],
      ["b", true],
      ["c", false],
    ]);
    back();
    await eventually("it is well", () => events.some(({ type }) => type === "recovered"));
    const [a, , c] = await used(limiter, everywhere());
    expect([a, c]).toEqual([8, 8]);
  });
});

describe("one server whose answer to a charge is lost", () => {
  it("the rule answers, and the others give back what they charged", async () => {
    const node = await cluster.primaryOf(`{user:${here.third[0]}}`);
    const proxy = await faultProxy(node);
    onTestFinished(() => proxy.close());
    const natMap = { [`127.0.0.1:${node.port}`]: { host: "127.0.0.1", port: proxy.port } };
    const subject = limiterOn(clientOf(cluster, { natMap }), { policies: three(), onFailure: "closed" });
    await subject.ask(everywhere(), { cost: 0 });
    /** No flag at its end: it is no look. */
    proxy.dropReplies(1, /evalsha\r\n[^]*\$0\r\n\r\n$/i);
    expect(await subject.ask(everywhere())).toMatchObject({
      allowed: false,
      degraded: { rule: "closed", reason: "connection" },
    });
    const looking = limiting(three(), { prefix: subject.prefix });
    // Whether it was charged where the answer was lost, nobody can know. It was.
    await eventually(
      "the others have given back",
      async () => String(await used(looking.limiter, everywhere())) === "0,0,1",
    );
    await eventually("it is well", async () => !(await subject.ask(everywhere())).degraded);
    expect(await used(looking.limiter, everywhere())).toEqual([1, 1, 2]);
  });
});

describe("shards", () => {
  const CELEBRITY = "celebrity";
  const split = (limit: number) => ({ p: hourly(limit, { shards: 8 }) });

  it.each([CELEBRITY, "acme", "42"])(
    "of %s are on all servers, none of which gets more than half of the calls",
    async (name) => {
      const { ask, prefix } = limiting(split(80_000));
      await ask(name, { cost: 0 });
      const before = await cluster.eachPrimary(scripts);
      // One after the other: nothing is merged.
      const decisions: Decision[] = [];
      for (let i = 0; i < 300; i++) decisions.push(await ask(name));
      expect(decisions.filter(({ allowed }) => !allowed)).toEqual([]);
      const calls = (await cluster.eachPrimary(scripts)).map((count, i) => count - before[i]!);
      expect(calls.reduce((sum, count) => sum + count, 0)).toBe(300);
      expect(Math.max(...calls)).toBeLessThanOrEqual(150);

      const units = await counted(prefix);
      expect([units.size, sumOf(units, ":p:")]).toEqual([8, 300]);
      const owners = [...(await keysOn(cluster, prefix)).values()].map(({ id }) => id);
      const shares = (await cluster.primaries()).map(
        ({ id }) => owners.filter((owner) => owner === id).length,
      );
      expect(shares.toSorted((a, b) => a - b)).toEqual([2, 3, 3]);
    },
  );

  it("never let in more than the limit, and all of it in the end; a reset forgets all of them", async () => {
    const { limiter, ask, prefix } = limiting(split(80));
    const atOnce = await Promise.all(Array.from({ length: 400 }, () => ask(CELEBRITY)));
    let admitted = atOnce.filter(({ allowed }) => allowed).length;
    expect(admitted).toBeLessThanOrEqual(80);
    for (let i = 0; i < 400; i++) if ((await ask(CELEBRITY)).allowed) admitted++;
    expect(admitted).toBe(80);
    expect(sumOf(await counted(prefix), ":p:")).toBe(80);
    await limiter.reset(CELEBRITY);
    expect([...(await keysOn(cluster, prefix)).keys()]).toEqual([]);
  });

  it("beside another identity's policy are charged together or not at all", async () => {
    const { limiter, ask, prefix } = limiting({ ...split(8), person: hourly(100) });
    const decisions = await Promise.all(
      Array.from({ length: 60 }, (_, i) => ask({ p: CELEBRITY, person: user(i % 3) })),
    );
    const admitted = decisions.filter(({ allowed }) => allowed).length;
    expect(admitted).toBeLessThanOrEqual(8);
    await eventually("no refused one is charged", async () => {
      const units = await counted(prefix);
      return sumOf(units, ":p:") === admitted && sumOf(units, ":person:") === admitted;
    });
    await limiter.settle(
      decisions.find(({ allowed }) => allowed)!,
      "giveBack",
    );
    const units = await counted(prefix);
    expect([sumOf(units, ":p:"), sumOf(units, ":person:")]).toEqual([admitted - 1, admitted - 1]);
  });
});

const scripts = async ({ client }: ClusterNode): Promise<number> => {
  const told = await client.info("commandstats");
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(told)?.[1] ?? 0);
};

describe("a policy of this process", () => {
  it("is decided first, and given back when a slot refuses or its server is away", async () => {
    const policies = { ...three({ b: 2 }), mine: hourly(10, { by: globally(), scope: "process" }) };
    const { limiter, ask, prefix, events } = limiting(policies, { timeoutMs: 150, onFailure: "closed" });
    await eventually("all servers answer", async () => !(await ask(everywhere(), { cost: 0 })).degraded);
    const allowed = [];
    for (let i = 0; i < 4; i++) allowed.push((await ask(everywhere())).allowed);
    expect(allowed).toEqual([true, true, false, false]);
    expect(await used(limiter, everywhere())).toEqual([2, 2, 2, 2]);
    const { back } = await silent(here.third[0]);
    expect((await ask({ ...everywhere(), b: user(here.second[1]) })).degraded?.rule).toBe("closed");
    back();
    await eventually("it is well", () => events.some(({ type }) => type === "recovered"));
    expect(await used(limiter, everywhere())).toEqual([2, 2, 2, 2]);
    expect([...(await keysOn(cluster, prefix)).keys()].filter((key) => key.includes(":mine:"))).toEqual([]);
  });
});

describe("waiting", () => {
  it("lasts as long as the slowest slot says, and takes from all", async () => {
    const { limiter, ask } = limiting({
      a: slidingWindow({ limit: 100, window: "1h" }),
      b: fixedWindow({ limit: 1, window: 700 }),
    });
    const identity = { a: user(here.first[0]), b: user(here.second[0]) };
    const first = await ask(identity);
    const start = performance.now();
    const second = await limiter.wait({ identity, maxWaitMs: 10_000 });
    expect([first.allowed, second.allowed]).toEqual([true, true]);
    expect(performance.now() - start).toBeGreaterThan(400);
    expect((await limiter.peek({ identity })).verdicts[0]!.remaining).toBe(98);
  });
});

describe("windows of the calendar", () => {
  it.each(["fw day", "fw month", "fw clock"])("%s in several slots: exactly the limit", async (algorithm) => {
    const { limiter, ask } = limiting({
      a: policyOf(algorithm, 10),
      b: policyOf(algorithm, 5),
      c: hourly(10),
    });
    const allowed = [];
    for (let i = 0; i < 7; i++) allowed.push((await ask(everywhere())).allowed);
    expect(allowed).toEqual([true, true, true, true, true, false, false]);
    expect(await used(limiter, everywhere())).toEqual([5, 5, 5]);
  });
});
