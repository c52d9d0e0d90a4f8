/** A primary that hangs until its replica takes over: limiters through every library, all at the same time. */
import { setTimeout as sleep } from "node:timers/promises";
import { createLimiter, fixedWindow, type Limiter } from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ClusterNode, startClusterOf, type TestCluster } from "../harness/cluster.ts";
import { eventually } from "../harness/eventually.ts";
import { freshPrefix } from "../harness/pair.ts";
import { type ClusterApp, libraries, waysOf } from "./libraries.ts";

/** More than a busy machine keeps a process waiting, milliseconds. */
const TIMEOUT_MS = 500;

/** How much later than its deadline a decision may be on a busy machine, milliseconds. */
const SLACK_MS = 500;

/** How soon after the promotion a limiter decides by the new primary, milliseconds. */
const LEARNED_MS = 3000;

const ways = waysOf(libraries);

/** Identities of two shards. */
const [STRUCK, SPARED] = ["somebody", "somebody else"] as const;

interface Asked {
  readonly at: number;
  readonly ms: number;
  readonly degraded: boolean;
}

class Subject {
  readonly prefix = freshPrefix();
  /** Decisions by the primary that hangs and its heir; and by another. */
  readonly struck: Asked[] = [];
  readonly spared: Asked[] = [];
  readonly app: ClusterApp;
  readonly limiter: Limiter;

  constructor(cluster: TestCluster, { library, share }: (typeof ways)[number]) {
    this.app = library.cluster({ ports: cluster.nodes.map(({ port }) => port) });
    if (share && !library.connectsItself) this.app.connect().catch(() => {});
    this.limiter = createLimiter({
      redis: this.app.redis,
      shareConnection: share,
      prefix: this.prefix,
      policies: { p: fixedWindow({ limit: 10_000, window: "1h" }) },
      timeoutMs: TIMEOUT_MS,
      onFailure: "open",
    });
  }

  key = (identity: string) => `${this.prefix}:{id:${identity}}:p:fw`;

  async ask(identity: string, notes: Asked[] = []): Promise<boolean> {
    const at = performance.now();
    const { degraded } = await this.limiter.decide({ identity });
    notes.push({ at, ms: performance.now() - at, degraded: degraded !== undefined });
    return !degraded;
  }

  async close(): Promise<void> {
    await this.limiter.close();
    this.app.end();
  }
}

describe("a primary that hangs", () => {
  let cluster: TestCluster;
  let subjects: Subject[];
  let heir: ClusterNode;
  let promotedAt: number;

  beforeAll(async () => {
    cluster = await startClusterOf({ primaries: 3, replicas: 1, fullCoverage: false });
    subjects = ways.map((way) => new Subject(cluster, way));
    const victim = await cluster.primaryOf(`{id:${STRUCK}}`);
    expect((await cluster.primaryOf(`{id:${SPARED}}`)).id).not.toBe(victim.id);
    for (const subject of subjects)
      for (const identity of [STRUCK, SPARED])
        await eventually("Redis decides", () => subject.ask(identity), 10_000);
    await sleep(200); // Until the replica has it all.
    victim.pause();
    let isOver = false;
    const asking = subjects.map(async (subject) => {
      while (!isOver) {
        await Promise.all([
          subject.ask(STRUCK, subject.struck),
          subject.ask(SPARED, subject.spared),
          sleep(50),
        ]);
      }
    });
    heir = await cluster.failedOver(victim);
    promotedAt = performance.now();
    const isWell = ({ struck }: Subject) => {
      const last = struck.at(-1)!;
      return last.at > promotedAt && !last.degraded;
    };
    // Whoever does not come so far is found by its own test.
    await eventually("all are well", () => subjects.every(isWell), LEARNED_MS).catch(() => {});
    await sleep(500);
    isOver = true;
    await Promise.all(asking);
  });
  afterAll(async () => {
    for (const subject of subjects) await subject.close();
    await cluster.stop();
  });

  const rows = ways.map(({ title }, i) => [title, i] as const);

  it.each(rows)("every decision is made in time: %s", (_, i) => {
    const { struck, spared } = subjects[i]!;
    expect(Math.max(...[...struck, ...spared].map(({ ms }) => ms))).toBeLessThan(TIMEOUT_MS + SLACK_MS);
  });

  it.each(rows)("the other shards do not notice: %s", (_, i) => {
    expect(subjects[i]!.spared.filter(({ degraded }) => degraded)).toEqual([]);
  });

  it.each(rows)("the new primary decides soon after its promotion, and goes on: %s", (_, i) => {
    const { struck } = subjects[i]!;
    const last = struck.findLast(({ degraded }) => degraded)!;
    expect(last.at - promotedAt).toBeLessThan(LEARNED_MS);
    expect(struck.at(-1)).toMatchObject({ degraded: false });
  });

  it.each(rows)("what was decided is what is counted there: %s", async (_, i) => {
    const { struck, key } = subjects[i]!;
    const before = 1;
    const counted = struck.filter(({ degraded }) => !degraded).length + before;
    expect(Number(await heir.client.get(key(STRUCK)))).toBe(counted);
  });

  const shared = rows.filter((_, i) => ways[i]!.share);

  it.each(shared)("the application's own commands go to the new primary as well: %s", async (_, i) => {
    const { app, key } = subjects[i]!;
    expect(Number(await app.ask("GET", key(STRUCK)))).toBeGreaterThan(1);
  });
});
