/** A limiter over a Cluster: where its keys are, and what becomes of its decisions while scripts are lost, slots move, and a server is added. */
import { setTimeout as sleep } from "node:timers/promises";
import {
  type Decision,
  fixedWindow,
  globally,
  type Identity,
  slidingWindow,
  tokenBucket,
  user,
} from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { used } from "../cases/asking.ts";
import { names as algorithms, policyOf, rates } from "../decisions/algorithms.ts";
import { type ClusterNode, startClusterOf, type TestCluster } from "../harness/cluster.ts";
import { callsOf, resetStats } from "../harness/live.ts";
import {
  clientOf,
  type Clustered,
  counting,
  during,
  expectWell,
  keysOn,
  limiterOn,
  namesOn,
  refusals,
  slotOfName,
} from "./clustered.ts";

let cluster: TestCluster;
beforeAll(async () => void (cluster = await startClusterOf({ replicas: 1 })));
afterAll(() => cluster.stop());

const limiting = (config: Parameters<typeof limiterOn>[1]) => limiterOn(clientOf(cluster), config);

/** More than any test asks for: whoever is refused here is refused by a fault. */
const PLENTY = 100_000;

/** Several policies of an identity: a script of several keys. */
const plenty = () => ({
  burst: tokenBucket({ capacity: PLENTY, refillPerSecond: 0.001 }),
  hour: slidingWindow({ limit: PLENTY, window: "2h" }),
  day: fixedWindow({ limit: PLENTY, window: "1d" }),
});

const TIGHT = 20;

/** One of every algorithm that counts units. */
const tight = () => Object.fromEntries(rates.map((rate, i) => [`p${i}`, policyOf(rate, TIGHT)]));

const first = async () => (await cluster.primaries()) as [ClusterNode, ClusterNode, ClusterNode];

describe("300 first decisions", () => {
  it("at once, by a limiter that has just been made: each is decided by the server that has its slot", async () => {
    const subject = limiting({ policies: { p: fixedWindow({ limit: 10, window: "1h" }) } });
    const decisions = await Promise.all(Array.from({ length: 300 }, (_, i) => subject.ask(user(i))));
    expectWell([subject], decisions);
    expect(decisions.map(({ allowed, verdicts: [verdict] }) => [allowed, verdict!.remaining])).toEqual(
      decisions.map(() => [true, 9]),
    );

    const found = await keysOn(cluster, subject.prefix);
    expect([...found.keys()].sort()).toEqual(
      decisions.map((_, i) => `${subject.prefix}:{user:${i}}:p:fw`).sort(),
    );
    const primaries = await first();
    const shares = primaries.map(({ id }) => [...found.values()].filter((node) => node.id === id).length);
    expect(Math.min(...shares)).toBeGreaterThan(60);
  });

  it("are exact for a second limiter, and for decisions of everybody's identity beside them", async () => {
    const policies = {
      person: fixedWindow({ limit: 2, window: "1h" }),
      all: fixedWindow({ limit: PLENTY, window: "1h", by: globally() }),
    };
    const one = limiting({ policies });
    const other = limiting({ policies, prefix: one.prefix });
    const ask = (i: number) => [one, other, one][i % 3]!.ask(user(Math.floor(i / 3)));
    const decisions = await Promise.all(Array.from({ length: 600 }, (_, i) => ask(i)));
    expectWell([one, other], decisions);
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(400);
    for (let i = 0; i < 600; i += 3)
      expect(decisions.slice(i, i + 3).filter(({ allowed }) => allowed)).toHaveLength(2);
  });
});

