/** The worked examples of the header contract, each as the answer to a request on the state it tells of. */
import { fixedWindow, type Policy, slidingLog, tokenBucket } from "@tidegate/express";
import express from "express";
import { describe, expect, it } from "vitest";
import {
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
} from "../harness/http.ts";

const redis = useRedis();
const { clock, seed } = redis;
const DAY_MS = 86_400_000;

const api = tokenBucket({ capacity: 100, refillPerSecond: 100 / 60 });
const daily = fixedWindow({ limit: 10_000, window: "1d" });

describe.each(expresses)("%s writes", (_, express) => {
  const app = (policies: Record<string, Policy>, cost = 1) =>
    serve(express, limiting({ store: redis.store, ...PATIENT, policies, cost }));

  it("example 1: one token bucket, allowed", async () => {
    await seed.bucket(`${LOCAL}:api:tb`, 43.5, 33_900);
    expect(await visit(app({ api }))).toEqual(
      passed({ "RateLimit-Policy": '"api";q=100;w=60', RateLimit: '"api";r=42;t=26' }),
    );
  });

  it("example 2: two policies, allowed, the one that binds first in front", async () => {
    await seed.bucket(`${LOCAL}:burst:tb`, 4.2, 1580);
    await seed.window(`${LOCAL}:daily:fw`, 9099, 51_234_000);
    const burst = tokenBucket({ capacity: 20, refillPerSecond: 10 });
    expect(await visit(app({ burst, daily }))).toEqual(
      passed({
        "RateLimit-Policy": '"burst";q=20;w=2, "daily";q=10000;w=86400',
        RateLimit: '"burst";r=3;t=1, "daily";r=900;t=51234',
      }),
    );
  });

  it("example 3: refused", async () => {
    await seed.bucket(`${LOCAL}:api:tb`, 0.3, 59_820);
    const answer = {
      "RateLimit-Policy": '"api";q=100;w=60',
      RateLimit: '"api";r=0;t=1',
      "Retry-After": "1",
    };
    expect(await visit(app({ api }))).toEqual(refused(answer, "api"));
  });

  it("example 4: refused at a cost of 5 by one policy of two, and tells of that one only", async () => {
    await seed.bucket(`${LOCAL}:burst:tb`, 3.2, 8400);
    const burst = tokenBucket({ capacity: 20, refillPerSecond: 2 });
    expect(await visit(app({ burst, daily }, 5))).toEqual(
      refused(
        {
          "RateLimit-Policy": '"burst";q=20;w=10, "daily";q=10000;w=86400',
          RateLimit: '"burst";r=3;t=1',
          "Retry-After": "1",
        },
        "burst",
      ),
    );
  });

  it("example 4b: refused by both, the longer wait in front and in Retry-After", async () => {
    await seed.bucket(`${LOCAL}:burst:tb`, 0.2, 9900);
    await seed.window(`${LOCAL}:daily:fw`, 10_000, 51_234_000);
    const burst = tokenBucket({ capacity: 20, refillPerSecond: 2 });
    expect(await visit(app({ burst, daily }))).toEqual(
      refused(
        {
          "RateLimit-Policy": '"burst";q=20;w=10, "daily";q=10000;w=86400',
          RateLimit: '"daily";r=0;t=51234, "burst";r=0;t=1',
          "Retry-After": "51234",
        },
        "burst",
        "daily",
      ),
    );
  });

  it.each([
    ["5", "closed", UNAVAILABLE],
    ["5b", "open", passed({ "RateLimit-Policy": '"api";q=100;w=60' })],
  ] as const)("example %s: Redis does not answer, and the rule is %s", async (_, onFailure, answer) => {
    const server = await ownRedis();
    const limit = limiting({ redis: server.url, ...PATIENT, policies: { api }, onFailure });
    const failing = serve(express, limit);
    await visit(failing);
    await server.kill();
    expect(await visit(failing)).toEqual(answer);
  });

  it("example 6: nothing of ours on a request that is skipped", async () => {
    const limit = limiting({ store: redis.store, policies: { api }, skip: () => true });
    expect(await visit(serve(express, limit))).toEqual(passed({}));
  });

  it("example 9: a sliding log, the last unit taken", async () => {
    await seed.log(`${LOCAL}:login:sl`, 10_000, [9200, 3000, 2000, 1000]);
    const login = slidingLog({ limit: 5, window: "10s" });
    expect(await visit(app({ login }))).toEqual(
      passed({ "RateLimit-Policy": '"login";q=5;w=10', RateLimit: '"login";r=0;t=1' }),
    );
  });

  it("example 9: a sliding log, two of five used", async () => {
    await seed.log(`${LOCAL}:login:sl`, 10_000, [9200]);
    const login = slidingLog({ limit: 5, window: "10s" });
    expect((await visit(app({ login }))).fields["RateLimit"]).toBe('"login";r=3;t=6');
  });

  it("example 10: a bucket that fills in less than a second", async () => {
    const fast = tokenBucket({ capacity: 5, refillPerSecond: 50 });
    expect(await visit(app({ fast }))).toEqual(
      passed({ "RateLimit-Policy": '"fast";q=5;w=1', RateLimit: '"fast";r=4;t=1' }),
    );
  });

  it("example 11: a cost that can never pass is given no time to wait", async () => {
    await seed.bucket(`${LOCAL}:api:tb`, 80, 12_000);
    expect(await visit(app({ api }, 500))).toEqual(
      refused({ "RateLimit-Policy": '"api";q=100;w=60', RateLimit: '"api";r=80' }, "api"),
    );
  });

  it("example 12: no wait is longer than clients can set a timer for", async () => {
    await seed.window(`${LOCAL}:quarter:fw`, 50, 7_000_000_000);
    const quarter = fixedWindow({ limit: 50, window: 90 * DAY_MS });
    expect(await visit(app({ quarter }))).toEqual(
      refused(
        {
          "RateLimit-Policy": '"quarter";q=50;w=7776000',
          RateLimit: '"quarter";r=0;t=2147483',
          "Retry-After": "2147483",
        },
        "quarter",
      ),
    );
  });

  it("example 13: a look at an untouched bucket", async () => {
    expect((await visit(app({ api }, 0))).fields["RateLimit"]).toBe('"api";r=100;t=60');
    expect(await redis.keys()).toEqual([]);
  });

  it("all headers and no body to HEAD", async () => {
    await seed.bucket(`${LOCAL}:api:tb`, 0.3, 59_820);
    const get = await visit(app({ api }));
    expect(await visit(app({ api }), {}, "head")).toEqual({ ...get, body: undefined });
  });

  it("the same RateLimit-Policy whether allowed, refused or degraded", async () => {
    const server = await ownRedis();
    const policies = { b: fixedWindow({ limit: 1, window: "1m" }), a: daily };
    const served = serve(express, limiting({ redis: server.url, ...PATIENT, policies, denyCache: false }));
    const allowed = await visit(served);
    const denied = await visit(served);
    await server.kill();
    const degraded = await visit(served);
    expect([allowed.status, denied.status, degraded.status]).toEqual([200, 429, 200]);
    for (const { fields } of [allowed, denied, degraded])
      expect(fields["RateLimit-Policy"]).toBe('"b";q=1;w=60, "a";q=10000;w=86400');
  });

  it("over what was to be cached, and leaves other headers alone", async () => {
    const limit = limiting({ store: redis.store, ...PATIENT, limit: 0, window: "1m" });
    const served = serve(
      express,
      (_, res, next) => {
        res.set({ "Cache-Control": "public, max-age=60", "Access-Control-Allow-Origin": "*" });
        next();
      },
      limit,
    );
    expect((await visit(served)).fields).toMatchObject({
      "Cache-Control": "no-store",
      "Access-Control-Allow-Origin": "*",
    });
  });
});

