import { type ChildProcess, fork } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import {
  concurrency,
  createLimiter,
  ioredisClient,
  memoryStore,
  type Move,
  redisStore,
  type Settlement,
  type Store,
} from "@tidegate/core";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { clockedClient, clockedScripts, fakeClock } from "../harness/clock.ts";
import { eventually } from "../harness/eventually.ts";
import { type Live, live } from "../harness/live.ts";
import { freshPrefix } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { worker } from "../harness/worker.ts";
import { checkOf, decideOne, settleAll } from "./asking.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const oneSlot = (leaseMs: number) =>
  live(server, { policies: { slots: concurrency({ limit: 1, leaseMs }) } });
const keyOf = (prefix: string) => `${prefix}:{id:somebody}:slots:cc`;
const take = ({ limiter }: Live, cost = 1) => limiter.decide({ identity: "somebody", cost });

/** When the last lease ends, ms by the server's clock. */
async function leaseEnd(prefix: string): Promise<number> {
  const [, ends] = await server.client.zrange(keyOf(prefix), "-1", "-1", "WITHSCORES");
  return Number(ends) / 1000;
}

async function serverMs(): Promise<number> {
  const [seconds, us] = await server.client.time();
  return Number(seconds) * 1000 + Number(us) / 1000;
}

describe("a request in flight", () => {
  it("keeps its slot for three times its lease, and gives it back at once", async () => {
    const leaseMs = 500;
    const one = await oneSlot(leaseMs);
    const long = await take(one);
    expect(long.allowed).toBe(true);
    for (const end = performance.now() + 3 * leaseMs; performance.now() < end; await sleep(20)) {
      const refused = await take(one);
      expect(refused).toMatchObject({
        allowed: false,
        retryAfterMs: null,
        verdicts: [{ reason: "concurrency" }],
      });
    }
    await one.limiter.settle(long, "keep");
    expect((await take(one)).allowed).toBe(true);
    await one.limiter.close();
  });

  it.each(["keep", "giveBack", 0, 5, { slots: 1 }] as Settlement[])(
    "settled with %j is no longer in flight",
    async (outcome) => {
      const one = await oneSlot(60_000);
      const first = await take(one);
      expect((await take(one)).allowed).toBe(false);
      await one.limiter.settle(first, outcome);
      const second = await take(one);
      expect(second.allowed).toBe(true);
      // Settling the first again frees nobody else's slot.
      await one.limiter.settle(first, outcome);
      expect((await take(one)).allowed).toBe(false);
      await one.limiter.close();
    },
  );

  it("of cost 3 takes three slots and gives back three", async () => {
    const three = await live(server, { policies: { slots: concurrency({ limit: 4 }) } });
    const heavy = await take(three, 3);
    expect(heavy.verdicts[0]!.remaining).toBe(1);
    expect((await take(three, 2)).allowed).toBe(false);
    await three.limiter.settle(heavy, "keep");
    expect(await server.client.exists(keyOf(three.prefix))).toBe(0);
    await three.limiter.close();
  });

  it("refused by another policy takes no slot", async () => {
    const policies = { slots: concurrency({ limit: 5 }), none: concurrency({ limit: 0 }) };
    const both = await live(server, { policies });
    expect((await take(both)).allowed).toBe(false);
    expect(await server.client.exists(keyOf(both.prefix))).toBe(0);
    await both.limiter.close();
  });
});

describe("a holder that is gone", () => {
  const holder = (prefix: string, leaseMs: number, thenClose = false): ChildProcess => {
    const child = fork(worker, [], { execArgv: [] });
    const policies = { slots: ["concurrency", { limit: 1, leaseMs }] };
    child.send({ run: "hold", url: server.url, prefix, policies, thenClose });
    return child;
  };
  const holds = async (child: ChildProcess) => {
    const message = await new Promise((resolve) => child.once("message", resolve));
    expect(message).toEqual({ result: { allowed: true } });
  };

  it("killed, frees its slot when its lease ends, and not before", async () => {
    const leaseMs = 900;
    const one = await oneSlot(leaseMs);
    const child = holder(one.prefix, leaseMs);
    await holds(child);
    const first = await leaseEnd(one.prefix);
    await eventually("the lease was renewed", async () => (await leaseEnd(one.prefix)) > first);
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("exit", resolve));
    const ends = await leaseEnd(one.prefix);
    expect(ends).toBeLessThanOrEqual((await serverMs()) + leaseMs);

    for (;;) {
      const { allowed, receipt } = await take(one);
      if (allowed) {
        expect(receipt!.at / 1000).toBeGreaterThanOrEqual(ends);
        expect(receipt!.at / 1000 - ends).toBeLessThan(100);
        break;
      }
      expect(await serverMs()).toBeLessThan(ends + 50);
      await sleep(5);
    }
    await one.limiter.close();
  });

  it("that closes its limiter gives its slot back at once, and can exit", async () => {
    const one = await oneSlot(60_000);
    const child = holder(one.prefix, 60_000, true);
    const exited = new Promise((resolve) => child.once("exit", resolve));
    await holds(child);
    expect((await take(one)).allowed).toBe(true);
    expect(await Promise.race([exited, sleep(3000, "still there")])).toBe(0);
    await one.limiter.close();
  });
});

