/** Limiters on a Cluster, traffic over all of its nodes, and what is found there afterwards. */
import {
  type Config,
  createLimiter,
  type Decision,
  type DecideRequest,
  type Limiter,
  type TidegateEvent,
} from "@tidegate/core";
import { Cluster, type ClusterOptions } from "ioredis";
import { expect, onTestFinished } from "vitest";
import { used } from "../cases/asking.ts";
import type { ClusterNode, TestCluster } from "../harness/cluster.ts";
import { slotOf } from "../harness/cluster.ts";
import { freshPrefix } from "../harness/pair.ts";

/** An application's own client, as applications make them. */
export function clientOf(
  { startupNodes }: TestCluster,
  options: Pick<ClusterOptions, "natMap" | "lazyConnect"> = {},
): Cluster {
  const client = new Cluster([...startupNodes], options);
  client.on("error", () => {});
  onTestFinished(() => client.disconnect());
  return client;
}

export interface Clustered {
  readonly limiter: Limiter;
  readonly prefix: string;
  /** All that it told. */
  readonly events: TidegateEvent[];
  /** Decides for `identity`, and remembers how that came out. */
  readonly ask: (identity: DecideRequest["identity"], more?: Partial<DecideRequest>) => Promise<Decision>;
  /** What the rule answered, by its reasons: none where the Cluster answered everything. */
  readonly degraded: () => string[];
}

/** A limiter that has decided nothing yet. It is patient, unless a test is about its deadline. */
export function limiterOn(redis: Config["redis"], config: Partial<Config> = {}): Clustered {
  const events: TidegateEvent[] = [];
  const prefix = config.prefix ?? freshPrefix();
  const limiter = createLimiter({
    redis,
    prefix,
    timeoutMs: 10_000,
    onEvent: (event) => events.push(event),
    ...config,
  });
  onTestFinished(() => limiter.close());
  return {
    limiter,
    prefix,
    events,
    ask: (identity, more) => limiter.decide({ identity, ...more }),
    degraded: () => events.flatMap((event) => (event.type === "degraded" ? [event.reason] : [])),
  };
}

/** Everything that a limiter said, and how all of its decisions came out: nothing of where keys are, and nothing failed. */
export function expectWell(subjects: readonly Clustered[], decisions: readonly Decision[]): void {
  expect(subjects.flatMap(({ events }) => events)).toEqual([]);
  expect(decisions.filter(({ degraded }) => degraded)).toEqual([]);
}

/** Asks again and again, so many at a time, while something happens. Gives all that was answered. */
export async function during<T>(
  happens: () => Promise<unknown>,
  ask: (i: number) => Promise<T>,
  workers = 16,
): Promise<T[]> {
  const answers: T[] = [];
  let [asked, goesOn] = [0, true];
  const worker = async () => {
    while (goesOn) answers.push(await ask(asked++));
  };
  const all = Promise.all(Array.from({ length: workers }, worker));
  try {
    await happens();
  } finally {
    goesOn = false;
  }
  await all;
  return answers;
}

export interface Counting {
  /** Asks for the next name, by its number. */
  readonly ask: (i: number) => Promise<Decision>;
  /** Of each name, how often it was let in. */
  readonly admitted: ReadonlyMap<string, number>;
  /** Asks for each name so often, and some more. */
  readonly exhaust: (times: number) => Promise<Decision[]>;
  /** Every policy of every name has counted as many units as were admitted. */
  readonly expectCounted: () => Promise<void>;
}

/** Asks for these names in turn, one unit each, and keeps count. */
export function counting({ limiter, ask }: Clustered, names: readonly string[]): Counting {
  const admitted = new Map(names.map((name) => [name, 0]));
  async function one(name: string): Promise<Decision> {
    const decision = await ask(name);
    if (decision.allowed) admitted.set(name, admitted.get(name)! + 1);
    return decision;
  }
  return {
    ask: (i) => one(names[i % names.length]!),
    admitted,
    async exhaust(times) {
      const rounds = [];
      for (let i = 0; i < times + 2; i++) rounds.push(...(await Promise.all(names.map(one))));
      return rounds;
    },
    async expectCounted() {
      const counts = await Promise.all(names.map((name) => used(limiter, name)));
      const expected = [...admitted.values()].map((units, i) => counts[i]!.map(() => units));
      expect(counts).toEqual(expected);
    },
  };
}

/** All keys under a prefix, and which primary has each. */
export async function keysOn(cluster: TestCluster, prefix: string): Promise<Map<string, ClusterNode>> {
  const found = await cluster.eachPrimary(async (node) => {
    const keys = await node.client.keys(`${prefix}:*`);
    return keys.map((key): [string, ClusterNode] => [key, node]);
  });
  return new Map(found.flat());
}

/** How often each primary has refused a command with these codes, by what it counts itself. */
export async function refusals(cluster: TestCluster, code: "MOVED" | "ASK" | "TRYAGAIN"): Promise<number> {
  const counts = await cluster.eachPrimary(async ({ client }) => {
    const told = await client.info("errorstats");
    return Number(new RegExp(`errorstat_${code}:count=(\\d+)`).exec(told)?.[1] ?? 0);
  });
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Names whose keys are on each of these nodes, so many for each. */
export async function namesOn(cluster: TestCluster, each: number, kind = "id"): Promise<string[][]> {
  const primaries = await cluster.primaries();
  const names: string[][] = primaries.map(() => []);
  for (let i = 0; names.some(({ length }) => length < each); i++) {
    const owner = await cluster.primaryOf(`{${kind}:n${i}}`);
    const own = names[primaries.findIndex(({ id }) => id === owner.id)]!;
    if (own.length < each) own.push(`n${i}`);
  }
  return names;
}

/** The same for identities of one kind, whatever the prefix: their tag chooses the slot. */
export const slotOfName = (name: string, kind = "id"): number => slotOf(`{${kind}:${name}}`);