describe("the keys of a decision", () => {
  const strange = ["a{b", "{}", "{x}{y}", "}{", "", "x".repeat(1024), "{user:1}", "a{}b", "\u0000{", "1}"];

  /** Slots of all keys under a prefix, as a server tells them. */
  async function slotsOf(prefix: string): Promise<Map<string, number>> {
    const slots = new Map<string, number>();
    for (const [key, node] of await keysOn(cluster, prefix))
      slots.set(key, Number(await node.client.call("CLUSTER", "KEYSLOT", key)));
    return slots;
  }

  it.each(algorithms)("P03 of %s, 1 to 5 policies: are all in one slot", async (algorithm) => {
    for (let count = 1; count <= 5; count++) {
      const policies = Array.from({ length: count }, (_, i) => [`p${i}`, policyOf(algorithm, 10)]);
      const { limiter, ask, prefix, events } = limiting({
        policies: Object.fromEntries(policies),
        blocking: true,
      });
      const more = algorithm === "cc" ? {} : { idempotencyKey: "k" };
      const decision = await ask(user("somebody"), more);
      expect(decision.allowed && !decision.degraded).toBe(true);
      await limiter.block(user("somebody"), "1h");
      const slots = await slotsOf(prefix);
      expect(slots.size).toBe(count + 1 + (algorithm === "cc" ? 0 : 1));
      expect(new Set(slots.values())).toEqual(new Set([slotOfName("somebody", "user")]));
      expect(events.filter(({ type }) => type !== "audit")).toEqual([]);
    }
  });

  it("P03 of strange names: are in one slot each, and no two names share any", async () => {
    const given = strange.filter((name) => name !== "");
    const { ask, prefix } = limiting({ policies: tight() });
    const decisions: Decision[] = [];
    for (const name of given) for (let i = 0; i < TIGHT + 2; i++) decisions.push(await ask(name));
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(given.length * TIGHT);
    const byTag = new Map<string, Set<number>>();
    for (const [key, slot] of await slotsOf(prefix)) {
      const tag = key.slice(0, key.indexOf("}") + 1);
      byTag.set(tag, (byTag.get(tag) ?? new Set()).add(slot));
      expect(Buffer.byteLength(key)).toBeLessThanOrEqual(256);
    }
    expect(byTag.size).toBe(given.length);
    expect([...byTag.values()].map(({ size }) => size)).toEqual(given.map(() => 1));
    await expect(ask("")).rejects.toMatchObject({ code: "TIDEGATE_IDENTITY_MISSING" });
  });

  const owned: [string, (names: string[][]) => Record<string, Identity>, string][] = [
    ["two slots of it", ([own]) => ({ a: user(own![0]!), b: user(own![1]!) }), "CROSSSLOT"],
    ["a slot of another", ([, other]) => ({ a: user(other![0]!), b: user(other![0]!) }), "MOVED"],
  ];

  it.each(owned)(
    "P03 of a limiter that knows one server, in %s: a store error, and never allowed",
    async (_, of, code) => {
      const [server] = await first();
      const identity = of(await namesOn(cluster, 2, "user"));
      // Who gives the address of one node has no Cluster client that would know.
      const { ask, events } = limiterOn(server.url, {
        policies: { a: policyOf("fw first", 10), b: policyOf("tb", 10) },
        onFailure: "closed",
      });
      expect(await ask(identity)).toMatchObject({
        allowed: false,
        degraded: { rule: "closed" },
        verdicts: [],
      });
      expect(events).toMatchObject([
        { type: "storeError", message: expect.stringContaining(`(${code})`) },
        { type: "degraded", rule: "closed" },
      ]);
    },
  );
});

/** Servers forget their scripts. */
const flush = () => cluster.eachPrimary(({ client }) => client.script("FLUSH"));

