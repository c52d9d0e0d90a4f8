/** What every store promises, of a Cluster that is not let alone. */
import { setTimeout as sleep } from "node:timers/promises";
import { createLimiter } from "@tidegate/core";
import { Cluster } from "ioredis";
import { expect } from "vitest";
import { type StoreSubject, storeContract } from "../contract/store.ts";
import { slotOf, startClusterOf, type TestCluster } from "../harness/cluster.ts";
import { refusals } from "./clustered.ts";

const PASSWORD = "a-password";

/** A user who may touch keys of these tests' prefixes alone, on every server. */
const makeUser = async (cluster: TestCluster) => {
  const words = ["app", "on", `>${PASSWORD}`, "resetchannels", `~t${process.pid}-*`, "+@all"];
  await Promise.all(cluster.nodes.map(({ client }) => client.call("ACL", "SETUSER", ...words)));
};

/** A limiter of its own client, as another process would have it. */
function subjectOn(cluster: TestCluster): Omit<StoreSubject, "stop"> {
  return {
    limiter(wanted) {
      const redisOptions = { username: "app", password: PASSWORD };
      const redis = new Cluster([...cluster.startupNodes], { redisOptions, lazyConnect: true });
      return createLimiter({ redis, ...wanted });
    },
    async lifetimes(prefix) {
      const found = await cluster.eachPrimary(async ({ client }) => {
        const keys = await client.keys(`${prefix}:*`);
        return Promise.all(keys.map(async (key): Promise<[string, number]> => [key, await client.pttl(key)]));
      });
      return new Map(found.flat());
    },
    forgetScripts: () => cluster.eachPrimary(({ client }) => client.script("FLUSH")),
  };
}

storeContract("P47 a limiter on a Cluster, as a user who may touch keys of its prefix alone", async () => {
  const cluster = await startClusterOf({ replicas: 1 });
  await makeUser(cluster);
  return { ...subjectOn(cluster), stop: () => cluster.stop() };
});

/** Whom the contract asks for, most of the time. */
const SLOTS = ["id:somebody", "user:a", "tenant:b", ...Array.from({ length: 40 }, (_, i) => `user:${i}`)].map(
  (tag) => slotOf(`{${tag}}`),
);

/** All the time, their slots go from each primary to the next and back. Nobody looks at keys while they are on their way. */
function moving(cluster: TestCluster) {
  let turn: Promise<unknown> = Promise.resolve();
  let goesOn = true;
  const alone = <T>(act: () => Promise<T>): Promise<T> => {
    const result = turn.then(act, act);
    turn = result.catch(() => {});
    return result;
  };
  async function toAndFro(): Promise<void> {
    const primaries = await cluster.primaries();
    const homeOf = (slot: number) => Math.floor((slot * primaries.length) / 16384);
    const sets = primaries.map((_, i) => [...new Set(SLOTS)].filter((slot) => homeOf(slot) === i));
    for (let there = true; goesOn; there = !there)
      // All have heard of a slot's new owner when it goes on.
      for (const [i, slots] of sets.entries()) {
        const [home, away] = [primaries[i]!, primaries[(i + 1) % primaries.length]!];
        await alone(() => cluster.moveSlots(there ? home : away, there ? away : home, slots));
        await sleep(5);
      }
  }
  const done = toAndFro();
  done.catch(() => {});
  return { alone, end: () => ((goesOn = false), done) };
}

storeContract("a limiter on a Cluster whose slots move all the time", async () => {
  const cluster = await startClusterOf({ replicas: 1 });
  await makeUser(cluster);
  const { alone, end } = moving(cluster);
  const subject = subjectOn(cluster);
  return {
    ...subject,
    lifetimes: (prefix) => alone(() => subject.lifetimes(prefix)),
    async stop() {
      try {
        await end();
        expect(await refusals(cluster, "MOVED")).toBeGreaterThan(0);
      } finally {
        await cluster.stop();
      }
    },
  };
});
