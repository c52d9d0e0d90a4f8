/** What is counted besides requests, each policy at its own cost, and policies on trial. */
import {
  concurrency,
  type Config,
  fixedWindow,
  ipOf,
  type Policy,
  slidingLog,
  tokenBucket,
} from "@tidegate/express";
import type { Request } from "express";
import request from "supertest";
import { describe, expect, it } from "vitest";
import {
  blocked,
  expresses,
  limiting,
  LOCAL,
  ownRedis,
  passed,
  PATIENT,
  read,
  refused,
  serve,
  UNAVAILABLE,
  useRedis,
  visit,
  visits,
} from "../harness/http.ts";

const redis = useRedis();
const { seed } = redis;

/** What a request brings, as its sender says. */
const contentLength = (req: Request): number => Number(req.get("x-size") ?? 0);

const upload = tokenBucket({
  capacity: 65_536_000,
  refillPerSecond: 6_553_600,
  unit: "content-bytes",
  cost: contentLength,
});
const UPLOAD = '"upload";q=65536000;qu="content-bytes";w=10';
const inflight = concurrency({ limit: 10 });
const INFLIGHT = '"inflight";q=10;qu="concurrent-requests"';

describe.each(expresses)("%s writes", (_, express) => {
  const app = (policies: Record<string, Policy>, more: Partial<Config<Request>> = {}) =>
    serve(express, limiting({ store: redis.store, ...PATIENT, policies, ...more }));

  describe("units", () => {
    it("example 7: bytes", async () => {
      await seed.bucket(`${LOCAL}:upload:tb`, 21_000_000, 6796);
      expect(await visit(app({ upload }), { "x-size": "1000000" })).toEqual(
        passed({ "RateLimit-Policy": UPLOAD, RateLimit: '"upload";r=20000000;t=4' }),
      );
    });

    it("bytes, refused: the wait is for as many as were brought", async () => {
      await seed.bucket(`${LOCAL}:upload:tb`, 20_000_000, 6949);
      // 32,768,000 less 20,000,000 at 6,553,600 a second: 1.95 s.
      expect(await visit(app({ upload }), { "x-size": "32768000" })).toEqual(
        refused(
          { "RateLimit-Policy": UPLOAD, RateLimit: '"upload";r=20000000;t=2', "Retry-After": "2" },
          "upload",
        ),
      );
    });

    it("bytes that never fit: no time to wait", async () => {
      expect(await visit(app({ upload }), { "x-size": "65536001" })).toEqual(
        refused({ "RateLimit-Policy": UPLOAD, RateLimit: '"upload";r=65536000' }, "upload"),
      );
    });

    it("example 8: in flight", async () => {
      await seed.inFlight(`${LOCAL}:inflight:cc`, 6);
      expect(await visit(app({ inflight }))).toEqual(
        passed({ "RateLimit-Policy": INFLIGHT, RateLimit: '"inflight";r=3' }),
      );
    });

    it("example 8: full", async () => {
      await seed.inFlight(`${LOCAL}:inflight:cc`, 10);
      expect(await visit(app({ inflight }))).toEqual(
        refused(
          { "RateLimit-Policy": INFLIGHT, RateLimit: '"inflight";r=0', "Retry-After": "1" },
          "inflight",
        ),
      );
    });

    it("in flight and a quota, both violated: the longer wait in Retry-After", async () => {
      await seed.inFlight(`${LOCAL}:inflight:cc`, 10);
      await seed.window(`${LOCAL}:day:fw`, 5, 7_000);
      const day = fixedWindow({ limit: 5, window: "1d" });
      expect(await visit(app({ inflight, day }))).toEqual(
        refused(
          {
            "RateLimit-Policy": `${INFLIGHT}, "day";q=5;w=86400`,
            RateLimit: '"inflight";r=0, "day";r=0;t=7',
            "Retry-After": "7",
          },
          "inflight",
          "day",
        ),
      );
    });

    it("example 13: a policy that costs nothing is looked at", async () => {
      const api = tokenBucket({ capacity: 100, refillPerSecond: 100 / 60, cost: 0 });
      expect((await visit(app({ api }))).fields["RateLimit"]).toBe('"api";r=100;t=60');
      expect(await redis.keys()).toEqual([]);
    });

    it.each([
      ["requests", '"api";q=5;w=60'],
      ["content-bytes", '"api";q=5;qu="content-bytes";w=60'],
      ["concurrent-requests", '"api";q=5;qu="concurrent-requests";w=60'],
    ] as const)("qu between q and w, and none for requests: %s", async (unit, field) => {
      const api = fixedWindow({ limit: 5, window: "1m", unit });
      expect((await visit(app({ api }))).fields["RateLimit-Policy"]).toBe(field);
    });
  });

  describe("A policy's own cost", () => {
    const left = async (policies: Record<string, Policy>, more: Partial<Config<Request>> = {}) => {
      const { fields } = await visit(app(policies, more), { "x-size": "40" });
      return Object.fromEntries([...read(fields["RateLimit"])].map(([name, { r }]) => [name, r]));
    };
    const of = (cost?: Policy["cost"]) =>
      fixedWindow({ limit: 100, window: "1h", ...(cost !== undefined && { cost }) });

    it.each([
      ["a number", 7],
      ["a function", () => 7],
      ["a promise", async () => 7],
    ])("is %s, and the others cost what the configuration says", async (_, cost) => {
      expect(await left({ own: of(cost), other: of() }, { cost: 2 })).toEqual({ own: 93, other: 98 });
      expect(await left({ other: of(), own: of(cost) }, { cost: () => 3 })).toEqual({ own: 86, other: 95 });
    });

    it("is asked with the request", async () => {
      expect(await left({ bytes: of(contentLength), calls: of() })).toEqual({ bytes: 60, calls: 99 });
    });

    it("may be 0: then nothing is taken of it", async () => {
      expect(await left({ free: of(0), calls: of() })).toEqual({ free: 100, calls: 99 });
      expect(await redis.keys()).toEqual([`${LOCAL}:calls:fw`]);
    });

    it.each([
      ["throws", () => fail()],
      ["rejects", async () => fail()],
      ["is too late", () => new Promise<never>(() => {})],
      ["gives a fraction", () => 0.5],
      ["gives text", () => "5"],
    ])("that %s is 1, with an event, and the others are what they are", async (_, cost) => {
      const limit = limiting({
        policies: { own: of(cost as () => number), other: of(4) },
        timeoutMs: 40,
        cost: 9,
      });
      const { fields } = await visit(serve(express, limit));
      expect(fields["RateLimit"]).toBe('"other";r=96;t=3600, "own";r=99;t=3600');
      expect(limit.events).toEqual([
        expect.objectContaining({ type: "warning", code: "TIDEGATE_COST_FAULT" }),
      ]);
    });

    it("is all or nothing with the others", async () => {
      await visit(app({ own: of(101), other: of() }));
      expect(await redis.keys()).toEqual([]);
    });

    it("decides which policy binds first: the one with the fewest requests of such a cost left", async () => {
      // After this upload: room for one more of 30 MB, and for 49 more requests.
      await seed.bucket(`${LOCAL}:upload:tb`, 65_536_000, 1);
      const calls = fixedWindow({ limit: 50, window: "1h" });
      const { fields } = await visit(app({ calls, upload }), { "x-size": "30000000" });
      expect(fields["RateLimit"]).toBe('"upload";r=35536000;t=6, "calls";r=49;t=3600');
    });
  });

  it("policies in the order of the configuration, whatever their units, costs and answers", async () => {
    const policies = {
      z: fixedWindow({ limit: 2, window: "1m" }),
      inflight,
      upload,
      a: slidingLog({ limit: 9, window: "1h", cost: 3 }),
    };
    const field = `"z";q=2;w=60, ${INFLIGHT}, ${UPLOAD}, "a";q=9;w=3600`;
    const all = await visits(4, app(policies));
    expect(all.map(({ status }) => status)).toEqual([200, 200, 429, 429]);
    expect(all.map(({ fields }) => fields["RateLimit-Policy"])).toEqual(Array(4).fill(field));
  });

  describe("Of a policy on trial, nothing", () => {
    const trial = (limit: number) => fixedWindow({ limit, window: "90d", mode: "shadow" });
    const real = fixedWindow({ limit: 3, window: "1m" });
    const REAL = '"real";q=3;w=60';

    it.each([
      ["in front", { trial: trial(1), real }],
      ["behind", { real, trial: trial(1) }],
      ["on both sides", { trial: trial(1), real, other: trial(0) }],
    ])("when the request passes, and when it is refused: %s", async (_, policies) => {
      const served = app(policies);
      expect(await visits(5, served)).toEqual([
        ...[2, 1, 0].map((r) => passed({ "RateLimit-Policy": REAL, RateLimit: `"real";r=${r};t=60` })),
        ...Array(2).fill(
          refused({ "RateLimit-Policy": REAL, RateLimit: '"real";r=0;t=60', "Retry-After": "60" }, "real"),
        ),
      ]);
    });

    it("to HEAD", async () => {
      const { fields } = await visit(app({ trial: trial(0), real }), {}, "head");
      expect(fields).toEqual({ "RateLimit-Policy": REAL, RateLimit: '"real";r=2;t=60' });
    });

    it("when there are no others: no header of ours at all", async () => {
      const served = app({ trial: trial(1) });
      expect(await visits(3, served)).toEqual(Array(3).fill(passed({})));
    });

    it("of what is in flight, nor of bytes", async () => {
      const policies = {
        slots: concurrency({ limit: 0, mode: "shadow" }),
        bytes: tokenBucket({
          capacity: 1,
          refillPerSecond: 1,
          mode: "shadow",
          unit: "content-bytes",
          cost: 500,
        }),
        real,
      };
      expect(await visit(app(policies))).toEqual(
        passed({ "RateLimit-Policy": REAL, RateLimit: '"real";r=2;t=60' }),
      );
    });

    it("when the identity is blocked", async () => {
      const limit = limiting({
        store: redis.store,
        ...PATIENT,
        policies: { trial: trial(1), real },
        blocking: true,
      });
      await limit.limiter.block(ipOf("127.0.0.1"), 5000);
      expect(await visit(serve(express, limit))).toEqual(
        blocked({ "RateLimit-Policy": REAL, "Retry-After": "5" }),
      );
    });

    it.each([
      ["open", passed({ "RateLimit-Policy": REAL })],
      ["closed", UNAVAILABLE],
    ] as const)("when Redis does not answer, and the rule is %s", async (onFailure, answer) => {
      const server = await ownRedis();
      const limit = limiting({
        redis: server.url,
        ...PATIENT,
        policies: { trial: trial(1), real },
        onFailure,
      });
      const failing = serve(express, limit);
      await visit(failing);
      await server.kill();
      expect(await visit(failing)).toEqual(answer);
    });

    it("but the decision on the request tells what it would have done", async () => {
      const told: unknown[] = [];
      const limit = limiting({ store: redis.store, ...PATIENT, policies: { trial: trial(1), real } });
      const served = serve(express, limit, (req, _, next) => {
        told.push(req.rateLimit?.verdicts.map(({ policy, allowed, shadow }) => [policy, allowed, shadow]));
        next();
      });
      expect((await request(served).get("/")).status).toBe(200);
      expect((await request(served).get("/")).status).toBe(200);
      const verdict = (allowed: boolean) => [
        ["trial", allowed, true],
        ["real", true, false],
      ];
      expect(told).toEqual([verdict(true), verdict(false)]);
    });
  });
});

function fail(): never {
  throw new Error("a fault of the user's");
}
