/** The same request sent twice, known by a key that its client gives: charged once. */
import {
  apiKey,
  concurrency,
  type Config,
  fixedWindow,
  slidingLog,
  tokenBucket,
  user,
} from "@tidegate/express";
import type { Request } from "express";
import { describe, expect, it } from "vitest";
import {
  expresses,
  limiting,
  listening,
  PATIENT,
  serve,
  storeKinds,
  useRedis,
  visit,
  visits,
} from "../harness/http.ts";

const redis = useRedis();
const { clock } = redis;

const keyOf = (req: Request) => req.get("idempotency-key");
const K = { "idempotency-key": "k-1" };
const policies = {
  burst: tokenBucket({ capacity: 20, refillPerSecond: 2 }),
  day: fixedWindow({ limit: 10, window: "1d" }),
  log: slidingLog({ limit: 15, window: "1h" }),
};
const FAULT = { type: "warning", code: "TIDEGATE_IDEMPOTENCY_FAULT", message: expect.any(String) };

describe.each(expresses.flatMap((row) => storeKinds.map((kind) => [...row, kind] as const)))(
  "On %s with $2",
  (_, express, kind) => {
    const keyed = (more: Partial<Config<Request>> = {}) =>
      limiting({ store: redis.storeOf(kind), ...PATIENT, policies, idempotencyKey: keyOf, ...more });
    const statuses = (answers: { status: number }[]) => answers.map(({ status }) => status);
    const left = ({ fields }: { fields: Record<string, string> }) =>
      Number(/"day";r=(\d+)/.exec(fields["RateLimit"]!)?.[1]);

    it("one key, one after the other: charged once, and answered alike", async () => {
      const app = serve(express, keyed());
      const [first, again] = [await visit(app, K), await visit(app, K)];
      expect(first.fields).toEqual({
        "RateLimit-Policy": '"burst";q=20;w=10, "day";q=10;w=86400, "log";q=15;w=3600',
        RateLimit: '"day";r=9;t=86400, "log";r=14;t=3600, "burst";r=19;t=10',
      });
      expect(again).toEqual(first);
      expect(left(await visit(app))).toBe(8);
    });

    it("one key, at once: charged once, and answered alike", async () => {
      const app = listening(serve(express, keyed()));
      const [first, ...others] = await Promise.all([1, 2, 3, 4].map(() => visit(app, K)));
      expect(others).toEqual(Array(3).fill(first));
      expect(left(await visit(app))).toBe(8);
    });

    it("later, and after others came between: still as it was answered first", async () => {
      const app = serve(express, keyed());
      const first = await visit(app, K);
      await visits(3, app);
      clock.advance(5000);
      expect(await visit(app, K)).toEqual(first);
      expect(left(await visit(app))).toBe(5);
    });

    it("three times given again, and from then on charged as any other", async () => {
      const app = serve(express, keyed());
      const all = await visits(10, app, K);
      expect(all.map(left)).toEqual([9, 9, 9, 9, 8, 8, 8, 8, 7, 7]);
      expect(left(await visit(app))).toBe(6);
    });

    it("it lets nobody past the limit for long: 60 times the same key at a limit of 10", async () => {
      const app = listening(serve(express, keyed()));
      const passed = statuses(await Promise.all(Array.from({ length: 60 }, () => visit(app, K))));
      expect(passed.filter((status) => status === 200)).toHaveLength(40);
    });

    it("another key, another identity, another cost or another limiter is another request", async () => {
      const by = (req: Request) => user(req.get("x-user") ?? "anna");
      const cost = (req: Request) => Number(req.get("x-cost") ?? 1);
      const app = serve(express, keyed({ by, cost }));
      expect(left(await visit(app, K))).toBe(9);
      expect(left(await visit(app, { "idempotency-key": "k-2" }))).toBe(8);
      expect(left(await visit(app, { ...K, "x-cost": "3" }))).toBe(5);
      expect(left(await visit(app, { ...K, "x-user": "ben" }))).toBe(9);
      expect(left(await visit(app, K))).toBe(9);
      expect(left(await visit(app))).toBe(4);
    });

    it("a refusal is not kept: with room again, the same key is let in and charged", async () => {
      const second = { day: fixedWindow({ limit: 1, window: 1000 }) };
      const app = serve(express, keyed({ policies: second }));
      expect(statuses([await visit(app), await visit(app, K), await visit(app, K)])).toEqual([200, 429, 429]);
      clock.advance(1000);
      await redis.expire();
      expect(statuses([await visit(app, K), await visit(app, K), await visit(app)])).toEqual([200, 200, 429]);
    });

    it("a grant is given again when the limit is spent meanwhile", async () => {
      const app = serve(express, keyed({ policies: { day: fixedWindow({ limit: 2, window: "1d" }) } }));
      const first = await visit(app, K);
      expect(statuses(await visits(2, app))).toEqual([200, 429]);
      expect(await visit(app, K)).toEqual(first);
    });

    it("a grant is kept for as long as the configuration says, and no longer", async () => {
      const app = serve(express, keyed({ idempotencyMs: 5000 }));
      await visit(app, K);
      clock.advance(4999);
      await redis.expire();
      expect(left(await visit(app, K))).toBe(9);
      clock.advance(1);
      await redis.expire();
      expect(left(await visit(app, K))).toBe(8);
    });

    describe("What the function gives", () => {
      it.each<[string, () => unknown, faults: number]>([
        ["undefined is no key", () => undefined, 0],
        ["an empty text is no key", () => "", 0],
        ["null is no key", () => null, 0],
        ["false is no key", () => false, 0],
        ["a promise of nothing is no key", async () => undefined, 0],
        ["a number is a fault", () => 5, 1],
        ["true is a fault", () => true, 1],
        ["an object is a fault", () => ({ key: "k" }), 1],
        ["a list, as of a header sent twice, is a fault", () => ["a", "b"], 1],
        ["a symbol is a fault", () => Symbol("k"), 1],
        ["nothing, for it throws", () => fail(), 1],
        ["nothing, for it rejects", async () => fail(), 1],
        ["nothing in time", () => new Promise<never>(() => {}), 1],
      ])("%s: charged as usual", async (_, idempotencyKey, faults) => {
        const limit = keyed({ idempotencyKey: idempotencyKey as () => string, timeoutMs: 300 });
        const app = serve(express, limit);
        expect(left(await visit(app, K))).toBe(9);
        expect(limit.events).toEqual(Array(faults).fill(FAULT));
        expect(left(await visit(app, K))).toBe(8);
        expect(limit.events).toEqual(Array(2 * faults).fill(FAULT));
      });

      it.each([
        ["a promise of a key", async () => "k"],
        ["a key of 10,000 characters", () => "k".repeat(10_000)],
        ["a key of braces, colons and line breaks", () => "}{:\r\n\0::n:*"],
        ["a key that is not of ASCII", () => "clé 🐟"],
        ["a key of blanks", () => " "],
        ["__proto__", () => "__proto__"],
      ])("%s is a key", async (_, idempotencyKey) => {
        const limit = keyed({ idempotencyKey: idempotencyKey as () => string });
        const app = serve(express, limit);
        expect((await visits(2, app)).map(left)).toEqual([9, 9]);
        expect(limit.events).toEqual([]);
        for (const key of await redis.keys()) {
          expect(key.length).toBeLessThanOrEqual(256);
          expect(key).toMatch(/^rl:\{ip:127\.0\.0\.1\}:(:n:[\w-]{22}|(burst|day|log):(tb|fw|sl))$/);
        }
      });

      it("keys that are alike but not the same are not the same", async () => {
        let n = 0;
        const keys = ["k", "K", "k ", " k", "k\0", "kk"];
        const app = serve(express, keyed({ idempotencyKey: () => keys[n++]! }));
        expect((await visits(6, app)).map(left)).toEqual([9, 8, 7, 6, 5, 4]);
      });
    });

    it("what a client writes stands in no key, and neither does its API key", async () => {
      const by = apiKey({ header: "x-api-key", verify: () => true });
      await visit(serve(express, keyed({ by })), { "idempotency-key": "a-secret", "x-api-key": "sk_live" });
      for (const key of await redis.keys()) expect(key).not.toMatch(/a-secret|sk_live/);
    });

    it("a request that failed and is given back is not let in for nothing when it is tried again", async () => {
      const limit = keyed({
        policies: { day: fixedWindow({ limit: 10, window: "1d" }) },
        giveBackOn: "failure",
      });
      let tries = 0;
      const app = serve(express, limit, (_, res) => void res.status(++tries === 1 ? 500 : 200).end());
      expect(statuses([await visit(app, K)])).toEqual([500]);
      await new Promise((resolve) => setTimeout(resolve, 50)); // given back
      expect(statuses([await visit(app, K)])).toEqual([200]);
      // One request has been served, and this one is the second.
      expect(left(await visit(app))).toBe(8);
    });

    it("a request sent twice at once takes no more slots than there are", async () => {
      const limit = keyed({ policies: { slots: concurrency({ limit: 1 }) } });
      let [inside, most] = [0, 0];
      const app = listening(
        serve(express, limit, (_, res) => {
          most = Math.max(most, ++inside);
          setTimeout(() => {
            inside--;
            res.end();
          }, 50);
        }),
      );
      await Promise.all([visit(app, K), visit(app, K)]);
      expect(most).toBe(1);
    });
  },
);

function fail(): never {
  throw new Error("a fault of the user's");
}
