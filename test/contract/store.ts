/**
 * What a limiter promises of the store behind it, whatever that is: a server of any kind, a Cluster,
 * reached by any client. A file that runs it says how a limiter is made and how keys are looked at.
 */
import { setTimeout as sleep } from "node:timers/promises";
import {
  concurrency,
  type Config,
  type Decision,
  fixedWindow,
  type Limiter,
  type Policy,
  tenant,
  user,
} from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { used } from "../cases/asking.ts";
import { names, policyOf, rates } from "../decisions/algorithms.ts";
import { freshPrefix } from "../harness/pair.ts";

/** What a test asks for; where it is counted is the subject's affair. */
type Wanted = Omit<Config, "redis" | "store" | "shareConnection">;

export interface StoreSubject {
  /** A limiter, as another process would have it: the test closes it. */
  limiter(wanted: Wanted): Limiter;
  /** All keys under a prefix, wherever they are, and the milliseconds each still has; -1: for ever. */
  lifetimes(prefix: string): Promise<Map<string, number>>;
  /** Every server that decides forgets its scripts. */
  forgetScripts(): Promise<unknown>;
  stop(): Promise<unknown>;
}

export interface ContractOptions {
  /** Whether resets and blocks are part of it. Without: what somebody sees who may only decide. */
  manages?: boolean;
}

const LIMIT = 10;

/** As many as go in one batch. */
const MANY = 64;

/** A lease short enough to wait for, and long enough for a busy machine to renew in time. */
const LEASE_MS = 600;

