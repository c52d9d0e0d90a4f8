/** What the scripts promise of a server: few texts, declared keys, a clock that runs on while they do. */
import {
  type Check,
  type Config,
  createLimiter,
  type Decision,
  fixedWindow,
  ioredisClient,
  type Policy,
  redisStore,
  type ScriptClient,
  slidingLog,
  type Store,
} from "@tidegate/core";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { freshPrefix } from "../harness/pair.ts";
import { type RedisServer, startCluster, startRedis } from "../harness/redis.ts";
import { calmZone, names, policyOf, rates } from "./algorithms.ts";
import { checkOf, decideAll } from "./asking.ts";

describe("the scripts on a server", () => {
  let server: RedisServer;
  let store: Store;
  beforeAll(async () => {
    server = await startRedis();
    store = redisStore(ioredisClient(server.url));
  });
  afterAll(async () => {
    await store.close();
    await server.stop();
  });

  it("are five at most, after 1,000 different limits, windows and prefixes", async () => {
    const each = Array.from({ length: 1000 }, async (_, i) => {
      const name = names[i % names.length]!;
      const policies = {
        [`p${i}`]: policyOf(name, i + 1 > 1000 ? 1000 : i + 1),
        extra: fixedWindow({ limit: i, window: 1000 + i }),
      };
      const limiter = createLimiter({
        store,
        prefix: `service-${i}`,
        policies,
        blocking: i % 2 === 0,
        timeoutMs: 10_000,
      });
      const identity = `somebody-${i}`;
      const decision = await limiter.decide({
        identity,
        cost: (i % 3) + 1,
        ...(i % 5 === 0 && { idempotencyKey: "k" }),
      });
      expect(decision.degraded).toBeUndefined();
      await limiter.settle(decision, i % 4);
      if (i % 2 === 0) await limiter.block(identity, 1000 + i);
      await limiter.reset(identity);
    });
    await Promise.all(each);
    const scripts = /number_of_cached_scripts:(\d+)/.exec(await server.client.info("memory"))?.[1];
    expect(Number(scripts)).toBeGreaterThan(0);
    expect(Number(scripts)).toBeLessThanOrEqual(5);
  });

  it.each(rates)(
    "take their own time into account: a batch that runs for milliseconds forgets no count: %s",
    async (name) => {
      const prefix = freshPrefix();
      const policy = policyOf(name, 3);
      const key = `${prefix}:{id:x}:p:${policy.algorithm.tag}`;
      const [full] = await decideAll(store, [checkOf(policy, key, { costs: [3] })]);
      expect(full!.granted).toBe(true);
      const log = slidingLog({ limit: 1000, window: "30m" });
      const slow = Array.from({ length: 20 }, (_, i) =>
        checkOf(log, `${prefix}:{id:${i}}:p:sl`, { costs: [1000] }),
      );
      const outcomes = await decideAll(store, [...slow, checkOf(policy, key)]);
      expect(outcomes.map(({ granted }) => granted)).toEqual([...slow.map(() => true), false]);
    },
  );
});