describe("The one that binds first", () => {
  const order = async (policies: Record<string, Policy>, cost = 1) => {
    const limit = limiting({ store: redis.store, ...PATIENT, policies, cost });
    const { fields } = await visit(serve(express, limit));
    return [...read(fields["RateLimit"]).keys()];
  };
  const fixed = (limit: number, window: string) => fixedWindow({ limit, window });

  it("is the one with the fewest requests left", async () => {
    expect(await order({ many: fixed(9, "1h"), few: fixed(8, "1m") })).toEqual(["few", "many"]);
  });

  it("counts requests of this cost, not units", async () => {
    // 7 and 6 units are 1 request of 5 each: the longer wait decides.
    expect(await order({ six: fixed(11, "1m"), seven: fixed(12, "1h") }, 5)).toEqual(["seven", "six"]);
  });

  it("is the one with the longer wait where as many are left", async () => {
    expect(await order({ minute: fixed(5, "1m"), hour: fixed(5, "1h") })).toEqual(["hour", "minute"]);
  });

  it("is the first of the configuration where all else is equal", async () => {
    expect(await order({ b: fixed(5, "1m"), a: fixed(5, "1m") })).toEqual(["b", "a"]);
  });
});

it("Retry-After is the longest wait, wherever its policy stands", async () => {
  const policies = {
    hour: fixedWindow({ limit: 1, window: "1h" }),
    minute: fixedWindow({ limit: 1, window: "1m" }),
  };
  const app = serve(express, limiting({ store: redis.store, ...PATIENT, policies }));
  await visit(app);
  expect((await visit(app)).fields).toMatchObject({
    RateLimit: '"hour";r=0;t=3600, "minute";r=0;t=60',
    "Retry-After": "3600",
  });
});

it("A limit that no field can carry is refused when the limiter is made", () => {
  // RFC 9651 §3.3.1: 15 digits. One number more, and clients ignore the whole field.
  expect(() => fixedWindow({ limit: 10 ** 15, window: "1m" })).toThrow("fixedWindow.limit");
});

it("tells the numbers of now, not of the last request", async () => {
  const limit = limiting({ store: redis.store, ...PATIENT, limit: 5, window: "1m", cost: 5 });
  const app = serve(express, limit);
  await visit(app);
  const first = Number((await visit(app)).fields["Retry-After"]);
  clock.advance(7000);
  expect((await visit(app)).fields["Retry-After"]).toBe(String(first - 7));
});