describe("the heartbeat", () => {
  afterEach(() => vi.restoreAllMocks());

  /** A store that notes what it is asked to settle. */
  function noting(): Store & { readonly settled: (readonly Move[])[] } {
    const store = memoryStore();
    const settled: (readonly Move[])[] = [];
    return {
      ...store,
      settled,
      settle(moves, done) {
        settled.push(moves);
        store.settle(moves, done);
      },
    };
  }

  it("is one timer for all leases, however many, and a command for 64 of them", async () => {
    const store = noting();
    const policies = {
      slots: concurrency({ limit: 1000, leaseMs: 150 }),
      more: concurrency({ limit: 1000, leaseMs: 300 }),
    };
    const limiter = createLimiter({ store, policies });
    const started = vi.spyOn(globalThis, "setInterval");
    const stopped = vi.spyOn(globalThis, "clearInterval");
    const decisions = await Promise.all(
      Array.from({ length: 300 }, (_, i) => limiter.decide({ identity: `somebody-${i % 7}` })),
    );
    const timers = started.mock.calls.filter(([, ms]) => ms! <= 100);
    expect(timers).toHaveLength(1);
    await eventually("it beats", () => store.settled.length > 0);
    expect(store.settled.length % Math.ceil(600 / 64)).toBe(0);
    expect(store.settled[0]!).toHaveLength(64);
    expect(store.settled[0]!.every(({ kind }) => kind === "renew")).toBe(true);

    stopped.mockClear();
    await Promise.all(decisions.map((decision) => limiter.settle(decision, "keep")));
    expect(stopped).toHaveBeenCalled();
    const count = store.settled.length;
    await sleep(150);
    expect(store.settled).toHaveLength(count);
    await limiter.close();
  });

  it("ends with the limiter", async () => {
    const store = noting();
    const limiter = createLimiter({ store, policies: { slots: concurrency({ limit: 1, leaseMs: 100 }) } });
    await limiter.decide({ identity: "somebody" });
    await eventually("it beats", () => store.settled.length >= 1);
    await limiter.close();
    const count = store.settled.length;
    await sleep(120);
    expect(store.settled).toHaveLength(count);
  });

  it("keeps to the shortest lease, whichever came first", async () => {
    const policies = {
      slots: concurrency({ limit: 1, leaseMs: 600 }),
      long: concurrency({ limit: 9, leaseMs: 60_000 }),
    };
    const { limiter, prefix } = await live(server, { policies });
    const identity = { slots: "somebody", long: "all" };
    await limiter.decide({ identity, cost: { slots: 0, long: 1 } });
    await limiter.decide({ identity });
    await sleep(1300);
    expect(await server.client.zcount(keyOf(prefix), (await serverMs()) * 1000, "+inf")).toBe(1);
    await limiter.close();
  });
});

describe("leases in the script", () => {
  const policy = (limit: number) => concurrency({ limit, leaseMs: 1000 });
  const clock = fakeClock();
  let store: Store;
  beforeAll(() => {
    store = redisStore(clockedClient(ioredisClient(server.url), clock), { scripts: clockedScripts });
  });
  afterAll(() => store.close());

  const acquire = async (key: string, lease: string, limit = 1, cost = 1) =>
    (await decideOne(store, checkOf(policy(limit), key, { lease, costs: [cost] }))).granted;
  const settle = (kind: "credit" | "renew", key: string, lease: string) =>
    settleAll(store, { kind, policy: policy(1), key, units: 1, mark: 0, lease });

  it("asked twice with the same lease, as by a resend, take one slot", async () => {
    const shipped = redisStore(ioredisClient(server.url));
    const key = keyOf(freshPrefix());
    const ask = async (lease: string) =>
      (await decideOne(shipped, checkOf(policy(1), key, { lease }))).granted;
    expect([await ask("a"), await ask("a")]).toEqual([true, true]);
    expect(await server.client.zrange(key, "0", "-1")).toEqual(["a"]);
    expect(await ask("b")).toBe(false);
    await shipped.close();
  });

  it("asked twice with a cost of 3 take three", async () => {
    const key = keyOf(freshPrefix());
    expect(await acquire(key, "a", 4, 3)).toBe(true);
    expect(await acquire(key, "a", 4, 3)).toBe(true);
    expect(await server.client.zcard(key)).toBe(3);
  });

  it("that have ended are not revived by a heartbeat: their place may be another's", async () => {
    const key = keyOf(freshPrefix());
    expect(await acquire(key, "a")).toBe(true);
    clock.advance(999);
    expect(await settle("renew", key, "a")).toBe(1);
    clock.advance(1000);
    expect(await settle("renew", key, "a")).toBe(0);
    expect(await acquire(key, "b")).toBe(true);
    expect(await settle("renew", key, "a")).toBe(0);
    expect(await acquire(key, "c")).toBe(false);
    expect(await settle("credit", key, "a")).toBe(0);
    expect(await acquire(key, "c")).toBe(false);
  });

  it("that were given back are not made anew by a heartbeat", async () => {
    const key = keyOf(freshPrefix());
    await acquire(key, "a");
    expect(await settle("credit", key, "a")).toBe(1);
    expect(await settle("renew", key, "a")).toBe(0);
    expect(await settle("credit", key, "a")).toBe(0);
    expect(await server.client.exists(key)).toBe(0);
  });
});
