/** What the middleware does with a request, and what a request finds of it. */
import { createHash } from "node:crypto";
import {
  apiKey,
  fixedWindow,
  globally,
  ip,
  type MaybePromise,
  rateLimit,
  slidingLog,
  slidingWindow,
  type Store,
  tenant,
  tokenBucket,
  user,
} from "@tidegate/express";
import type { ErrorRequestHandler, RequestHandler, Response } from "express";
import { describe, expect, it, vi } from "vitest";
import {
  expresses,
  limiting,
  LOCAL,
  PATIENT,
  read,
  serve,
  useRedis,
  visit,
  visits,
} from "../harness/http.ts";

const redis = useRedis();
const { clock } = redis;

const digestOf = (key: string) =>
  createHash("sha256").update(key).digest().subarray(0, 16).toString("base64url");
const statuses = (answers: { status: number }[]) => answers.map(({ status }) => status);
const forwarded = (...addresses: string[]) => ({ "x-forwarded-for": addresses.join(", ") });
const remaining = (answer: { fields: Record<string, string> }) =>
  [...read(answer.fields["RateLimit"]).values()].map(({ r }) => r);

describe.each(expresses)("On %s", (_, express) => {
  it("limit and window are enough", async () => {
    const app = serve(express, rateLimit({ limit: 2, window: "1m" }));
    const answers = await visits(3, app);
    expect(statuses(answers)).toEqual([200, 200, 429]);
    expect(answers[0]!.fields["RateLimit-Policy"]).toBe('"default";q=2;w=60');
  });

  it("a request that is refused never reaches the handler", async () => {
    const handler = vi.fn<RequestHandler>((_, res) => void res.end());
    const app = serve(express, rateLimit({ limit: 1, window: "1m" }), handler);
    await visits(3, app);
    expect(handler).toHaveBeenCalledTimes(1);
  });

  it.each([
    ["answers at once", (key: string) => key.startsWith("sk_")],
    ["answers later", async (key: string) => key.startsWith("sk_")],
  ])("API keys are counted by key when verify %s, and all others by address", async (_, verify) => {
    const by = apiKey({ header: "X-Api-Key", verify }).or(ip());
    const app = serve(express, limiting({ store: redis.store, ...PATIENT, limit: 1, window: "1m", by }));
    const asked = [{ "x-api-key": "sk_1" }, { "x-api-key": "sk_2" }, { "x-api-key": "guess" }, {}];
    const first: number[] = [];
    for (const headers of [...asked, ...asked]) first.push((await visit(app, headers)).status);
    // Whoever guesses a key and whoever has none are the same address.
    expect(first).toEqual([200, 200, 200, 429, 429, 429, 429, 429]);
    expect(await redis.keys()).toEqual(
      [
        `rl:{key:${digestOf("sk_1")}}:default:sw`,
        `rl:{key:${digestOf("sk_2")}}:default:sw`,
        `${LOCAL}:default:sw`,
      ].sort(),
    );
  });

  it.each([
    ["apiKey() alone", apiKey({ header: "x-api-key" }), undefined, 1],
    ["apiKey().or(ip())", apiKey({ header: "x-api-key" }).or(ip()), undefined, 1],
    ["a policy by ip() beside it", apiKey({ header: "x-api-key" }), ip(), 0],
    ["verify", apiKey({ header: "x-api-key", verify: () => true }), undefined, 0],
  ])("keys that anybody can invent are warned of once: %s", async (_, by, beside, times) => {
    const policies = {
      keys: fixedWindow({ limit: 9, window: "1m" }),
      ...(beside && { perIp: fixedWindow({ limit: 9, window: "1m", by: beside }) }),
    };
    const limit = limiting({ by, policies });
    await visits(2, serve(express, limit), { "x-api-key": "sk" });
    const warning = expect.objectContaining({ type: "warning", code: "TIDEGATE_UNVERIFIED_KEY" });
    expect(limit.events).toEqual(Array(times).fill(warning));
  });

  it("a key in Redis says prefix, who, policy and algorithm, and nothing else", async () => {
    const limit = limiting({
      store: redis.store,
      ...PATIENT,
      prefix: "api",
      by: (req) => user(req.get("x-user")!),
      policies: {
        burst: tokenBucket({ capacity: 10, refillPerSecond: 5 }),
        "per.minute": slidingWindow({ limit: 10, window: "1m", by: ip() }),
        login_1: slidingLog({ limit: 10, window: "1m", by: () => tenant(7) }),
        "All-Day": fixedWindow({ limit: 10, window: "1d", by: globally() }),
        plain: fixedWindow({ limit: 10, window: "1d", by: () => "a.b~c-d_e" }),
        keyed: fixedWindow({
          limit: 10,
          window: "1d",
          by: apiKey({ header: "x-api-key", verify: () => true }),
        }),
        mixed: fixedWindow({ limit: 10, window: "1d", by: () => "no one: {at} all" }),
      },
    });
    await visit(serve(express, limit), { "x-user": "anna", "x-api-key": "sk" });
    expect(await redis.keys()).toEqual(
      [
        "api:{user:anna}:burst:tb",
        "api:{ip:127.0.0.1}:per.minute:sw",
        "api:{tenant:7}:login_1:sl",
        "api:{all:-}:All-Day:fw",
        "api:{id:a.b~c-d_e}:plain:fw",
        `api:{key:${digestOf("sk")}}:keyed:fw`,
        `api:{id:h.${digestOf("no one: {at} all")}}:mixed:fw`,
      ].sort(),
    );
  });

  it.each([
    ["off", false, "127.0.0.1"],
    ["1", 1, "203.0.113.9"],
    ["2", 2, "203.0.113.8"],
    ["a list", "loopback, 203.0.113.0/24", "198.51.100.7"],
  ])("the address is the application's own: trust proxy %s", async (_, trust, address) => {
    const app = serve(express, limiting({ store: redis.store, ...PATIENT, limit: 5, window: "1m" }));
    app.set("trust proxy", trust);
    await visit(app, forwarded("198.51.100.7", "203.0.113.8", "203.0.113.9"));
    expect(await redis.keys()).toEqual([`rl:{ip:${address}}:default:sw`]);
  });

  it("the request holds the decision, and the receipt of what was charged", async () => {
    const found: unknown[] = [];
    const look: RequestHandler = (req, _, next) => {
      found.push(req.rateLimit);
      next();
    };
    const policies = {
      log: slidingLog({ limit: 3, window: 1000 }),
      day: fixedWindow({ limit: 9, window: 5000 }),
    };
    await visit(serve(express, limiting({ store: redis.store, ...PATIENT, policies, cost: 2 }), look));
    const at = clock.now();
    expect(found).toEqual([
      {
        allowed: true,
        at: at / 1000,
        cost: 2,
        verdicts: [
          {
            policy: "log",
            allowed: true,
            limit: 3,
            remaining: 1,
            nextMs: 1000,
            fullMs: 1001,
            reason: "ok",
            shadow: false,
          },
          {
            policy: "day",
            allowed: true,
            limit: 9,
            remaining: 7,
            nextMs: 5000,
            fullMs: 5000,
            reason: "ok",
            shadow: false,
          },
        ],
        retryAfterMs: 0,
        degraded: undefined,
        blocked: false,
        replayed: false,
        cached: false,
        receipt: {
          at,
          lease: undefined,
          charges: [
            { policy: "log", key: `${LOCAL}:log:sl`, units: 2, mark: at },
            { policy: "day", key: `${LOCAL}:day:fw`, units: 2, mark: at + 5_000_000 },
          ],
        },
      },
    ]);
  });

  describe("skip", () => {
    it.each([
      ["at once", () => true],
      ["later", async () => true],
    ])("leaves no trace of a request: said %s", async (_, skip) => {
      const limit = limiting({ store: redis.store, ...PATIENT, limit: 0, window: "1m", skip });
      expect(await visit(serve(express, limit))).toEqual({ status: 200, fields: {}, body: "hello" });
      expect(await redis.keys()).toEqual([]);
    });

    it.each([
      ["says no", () => false, []],
      ["says no later", async () => false, []],
      ["throws", () => fail(), ["TIDEGATE_SKIP_FAULT"]],
      ["rejects", async () => fail(), ["TIDEGATE_SKIP_FAULT"]],
      ["never answers", () => new Promise<never>(() => {}), ["TIDEGATE_SKIP_FAULT"]],
    ])("that %s leaves the request counted", async (_, skip, codes) => {
      const limit = limiting({ limit: 0, window: "1m", skip, timeoutMs: 20 });
      expect((await visit(serve(express, limit))).status).toBe(429);
      expect(limit.events).toEqual(codes.map((code) => expect.objectContaining({ type: "warning", code })));
    });
  });

  describe("A cost function", () => {
    it.each<[string, () => MaybePromise<number>, number, number]>([
      ["of 3", () => 3, 7, 0],
      ["of 3, later", async () => 3, 7, 0],
      ["of 0 takes nothing", () => 0, 10, 0],
      ["that throws costs 1", () => fail(), 9, 1],
      ["that rejects costs 1", async () => fail(), 9, 1],
      ["that never answers costs 1", () => new Promise<never>(() => {}), 9, 1],
      ...[NaN, Infinity, -1, 1.5, 2 ** 53, "3", null, undefined, {}].map(
        (nonsense): [string, () => number, number, number] => [
          `of ${String(nonsense)} costs 1`,
          () => nonsense as number,
          9,
          1,
        ],
      ),
    ])("%s", async (_, cost, left, faults) => {
      const limit = limiting({
        policies: { fixed: fixedWindow({ limit: 10, window: "1m" }) },
        cost,
        timeoutMs: 20,
      });
      expect(remaining(await visit(serve(express, limit)))).toEqual([left]);
      expect(limit.events).toEqual(
        Array(faults).fill(expect.objectContaining({ type: "warning", code: "TIDEGATE_COST_FAULT" })),
      );
    });

    it("is asked with the request", async () => {
      const limit = limiting({ limit: 10, window: "1m", cost: (req) => Number(req.get("x-cost")) });
      expect(remaining(await visit(serve(express, limit), { "x-cost": "4" }))).toEqual([6]);
    });
  });

  describe("Whoever replied during the decision", () => {
    const slowly = (store: Store): Store => ({
      ...store,
      decide: (batch, done) => void setTimeout(() => store.decide(batch, done), 20),
    });
    const replied =
      (how: (res: Response) => void): RequestHandler =>
      (_, res, next) => {
        setTimeout(() => how(res), 5);
        next();
      };

    it.each<[string, string, (res: Response) => void, number, string]>([
      ["answered", "passes", (res) => void res.end("early"), 5, "early"],
      ["answered", "is refused", (res) => void res.end("early"), 0, "early"],
      ["begun to answer", "passes", (res) => void res.write("early "), 5, "early late"],
      ["begun to answer", "is refused", (res) => void res.write("early "), 0, "early "],
    ])("and has %s is left alone when the request then %s", async (_, __, how, most, body) => {
      const errors: unknown[] = [];
      const limit = limiting({ store: slowly(redis.storeOf("memory")), limit: most, window: "1m" });
      const app = express();
      app.use(replied(how), limit, (_, res) => {
        if (!res.headersSent || res.writableEnded) res.set("X-Late", "1");
        res.end("late");
      });
      app.use(((error, _req, _res, _next) => void errors.push(error)) satisfies ErrorRequestHandler);
      expect(await visit(app)).toMatchObject({ status: 200, body });
      await new Promise((resolve) => setTimeout(resolve, 40));
      expect(errors).toEqual([]);
    });
  });

  it("closing a limiter leaves a store it was given to the others", async () => {
    const store = redis.storeOf("memory");
    const app = serve(express, rateLimit({ store, limit: 1, window: "1m" }));
    await visit(app);
    await rateLimit({ store, limit: 1, window: "1m" }).limiter.close();
    expect((await visit(app)).status).toBe(429);
  });
});

function fail(): never {
  throw new Error("a fault of the user's");
}
