/** What a blocked identity gets: rule 16 of the header contract. */
import { fixedWindow, ip, ipOf, tokenBucket, user } from "@tidegate/express";
import { describe, expect, it } from "vitest";
import {
  blocked,
  expresses,
  limiting,
  passed,
  PATIENT,
  serve,
  storeKinds,
  useRedis,
  visit,
  visits,
} from "../harness/http.ts";

const redis = useRedis();
const { clock } = redis;
const CLIENT = ipOf("127.0.0.1");
const api = tokenBucket({ capacity: 10, refillPerSecond: 1 });
const API = { "RateLimit-Policy": '"api";q=10;w=10' };
const FRESH = passed({ ...API, RateLimit: '"api";r=9;t=9' });
const DAY = 86_400_000;

describe.each(expresses.flatMap((row) => storeKinds.map((kind) => [...row, kind] as const)))(
  "On %s with $2",
  (_, express, kind) => {
    const blocking = (policies = { api } as Record<string, typeof api>, more = {}) =>
      limiting({ store: redis.storeOf(kind), ...PATIENT, policies, blocking: true, ...more });

    it("while there is no block, nothing is different", async () => {
      expect(await visit(serve(express, blocking()))).toEqual(FRESH);
    });

    it.each([
      [90_000, "90"],
      [1000, "1"],
      [1001, "2"],
      [1, "1"],
      [2_147_483_000, "2147483"],
      [400 * DAY, "2147483"],
    ])("for %i ms: Retry-After %s", async (ms, seconds) => {
      const limit = blocking();
      await limit.limiter.block(CLIENT, ms);
      expect(await visit(serve(express, limit))).toEqual(blocked({ ...API, "Retry-After": seconds }));
    });

    it("for ever: no Retry-After, however long it has been", async () => {
      const limit = blocking();
      await limit.limiter.block(CLIENT, "forever", "abuse");
      expect(await visit(serve(express, limit))).toEqual(blocked(API));
      clock.advance(9 * 365 * DAY);
      await redis.expire();
      expect(await visit(serve(express, limit))).toEqual(blocked(API));
    });

    it("tells what is left, rounded up, until it is over; attempts meanwhile change nothing", async () => {
      const limit = blocking();
      const app = serve(express, limit);
      await limit.limiter.block(CLIENT, 10_000);
      const waits = [];
      for (const ms of [0, 1, 4999, 4999]) {
        clock.advance(ms);
        for (const { status, fields } of await visits(5, app)) waits.push([status, fields["Retry-After"]]);
      }
      expect(waits).toEqual(["10", "10", "5", "1"].flatMap((seconds) => Array(5).fill([429, seconds])));
      clock.advance(1);
      await redis.expire();
      expect(await visit(app)).toEqual(FRESH);
    });

    it("charges nothing: what was used before is what is used after", async () => {
      const limit = blocking({ day: fixedWindow({ limit: 5, window: "1d" }) } as never);
      const app = serve(express, limit);
      await visits(2, app);
      await limit.limiter.block(CLIENT, 60_000);
      expect((await visits(20, app)).every(({ status }) => status === 429)).toBe(true);
      await limit.limiter.unblock(CLIENT);
      expect((await visit(app)).fields["RateLimit"]).toBe('"day";r=2;t=86400');
    });

    it("has no body for HEAD", async () => {
      const limit = blocking();
      await limit.limiter.block(CLIENT, 60_000);
      const answer = blocked({ ...API, "Retry-After": "60" });
      expect(await visit(serve(express, limit), {}, "head")).toEqual({ ...answer, body: undefined });
    });

    it("holds for whoever else the request counts for; and the longest holds", async () => {
      const limit = blocking({
        perUser: fixedWindow({ limit: 5, window: "1h", by: (req) => user(req.get("x-user")) }),
        perIp: fixedWindow({ limit: 50, window: "1h", by: ip() }),
      } as never);
      const app = serve(express, limit);
      const both = { "RateLimit-Policy": '"perUser";q=5;w=3600, "perIp";q=50;w=3600' };
      await limit.limiter.block(user("anna"), 60_000);
      expect(await visit(app, { "x-user": "anna" })).toEqual(blocked({ ...both, "Retry-After": "60" }));
      expect((await visit(app, { "x-user": "ben" })).status).toBe(200);
      await limit.limiter.block(CLIENT, 30_000);
      expect(await visit(app, { "x-user": "anna" })).toEqual(blocked({ ...both, "Retry-After": "60" }));
      expect(await visit(app, { "x-user": "ben" })).toEqual(blocked({ ...both, "Retry-After": "30" }));
      await limit.limiter.block(CLIENT, "forever");
      expect(await visit(app, { "x-user": "anna" })).toEqual(blocked(both));
    });

    it("goes before the limit: blocked and spent is blocked", async () => {
      const limit = blocking({ none: fixedWindow({ limit: 0, window: "1h" }) } as never);
      await limit.limiter.block(CLIENT, 60_000);
      expect(await visit(serve(express, limit))).toEqual(
        blocked({ "RateLimit-Policy": '"none";q=0;w=3600', "Retry-After": "60" }),
      );
    });

    it("is not for a request that is skipped", async () => {
      const limit = blocking(undefined, { skip: () => true });
      await limit.limiter.block(CLIENT, 60_000);
      expect(await visit(serve(express, limit))).toEqual(passed({}));
    });

    it("is not settled, and its slots are nobody's", async () => {
      const limit = blocking(undefined, { settle: () => fail() });
      await limit.limiter.block(CLIENT, 60_000);
      await visits(3, serve(express, limit));
      expect(limit.events.filter(({ type }) => type !== "audit")).toEqual([]);
    });

    it("a later block replaces the one before, and unblocking ends it at once", async () => {
      const limit = blocking();
      const app = serve(express, limit);
      await limit.limiter.block(CLIENT, "forever");
      await limit.limiter.block(CLIENT, 7000);
      expect((await visit(app)).fields["Retry-After"]).toBe("7");
      await limit.limiter.unblock(CLIENT);
      expect(await visit(app)).toEqual(FRESH);
    });

    it("each is told of, by whom it names as keys do", async () => {
      const limit = blocking();
      await limit.limiter.block(CLIENT, 1000, "scraping");
      await limit.limiter.unblock(CLIENT);
      expect(limit.events).toEqual([
        { type: "audit", action: "block", identity: "ip:127.0.0.1", reason: "scraping" },
        { type: "audit", action: "unblock", identity: "ip:127.0.0.1", reason: "" },
      ]);
    });

    it("a limiter that does not heed blocks cannot be told to block, and lets pass whom another blocked", async () => {
      const store = redis.storeOf(kind);
      const limit = blocking(undefined, { store });
      const deaf = limiting({ store, ...PATIENT, policies: { api } });
      await limit.limiter.block(CLIENT, 60_000);
      await expect(deaf.limiter.block(CLIENT, 1000)).rejects.toMatchObject({ code: "TIDEGATE_BLOCKING_OFF" });
      expect((await visit(serve(express, deaf))).status).toBe(200);
      expect((await visit(serve(express, limit))).status).toBe(429);
    });
  },
);

function fail(): never {
  throw new Error("a fault of the user's");
}