describe("servers that have lost the script", () => {
  /** One identity on each server. */
  const someOf = async () => (await namesOn(cluster, 1)).flat();

  const calls = (command: string) => cluster.eachPrimary((node) => callsOf(node, command));

  it("P04 T1 three decisions on each, SCRIPT FLUSH, a fourth: four are counted, none fails", async () => {
    const subject = limiting({ policies: tight() });
    const names = await someOf();
    const decisions: Decision[] = [];
    for (let i = 0; i < 4; i++) {
      if (i === 3) await flush();
      for (const name of names) decisions.push(await subject.ask(name));
    }
    expectWell([subject], decisions);
    for (const name of names) expect(await used(subject.limiter, name)).toEqual(rates.map(() => 4));
  });

  it("P04 T2 SCRIPT FLUSH, then 50 at once on each: 50 are counted, the text is sent once to each", async () => {
    const subject = limiting({ policies: plenty() });
    const names = await someOf();
    await Promise.all(names.map((name) => subject.ask(name, { cost: 0 })));
    await cluster.eachPrimary(resetStats);
    await flush();
    const decisions = await Promise.all(
      Array.from({ length: 150 }, (_, i) => subject.ask(names[i % names.length]!)),
    );
    expectWell([subject], decisions);
    for (const name of names) expect(await used(subject.limiter, name)).toEqual([50, 50, 50]);
    expect(await calls("eval")).toEqual([1, 1, 1]);
    expect(await calls("script|load")).toEqual([0, 0, 0]);
  });

  it("P04 T3 flushed before each of 20 decisions: still exact", async () => {
    const subject = limiting({ policies: plenty() });
    const names = await someOf();
    const decisions: Decision[] = [];
    for (let i = 0; i < 20; i++) {
      await flush();
      decisions.push(...(await Promise.all(names.map((name) => subject.ask(name)))));
    }
    expectWell([subject], decisions);
    for (const name of names) expect(await used(subject.limiter, name)).toEqual([20, 20, 20]);
  });

  it("P04 T4 flushed inside a MULTI, on one server after the other, under load: still exact", async () => {
    const subject = limiting({ policies: plenty() });
    const names = (await namesOn(cluster, 10)).flat();
    const { ask, expectCounted } = counting(subject, names);
    const decisions = await during(async () => {
      for (let i = 0; i < 15; i++) {
        const { client } = (await first())[i % 3]!;
        await client.multi().script("FLUSH").ping().exec();
        await sleep(20);
      }
    }, ask);
    expectWell([subject], decisions);
    await expectCounted();
  });
});