export function storeContract(
  name: string,
  begin: () => Promise<StoreSubject>,
  { manages = true }: ContractOptions = {},
): void {
  describe(name, () => {
    let subject: StoreSubject;
    let renewal: Promise<boolean[]>;
    const prefixes: string[] = [];
    beforeAll(async () => {
      subject = await begin();
      // It takes its time, which the other tests use.
      renewal = renewing();
      renewal.catch(() => {});
    });
    afterAll(() => subject.stop());

    /** A limiter with all the time it needs. */
    const patient = (prefix: string, policies: Record<string, Policy>) =>
      subject.limiter({ prefix, policies, timeoutMs: 10_000, onFailure: "closed", blocking: true });

    /** A limiter on a prefix of its own, until the test is over. */
    function limiting(policies: Record<string, Policy>) {
      const prefix = freshPrefix();
      prefixes.push(prefix);
      const make = () => {
        const limiter = patient(prefix, policies);
        onTestFinished(() => limiter.close());
        return limiter;
      };
      const limiter = make();
      return {
        limiter,
        another: make,
        ask: (cost = 1, more: object = {}) => asked(limiter, { identity: "somebody", cost, ...more }),
        used: () => used(limiter, "somebody"),
        lifetimes: () => subject.lifetimes(prefix),
      };
    }

    const one = (algorithm: string) => limiting({ p: policyOf(algorithm, LIMIT) });

    const allRates = () =>
      limiting(Object.fromEntries(rates.map((rate) => [slug(rate), policyOf(rate, LIMIT)])));

    /** Who has the one slot beyond the length of its lease, and after its holder has gone. */
    async function renewing(): Promise<boolean[]> {
      const policies = { p: concurrency({ limit: 1, leaseMs: LEASE_MS }) };
      const prefix = freshPrefix();
      const [holder, other] = [patient(prefix, policies), patient(prefix, policies)];
      const ask = async (limiter: Limiter) => (await asked(limiter, { identity: "somebody" })).allowed;
      try {
        const held = await ask(holder);
        await sleep(LEASE_MS + 200);
        const meanwhile = await ask(other);
        await holder.close();
        return [held, meanwhile, await ask(other)];
      } finally {
        await Promise.all([holder.close(), other.close()]);
      }
    }

    describe.each(names)("%s", (algorithm) => {
      it("lets in as many units as the limit, tells what is left, and refuses the next", async () => {
        const { ask } = one(algorithm);
        const told = [await ask(4), await ask(4), await ask(4), await ask(2), await ask()];
        expect(told.map(({ allowed }) => allowed)).toEqual([true, true, false, true, false]);
        expect(told.map(({ verdicts: [verdict] }) => verdict!.remaining)).toEqual([6, 2, 2, 0, 0]);
        expect(told.at(-1)).toMatchObject({ receipt: undefined, blocked: false, replayed: false });
        expect(await ask(LIMIT + 1)).toMatchObject({ allowed: false, verdicts: [{ reason: "never" }] });
      });

      it("lets in exactly the limit of 64 that ask at once, through two limiters", async () => {
        const { limiter, another } = one(algorithm);
        const limiters = [limiter, another()];
        const decisions = await Promise.all(
          Array.from({ length: MANY }, (_, i) => asked(limiters[i % 2]!, { identity: "somebody" })),
        );
        expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(LIMIT);
        expect(await used(limiters[1]!, "somebody")).toEqual([LIMIT]);
      });

      it("counts each of 64 identities that ask at once for itself", async () => {
        const { limiter } = one(algorithm);
        const everybody = Array.from({ length: MANY }, (_, i) => user(i));
        for (const left of [7, 4, 1]) {
          const decisions = await Promise.all(
            everybody.map((identity) => asked(limiter, { identity, cost: 3 })),
          );
          expect(decisions.map(({ verdicts }) => verdicts[0]!.remaining)).toEqual(everybody.map(() => left));
        }
      });

      it("writes nothing for a look, and gives every key an expiry", async () => {
        const { limiter, ask, lifetimes } = one(algorithm);
        await ask(0);
        await limiter.peek({ identity: "somebody" });
        expect([...(await lifetimes()).keys()]).toEqual([]);
        await ask(LIMIT - 1);
        await ask(2);
        const [[key, ms] = [], ...more] = await lifetimes();
        expect([key, more]).toEqual([expect.stringContaining(":{id:somebody}:p:"), []]);
        expect(ms).toBeGreaterThan(0);
      });
    });

    describe.each(rates)("settling %s", (algorithm) => {
      it.each([
        ["gives all of it back", "giveBack", 0],
        ["gives back what was not needed", 1, 1],
        ["keeps it", "keep", 4],
        ["charges what was needed more", 6, 6],
      ] as const)("%s, once", async (_, outcome, units) => {
        const { limiter, ask, used } = one(algorithm);
        const decision = await ask(4);
        await limiter.settle(decision, outcome);
        expect(await used()).toEqual([units]);
        await limiter.settle(decision, "giveBack");
        await limiter.settle(decision, LIMIT);
        expect(await used()).toEqual([units]);
      });

      it("reserves, and commits or cancels, into debt if need be", async () => {
        const { limiter, ask, used } = one(algorithm);
        const reserve = () => limiter.reserve({ identity: "somebody", cost: 4 });
        const [committed, cancelled] = [await reserve(), await reserve()];
        expect((await reserve()).decision.allowed).toBe(false);
        await committed.commit(3);
        await cancelled.cancel();
        expect(await used()).toEqual([3]);
        const debt = await reserve();
        await debt.commit(9);
        expect(await ask()).toMatchObject({ allowed: false, blocked: false, verdicts: [{ remaining: 0 }] });
      });
    });

    describe("what is in flight", () => {
      it("comes free when it is settled, whatever that says", async () => {
        const { limiter, ask, used } = one("cc");
        const decisions = [await ask(4), await ask(4)];
        await limiter.settle(decisions[0]!, "keep");
        expect(await used()).toEqual([4]);
        await limiter.settle(decisions[1]!, "giveBack");
        expect(await used()).toEqual([0]);
      });
    });

    describe("several policies", () => {
      it.each(rates)("are all charged, or none when one has no room: %s", async (algorithm) => {
        const { ask, used } = limiting({ wide: policyOf(algorithm, LIMIT), tight: policyOf(algorithm, 3) });
        expect((await ask(2)).allowed).toBe(true);
        const refused = await ask(2);
        expect(refused.verdicts.map(({ allowed }) => allowed)).toEqual([true, false]);
        expect(await used()).toEqual([2, 2]);
      });

      it("of every algorithm are decided in one step, and settled together", async () => {
        const { limiter, ask, used } = allRates();
        const first = await ask(3);
        await ask(2);
        expect(await used()).toEqual(rates.map(() => 5));
        await limiter.settle(first, "giveBack");
        expect(await used()).toEqual(rates.map(() => 2));
      });

      it("of several identities are all charged, or none", async () => {
        const { limiter } = limiting({
          person: policyOf("tb", LIMIT),
          company: policyOf("sw", 3),
          everybody: policyOf("sl", LIMIT),
        });
        const identity = { person: user("a"), company: tenant("b"), everybody: user("c") };
        expect((await asked(limiter, { identity, cost: 2 })).allowed).toBe(true);
        const refused = await asked(limiter, { identity, cost: 2 });
        expect(refused).toMatchObject({ allowed: false, receipt: undefined });
        expect(await used(limiter, identity)).toEqual([2, 2, 2]);
        const last = await asked(limiter, { identity });
        await limiter.settle(last, "giveBack");
        expect(await used(limiter, identity)).toEqual([2, 2, 2]);
      });

      it("refuse nobody on trial", async () => {
        const { ask } = limiting({
          trial: fixedWindow({ limit: 1, window: "1h", mode: "shadow" }),
          real: policyOf("sw", 3),
        });
        const told = [await ask(), await ask()];
        expect(told.map(({ allowed }) => allowed)).toEqual([true, true]);
        expect(told[1]!.verdicts.map(({ allowed }) => allowed)).toEqual([false, true]);
      });
    });

    describe("an idempotency key", () => {
      it("is charged once for each algorithm, and the grant is given again", async () => {
        const { ask, used } = allRates();
        const told = [await ask(2, { idempotencyKey: "k" }), await ask(2, { idempotencyKey: "k" })];
        expect(told.map(({ allowed, replayed }) => [allowed, replayed])).toEqual([
          [true, false],
          [true, true],
        ]);
        expect(told[1]!.verdicts).toEqual(told[0]!.verdicts);
        expect((await ask(2, { idempotencyKey: "other" })).replayed).toBe(false);
        expect(await used()).toEqual(rates.map(() => 4));
      });
    });

    describe("a store that loses its scripts", () => {
      it("goes on counting, also when it loses them under way", async () => {
        const { limiter, ask, used } = allRates();
        const first = await ask(2);
        await subject.forgetScripts();
        const [second] = await Promise.all([ask(2), ask(), subject.forgetScripts(), ask()]);
        expect(second!.allowed).toBe(true);
        await subject.forgetScripts();
        await limiter.settle(first, "giveBack");
        await subject.forgetScripts();
        expect(await used()).toEqual(rates.map(() => 4));
      });
    });

    const byHand = () => {
      it.each(names)("a reset forgets what %s counted", async (algorithm) => {
        const { limiter, ask, used, lifetimes } = one(algorithm);
        await ask(LIMIT);
        await limiter.reset("somebody else");
        expect(await used()).toEqual([LIMIT]);
        await subject.forgetScripts();
        await limiter.reset("somebody");
        expect(await used()).toEqual([0]);
        expect([...(await lifetimes()).keys()]).toEqual([]);
      });

      it("a reset of one policy leaves the others", async () => {
        const { limiter, ask, used } = limiting({ a: policyOf("tb", LIMIT), b: policyOf("sl", LIMIT) });
        await ask(4);
        await limiter.reset("somebody", "a");
        expect(await used()).toEqual([0, 4]);
      });

      it("a block refuses for a while, for ever, and until it is lifted; nothing is charged", async () => {
        const { limiter, ask, used, lifetimes } = allRates();
        await ask(2);
        await limiter.block("somebody", 60_000, "a reason");
        const refused = await ask();
        expect(refused).toMatchObject({ allowed: false, blocked: true, receipt: undefined });
        expect(refused.retryAfterMs).toBeGreaterThan(50_000);
        expect(refused.retryAfterMs).toBeLessThanOrEqual(60_000);
        await limiter.block("somebody", "forever");
        expect(await ask()).toMatchObject({ blocked: true, retryAfterMs: null });
        const endless = [...(await lifetimes())].filter(([, ms]) => ms === -1).map(([key]) => key);
        expect(endless).toEqual([expect.stringMatching(/:\{id:somebody\}::b$/)]);
        expect((await asked(limiter, { identity: "somebody else" })).allowed).toBe(true);
        await limiter.unblock("somebody");
        expect(await ask()).toMatchObject({ allowed: true, blocked: false });
        expect(await used()).toEqual(rates.map(() => 3));
      });

      it("a block of one of several identities refuses all", async () => {
        const { limiter } = limiting({ a: policyOf("gc", LIMIT), b: policyOf("fw first", LIMIT) });
        const identity = { a: user("a"), b: tenant("b") };
        await limiter.block(identity.b, 60_000);
        expect(await asked(limiter, { identity })).toMatchObject({ allowed: false, blocked: true });
        await limiter.unblock(identity.b);
        expect((await asked(limiter, { identity })).verdicts.map(({ remaining }) => remaining)).toEqual([
          9, 9,
        ]);
      });
    };
    if (manages) describe("what people do by hand", byHand);

    it("a slot in flight is renewed beyond its lease, and given back at the end of its process", async () => {
      expect(await renewal).toEqual([true, false, true]);
    });

    it("none of all this has left a key without an expiry, but for blocks for ever", async () => {
      const left = await Promise.all(prefixes.map((prefix) => subject.lifetimes(prefix)));
      const keys = left.flatMap((lifetimes) => [...lifetimes]);
      expect(keys.length).toBeGreaterThan(MANY * names.length);
      expect(keys.filter(([key, ms]) => ms === -1 && !key.endsWith("::b"))).toEqual([]);
    });
  });
}

/** A name that a policy may have. */
const slug = (name: string): string => name.replace(" ", "-");

/** Decides; throws when the store could not be asked. */
async function asked(limiter: Limiter, request: Parameters<Limiter["decide"]>[0]): Promise<Decision> {
  const decision = await limiter.decide(request);
  if (decision.degraded) throw new Error(`a decision was degraded: ${decision.degraded.reason}`);
  return decision;
}