describe("a Cluster of one node", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startCluster();
  });
  afterAll(() => server.stop());

  /** A client whose every run of a script may touch the keys it declared, and no others. */
  async function guarded(): Promise<ScriptClient> {
    const admin = server.client;
    const name = freshPrefix();
    await admin.call("ACL", "SETUSER", name, "on", "nopass", "+@all", "resetkeys");
    const client = ioredisClient(
      new Redis(server.port, "127.0.0.1", { username: name, password: "any", lazyConnect: true }),
    );
    onTestFinished(() => client.close());
    return {
      ...client,
      onState: (listener: () => void) => client.onState(listener),
      get state() {
        return client.state;
      },
      get trouble() {
        return client.trouble;
      },
      send(command, args, done) {
        if (command !== "evalsha" && command !== "eval") return client.send(command, args, done);
        const keys = args.slice(2, 2 + Number(args[1]));
        admin
          .call(
            "ACL",
            "SETUSER",
            name,
            "resetkeys",
            ...keys.map((key) => `~${String(key).replace(/[\\*?[\]]/g, "\\$&")}`),
          )
          .then(
            () => client.send(command, args, done),
            (error: unknown) => done(error, undefined),
          );
      },
    };
  }

  async function limiting(config: Config) {
    const store = redisStore(await guarded());
    const events: unknown[] = [];
    const prefix = freshPrefix();
    const limiter = createLimiter({
      store,
      prefix,
      timeoutMs: 10_000,
      onFailure: "closed",
      onEvent: (event) => events.push(event),
      ...config,
    });
    return { store, limiter, events, prefix };
  }

  const identity = "somebody";
  const remaining = ({ verdicts }: Decision) => verdicts.map(({ remaining }) => remaining);

  it("refuses a script of these tests a key that it did not declare", async () => {
    const client = await guarded();
    await eventually("there is a connection", () => client.state === "ready");
    const run = (text: string) =>
      new Promise((resolve) =>
        client.send("eval", [text, 1, "{a}:1"], (error, reply) => resolve(error ?? reply)),
      );
    expect(await run("return redis.call('INCR', KEYS[1])")).toBe(1);
    expect(String(await run("return redis.call('INCR', '{a}:2')"))).toMatch(
      /ACL failure|NOPERM|can't access/,
    );
  });

  it.each(names)("decides, refuses, peeks, settles and resets: %s", async (name) => {
    const { limiter, events } = await limiting({ policies: { p: policyOf(name, 5) } });
    const [first, second] = [
      await limiter.decide({ identity, cost: 3 }),
      await limiter.decide({ identity, cost: 2 }),
    ];
    expect([remaining(first), remaining(second)]).toEqual([[2], [0]]);
    expect((await limiter.decide({ identity })).allowed).toBe(false);
    await limiter.settle(first, "giveBack");
    expect(remaining(await limiter.peek({ identity }))).toEqual([3]);
    await limiter.settle(second, 4);
    expect(remaining(await limiter.peek({ identity }))).toEqual([name === "cc" ? 5 : 1]);
    await limiter.reset(identity);
    expect(remaining(await limiter.peek({ identity }))).toEqual([5]);
    expect(events.filter((event) => (event as { type: string }).type !== "audit")).toEqual([]);
  });

  it("decides all algorithms in one step, some on trial, with a block and a lease", async () => {
    const policies = Object.fromEntries(
      names.flatMap((name, i): [string, Policy][] => [
        [`p${i}`, policyOf(name, 5)],
        ...(i < 7 ? [[`trial${i}`, { ...policyOf(name, 1), mode: "shadow" }] as [string, Policy]] : []),
      ]),
    );
    const { limiter, events } = await limiting({ policies, blocking: true });
    const ask = () => limiter.decide({ identity });
    const first = await ask();
    expect(first.verdicts).toHaveLength(16);
    await limiter.settle(first, "giveBack");
    expect(remaining(await limiter.peek({ identity }))).toEqual(
      Object.values(policies).map(({ limit }) => limit),
    );
    await limiter.block(identity, 60_000);
    expect((await ask()).blocked).toBe(true);
    await limiter.unblock(identity);
    expect(await ask()).toMatchObject({ allowed: true, blocked: false });
    expect(events.filter((event) => (event as { type: string }).type !== "audit")).toEqual([]);
  });

  it("keeps a grant for its idempotency key", async () => {
    const { limiter, events } = await limiting({
      policies: Object.fromEntries(rates.map((name, i) => [`p${i}`, policyOf(name, 5)])),
      blocking: true,
    });
    const ask = () => limiter.decide({ identity, idempotencyKey: "k" });
    const first = await ask();
    expect(first).toMatchObject({ allowed: true, replayed: false });
    expect(await ask()).toMatchObject({ allowed: true, replayed: true, verdicts: first.verdicts });
    await limiter.settle(first, "giveBack");
    expect(remaining(await limiter.peek({ identity }))).toEqual(rates.map(() => 5));
    expect(events).toEqual([]);
  });

  it("renews leases and mends a state that stays for ever", async () => {
    const { store, limiter, prefix } = await limiting({
      policies: Object.fromEntries(names.map((name, i) => [`p${i}`, policyOf(name, 1)])),
    });
    const { receipt } = await limiter.decide({ identity });
    const keys = receipt!.charges.map(({ key }) => key);
    for (const key of keys) await server.client.persist(key);
    expect((await limiter.decide({ identity })).allowed).toBe(false);
    for (const key of keys) expect(await server.client.pttl(key), key).toBeGreaterThan(0);
    const lease: Check = checkOf(policyOf("cc", 5), `${prefix}:{id:y}:p:cc`, { lease: "a" });
    await decideAll(store, [lease]);
    const renewed = await new Promise((resolve) =>
      store.settle(
        [{ kind: "renew", policy: lease.policies[0]!, key: lease.keys[0]!, units: 1, mark: 0, lease: "a" }],
        (error, moved) => resolve(error ?? moved),
      ),
    );
    expect(renewed).toBe(1);
  });

  it("asks a calendar window's bounds of its own clock", async () => {
    const { limiter } = await limiting({
      policies: { week: fixedWindow({ limit: 2, window: "week", timeZone: calmZone() }) },
    });
    expect(remaining(await limiter.decide({ identity }))).toEqual([1]);
    expect(remaining(await limiter.decide({ identity }))).toEqual([0]);
  });
});