describe("slots that move", () => {
  it("1,500 of them, under load: no decision fails, and every unit is counted", async () => {
    const wide = limiting({ policies: plenty() });
    const narrow = limiting({ policies: tight() });
    const [many, few] = [counting(wide, namesOf("w", 300)), counting(narrow, namesOf("t", 100))];
    const [from, to] = await first();
    const before = await refusals(cluster, "MOVED");
    let fresh = 0;
    const asks = [many.ask, few.ask, () => wide.ask(`new${fresh++}`)];
    const start = performance.now();
    let longest = 0;
    const decisions = await during(
      () => cluster.moveSlots(from, to, 1500),
      async (i) => {
        const askedAt = performance.now();
        const decision = await asks[i % 3]!(Math.floor(i / 3));
        longest = Math.max(longest, performance.now() - askedAt);
        return decision;
      },
    );
    console.log(
      `1,500 slots moved in ${Math.round(performance.now() - start)} ms, ${decisions.length} decisions meanwhile, the longest of ${Math.round(longest)} ms`,
    );
    decisions.push(...(await few.exhaust(TIGHT)));
    expectWell([wide, narrow], decisions);

    expect(await refusals(cluster, "MOVED")).toBeGreaterThan(before);
    expect(decisions.filter(({ allowed }) => !allowed).length).toBeGreaterThan(0);
    expect([...few.admitted.values()]).toEqual(namesOf("t", 100).map(() => TIGHT));
    await many.expectCounted();
    await few.expectCounted();
    for (let i = 0; i < fresh; i += 100) expect(await used(wide.limiter, `new${i}`)).toEqual([1, 1, 1]);
  });

  /** Opens the slot of a name, so that its keys may be here or there. `end`: it has moved. */
  async function half(name: string) {
    const [from, slot] = [await cluster.primaryOf(`{id:${name}}`), slotOfName(name)];
    const to = (await first()).find(({ id }) => id !== from.id)!;
    await to.client.call("CLUSTER", "SETSLOT", slot, "IMPORTING", from.id);
    await from.client.call("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id);
    let ended: Promise<unknown> | undefined;
    const end = async () => void (await (ended ??= cluster.moveSlots(from, to, [slot])));
    onTestFinished(end);
    return { from, to, end };
  }

  it("half of an identity's keys here, half there, for a while: it waits for that, and counts once", async () => {
    const subject = limiting({ policies: plenty() });
    const [name, other] = ["half-moved", "elsewhere"];
    await Promise.all([subject.ask(name), subject.ask(other)]);
    const { from, to, end } = await half(name);
    const key = `${subject.prefix}:{id:${name}}:day:fw`;
    await from.client.call("MIGRATE", to.host, to.port, key, 0, 5000);
    const before = await refusals(cluster, "TRYAGAIN");
    const answer = subject.ask(name);
    expect((await subject.ask(other)).degraded).toBeUndefined();
    await sleep(120);
    await end();
    expectWell([subject], [await answer]);
    expect(await refusals(cluster, "TRYAGAIN")).toBeGreaterThan(before);
    expect(await used(subject.limiter, name)).toEqual([2, 2, 2]);
  });

  it.each<[string, (subject: Clustered, decision: Decision, name: string) => Promise<void>, number[]]>([
    ["giving back", ({ limiter }, decision) => limiter.settle(decision, "giveBack"), [0, 0, 0]],
    ["charging more", ({ limiter }, decision) => limiter.settle(decision, 3), [3, 3, 3]],
    ["a reset", ({ limiter }, _, name) => limiter.reset(name), [0, 0, 0]],
  ])("%s of keys that are half here, half there: waits for that, and is done", async (what, act, units) => {
    const subject = limiting({ policies: plenty() });
    const name = `half-moved by ${what.replaceAll(" ", "-")}`.replaceAll(" ", "-");
    const decision = await subject.ask(name);
    const { from, to, end } = await half(name);
    await from.client.call("MIGRATE", to.host, to.port, `${subject.prefix}:{id:${name}}:day:fw`, 0, 5000);
    const done = act(subject, decision, name);
    await sleep(120);
    await end();
    await done;
    expect(await used(subject.limiter, name)).toEqual(units);
  });

  it("longer than the deadline: the rule answers in time, for that slot alone", async () => {
    const subject = limiting({ policies: plenty(), timeoutMs: 500, onFailure: "closed" });
    const name = "on-its-way";
    const { end } = await half(name);
    const others = (await namesOn(cluster, 5)).flat();
    for (const other of others) await subject.ask(other);
    const decisions = await Promise.all(Array.from({ length: 10 }, () => subject.ask(name)));
    expect(decisions.filter(({ allowed }) => allowed)).toEqual([]);
    expect(decisions.map(({ degraded }) => degraded!.reason)).toContain("moving");
    expect(subject.limiter.health().breaker).toBe("closed");
    const neighbours = await Promise.all(others.map((other) => subject.ask(other)));
    expect(neighbours.map(({ degraded }) => degraded)).toEqual(others.map(() => undefined));
    await end();
    expect((await subject.ask(name)).allowed).toBe(true);
    expect(await used(subject.limiter, name)).toEqual([1, 1, 1]);
  });
});

const namesOf = (letter: string, count: number): string[] =>
  Array.from({ length: count }, (_, i) => `${letter}${i}`);

describe("a fourth primary", () => {
  it("that is added and given slots under load: no decision fails, it gets its share and the script", async () => {
    const wide = limiting({ policies: plenty() });
    const narrow = limiting({ policies: tight() });
    const [many, few] = [counting(wide, namesOf("w", 300)), counting(narrow, namesOf("t", 100))];
    const asks = [many.ask, few.ask];
    let fourth!: ClusterNode;
    let moved!: number[];
    const decisions = await during(
      async () => {
        fourth = await cluster.addPrimary();
        const others = await first();
        const taken = others.slice(0, 3).map((node) => cluster.moveSlots(node, fourth, 500));
        moved = (await Promise.all(taken)).flat();
        await sleep(200);
      },
      (i) => asks[i % 2]!(Math.floor(i / 2)),
      8,
    );
    decisions.push(...(await few.exhaust(TIGHT)));
    expectWell([wide, narrow], decisions);

    expect([...few.admitted.values()]).toEqual(namesOf("t", 100).map(() => TIGHT));
    await many.expectCounted();
    await few.expectCounted();
    const there = namesOf("w", 300).filter((name) => moved.includes(slotOfName(name)));
    expect(there.length).toBeGreaterThan(0);
    const found = await keysOn(cluster, wide.prefix);
    for (const name of there) expect(found.get(`${wide.prefix}:{id:${name}}:day:fw`)?.id).toBe(fourth.id);
    expect(await callsOf(fourth, "evalsha")).toBeGreaterThan(there.length);
    // Loaded beforehand, once for each limiter: no decision had to bring it.
    expect(await callsOf(fourth, "script|load")).toBeGreaterThanOrEqual(1);
  });
});
