/** What each framework answers, to the byte: the worked examples of the header contract and all its rules. */
import {
  concurrency,
  type Config,
  fixedWindow,
  globally,
  type HeaderOptions,
  type Policy,
  slidingLog,
  tokenBucket,
  user,
} from "@tidegate/core";
import { describe, expect, it } from "vitest";
import {
  type Answer,
  blocked,
  LOCAL,
  refused,
  storeKinds,
  UNAVAILABLE,
  type useRedis,
} from "../../harness/http.ts";
import { ask, asks, hello, type Kit, serving, type Site, statuses } from "./kit.ts";

const DAY_MS = 86_400_000;
/** As the examples say: a clock at 1795950000.250. */
const AT_MS = 1_795_950_000_250;

const api = tokenBucket({ capacity: 100, refillPerSecond: 100 / 60 });
const burst = tokenBucket({ capacity: 20, refillPerSecond: 10 });
const slowBurst = tokenBucket({ capacity: 20, refillPerSecond: 2 });
const daily = fixedWindow({ limit: 10_000, window: "1d" });
const upload = tokenBucket({ capacity: 65_536_000, refillPerSecond: 6_553_600, unit: "content-bytes" });
const inflight = concurrency({ limit: 10 });
const login = slidingLog({ limit: 5, window: "10s" });
const quarter = fixedWindow({ limit: 50, window: 90 * DAY_MS });
const fast = tokenBucket({ capacity: 5, refillPerSecond: 50 });

type Seed = ReturnType<typeof useRedis>["seed"];

interface Example {
  readonly of: string;
  readonly policies: Record<string, Policy>;
  readonly seed?: (seed: Seed) => Promise<unknown>;
  readonly cost?: number;
  readonly headers?: HeaderOptions;
  readonly by?: Config["by"];
  readonly answer: Answer;
}

const x: HeaderOptions = { standard: false, x: true };
const bytes: HeaderOptions = { partitionKey: { secret: "k1-test-secret" } };
const api42 = { policies: { api }, seed: (seed: Seed) => seed.bucket(`${LOCAL}:api:tb`, 43.5, 33_900) };
const api0 = { policies: { api }, seed: (seed: Seed) => seed.bucket(`${LOCAL}:api:tb`, 0.3, 59_820) };
const two = {
  policies: { burst, daily },
  async seed(seed: Seed) {
    await seed.bucket(`${LOCAL}:burst:tb`, 4.2, 1580);
    await seed.window(`${LOCAL}:daily:fw`, 9099, 51_234_000);
  },
};

const EXAMPLES: Example[] = [
  {
    of: "1",
    ...api42,
    answer: hello({ "RateLimit-Policy": '"api";q=100;w=60', RateLimit: '"api";r=42;t=26' }),
  },
  {
    of: "1, draft-7",
    ...api42,
    headers: { standard: "draft-7" },
    answer: hello({ "RateLimit-Policy": "100;w=60", RateLimit: "limit=100, remaining=42, reset=35" }),
  },
  {
    of: "1, draft-6",
    ...api42,
    headers: { standard: "draft-6" },
    answer: hello({
      "RateLimit-Policy": "100;w=60",
      "RateLimit-Limit": "100",
      "RateLimit-Remaining": "42",
      "RateLimit-Reset": "35",
    }),
  },
  {
    of: "1, x",
    ...api42,
    headers: x,
    answer: hello({
      "X-RateLimit-Limit": "100",
      "X-RateLimit-Remaining": "42",
      "X-RateLimit-Reset": "1795950035",
    }),
  },
  {
    of: "1, draft-11 and x",
    ...api42,
    headers: { x: true },
    answer: hello({
      "RateLimit-Policy": '"api";q=100;w=60',
      RateLimit: '"api";r=42;t=26',
      "X-RateLimit-Limit": "100",
      "X-RateLimit-Remaining": "42",
      "X-RateLimit-Reset": "1795950035",
    }),
  },
  { of: "1, off", ...api42, headers: { standard: false }, answer: hello({}) },
  ...(["draft-8", "draft-9", "draft-10"] as const).map((standard): Example => ({
    of: `1, ${standard}`,
    ...api42,
    headers: { standard },
    answer: hello({ "RateLimit-Policy": '"api";q=100;w=60', RateLimit: '"api";r=42;t=26' }),
  })),
  {
    of: "2",
    ...two,
    answer: hello({
      "RateLimit-Policy": '"burst";q=20;w=2, "daily";q=10000;w=86400',
      RateLimit: '"burst";r=3;t=1, "daily";r=900;t=51234',
    }),
  },
  {
    of: "2, draft-7",
    ...two,
    headers: { standard: "draft-7" },
    answer: hello({
      "RateLimit-Policy": "20;w=2, 10000;w=86400",
      RateLimit: "limit=20, remaining=3, reset=2",
    }),
  },
  {
    of: "3",
    ...api0,
    answer: refused(
      { "RateLimit-Policy": '"api";q=100;w=60', RateLimit: '"api";r=0;t=1', "Retry-After": "1" },
      "api",
    ),
  },
  {
    of: "3, draft-7",
    ...api0,
    headers: { standard: "draft-7" },
    answer: refused(
      {
        "RateLimit-Policy": "100;w=60",
        RateLimit: "limit=100, remaining=0, reset=1",
        "Retry-After": "1",
      },
      "api",
    ),
  },
  {
    of: "3, draft-6",
    ...api0,
    headers: { standard: "draft-6" },
    answer: refused(
      {
        "RateLimit-Policy": "100;w=60",
        "RateLimit-Limit": "100",
        "RateLimit-Remaining": "0",
        "RateLimit-Reset": "1",
        "Retry-After": "1",
      },
      "api",
    ),
  },
  {
    of: "3, x",
    ...api0,
    headers: x,
    answer: refused(
      {
        "X-RateLimit-Limit": "100",
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": "1795950002",
        "Retry-After": "1",
      },
      "api",
    ),
  },
  {
    of: "3, nothing at all",
    ...api0,
    headers: { standard: false, retryAfter: false },
    answer: refused({}, "api"),
  },
  {
    of: "4",
    policies: { burst: slowBurst, daily },
    cost: 5,
    seed: (seed) => seed.bucket(`${LOCAL}:burst:tb`, 3.2, 8400),
    answer: refused(
      {
        "RateLimit-Policy": '"burst";q=20;w=10, "daily";q=10000;w=86400',
        RateLimit: '"burst";r=3;t=1',
        "Retry-After": "1",
      },
      "burst",
    ),
  },
  {
    of: "4b",
    policies: { burst: slowBurst, daily },
    async seed(seed) {
      await seed.bucket(`${LOCAL}:burst:tb`, 0.2, 9900);
      await seed.window(`${LOCAL}:daily:fw`, 10_000, 51_234_000);
    },
    answer: refused(
      {
        "RateLimit-Policy": '"burst";q=20;w=10, "daily";q=10000;w=86400',
        RateLimit: '"daily";r=0;t=51234, "burst";r=0;t=1',
        "Retry-After": "51234",
      },
      "burst",
      "daily",
    ),
  },
  {
    of: "7",
    policies: { upload },
    by: () => user("42"),
    headers: bytes,
    cost: 0,
    seed: (seed) => seed.bucket("rl:{user:42}:upload:tb", 20_000_000, 6949),
    answer: hello({
      "RateLimit-Policy": '"upload";q=65536000;qu="content-bytes";w=10;pk=:+OQsM3nqAat/:',
      RateLimit: '"upload";r=20000000;t=4;pk=:+OQsM3nqAat/:',
    }),
  },
  {
    of: "7, without its key",
    policies: { upload },
    by: () => user("42"),
    cost: 0,
    seed: (seed) => seed.bucket("rl:{user:42}:upload:tb", 20_000_000, 6949),
    answer: hello({
      "RateLimit-Policy": '"upload";q=65536000;qu="content-bytes";w=10',
      RateLimit: '"upload";r=20000000;t=4',
    }),
  },
  {
    of: "8",
    policies: { inflight },
    seed: (seed) => seed.inFlight(`${LOCAL}:inflight:cc`, 6),
    answer: hello({
      "RateLimit-Policy": '"inflight";q=10;qu="concurrent-requests"',
      RateLimit: '"inflight";r=3',
    }),
  },
  ...([1, 3] as const).map((concurrency): Example => ({
    of: `8, full, ${concurrency} s`,
    policies: { inflight },
    headers: { retryAfter: { concurrency } },
    seed: (seed) => seed.inFlight(`${LOCAL}:inflight:cc`, 10),
    answer: refused(
      {
        "RateLimit-Policy": '"inflight";q=10;qu="concurrent-requests"',
        RateLimit: '"inflight";r=0',
        "Retry-After": String(concurrency),
      },
      "inflight",
    ),
  })),
  {
    of: "9, the last unit",
    policies: { login },
    seed: (seed) => seed.log(`${LOCAL}:login:sl`, 10_000, [9200, 3000, 2000, 1000]),
    answer: hello({ "RateLimit-Policy": '"login";q=5;w=10', RateLimit: '"login";r=0;t=1' }),
  },
  {
    of: "9, two used",
    policies: { login },
    seed: (seed) => seed.log(`${LOCAL}:login:sl`, 10_000, [9200]),
    answer: hello({ "RateLimit-Policy": '"login";q=5;w=10', RateLimit: '"login";r=3;t=6' }),
  },
  {
    of: "10",
    policies: { fast },
    answer: hello({ "RateLimit-Policy": '"fast";q=5;w=1', RateLimit: '"fast";r=4;t=1' }),
  },
  {
    of: "11",
    policies: { api },
    cost: 500,
    seed: (seed) => seed.bucket(`${LOCAL}:api:tb`, 80, 12_000),
    answer: refused({ "RateLimit-Policy": '"api";q=100;w=60', RateLimit: '"api";r=80' }, "api"),
  },
  {
    of: "12",
    policies: { quarter },
    seed: (seed) => seed.window(`${LOCAL}:quarter:fw`, 50, 7_000_000_000),
    answer: refused(
      {
        "RateLimit-Policy": '"quarter";q=50;w=7776000',
        RateLimit: '"quarter";r=0;t=2147483',
        "Retry-After": "2147483",
      },
      "quarter",
    ),
  },
  {
    of: "13",
    policies: { api },
    cost: 0,
    answer: hello({ "RateLimit-Policy": '"api";q=100;w=60', RateLimit: '"api";r=100;t=60' }),
  },
];

export function answers(kit: Kit, redis: ReturnType<typeof useRedis>): void {
  describe("writes", () => {
    it.each(EXAMPLES)("example $of", async ({ policies, seed, cost = 1, headers, by, answer }) => {
      redis.clock.set(AT_MS);
      await seed?.(redis.seed);
      const config: Config = {
        store: redis.store,
        policies,
        cost,
        ...(headers && { headers }),
        ...(by && { by }),
      };
      expect(await ask(await serving(kit, { config }))).toEqual(answer);
    });

    it.each([
      ["5: closed", { onFailure: "closed" }, UNAVAILABLE],
      [
        "5: closed, after seconds of one's own",
        { onFailure: "closed", headers: { retryAfter: { closed: 9 } } },
        { ...UNAVAILABLE, fields: { ...UNAVAILABLE.fields, "Retry-After": "9" } },
      ],
      ["5b: open", { onFailure: "open" }, hello({ "RateLimit-Policy": '"api";q=100;w=60' })],
      [
        "5b: open, draft-7",
        { onFailure: "open", headers: { standard: "draft-7" } },
        hello({ "RateLimit-Policy": "100;w=60" }),
      ],
      ["5b: open, x", { onFailure: "open", headers: x }, hello({})],
    ] as [string, Partial<Config>, Answer][])("example %s", async (_, more, answer) => {
      // Nobody listens there.
      const config = { redis: "redis://127.0.0.1:1", policies: { api }, ...more };
      const served = await serving(kit, { config });
      expect(await ask(served)).toEqual(answer);
      expect(served.reached).toEqual(
        answer.status === 200
          ? [expect.objectContaining({ degraded: { rule: "open", reason: "connection" } })]
          : [],
      );
    });

    it("example 6: nothing at all on what is skipped, allowed or exempt", async () => {
      const one = { limit: 0, window: "1m" } as const;
      const preflight = {
        method: "OPTIONS",
        headers: { origin: "https://a.example", "access-control-request-method": "GET" },
      };
      const nothing = [
        ask(await serving(kit, { config: { ...one, skip: () => true } })),
        ask(await serving(kit, { config: { ...one, allow: ["127.0.0.0/8"] } })),
        ask(await serving(kit, { config: { ...one, routes: { "GET /free": false } } }), "/free"),
        ask(await serving(kit, { config: one }), "/", preflight),
      ];
      expect(await Promise.all(nothing)).toEqual(nothing.map(() => hello({})));
    });
  });

  describe.each(storeKinds)("on %s", (kind) => {
    const store = () => redis.storeOf(kind);
    const serve = (config: Config, more: Omit<Site, "config"> = {}) =>
      serving(kit, { config: { store: store(), ...config }, ...more });
    const fw = fixedWindow({ limit: 2, window: "1m" });
    const first = { "RateLimit-Policy": '"fw";q=2;w=60', RateLimit: '"fw";r=1;t=60' };

    it("a request that is refused never reaches its handler, and one that passes brings its decision", async () => {
      const served = await serve({ policies: { fw } });
      expect(statuses(await asks(4, served))).toEqual([200, 200, 429, 429]);
      expect(served.reached).toEqual(
        [1, 0].map((remaining) =>
          expect.objectContaining({
            allowed: true,
            at: redis.clock.now() / 1000,
            verdicts: [expect.objectContaining({ policy: "fw", remaining, limit: 2 })],
          }),
        ),
      );
    });

    it.each([
      [200, "hello"],
      [204, ""],
      [304, ""],
      [404, "hello"],
      [500, "hello"],
    ])("a response of status %i carries the fields of a 200", async (status, body) => {
      const served = await serve(
        { policies: { fw } },
        { handle: (io) => io.send(status, body || undefined) },
      );
      expect(await ask(served)).toEqual({ status, fields: first, body });
    });

    it("P43 T1 HEAD and a 304 by ETag carry the fields of a GET", async () => {
      const served = await serve(
        { policies: { fw: fixedWindow({ limit: 9, window: "1m" }) } },
        {
          handle(io) {
            io.field("ETag", '"v1"');
            io.send(io.incoming.headers["if-none-match"] === '"v1"' ? 304 : 200);
          },
        },
      );
      const get = await ask(served);
      const head = await ask(served, "/", { method: "HEAD" });
      const kept = await ask(served, "/", { headers: { "if-none-match": '"v1"' } });
      expect([get, head, kept].map(({ status }) => status)).toEqual([200, 200, 304]);
      expect([get, head, kept].map(({ fields }) => fields)).toEqual(
        [8, 7, 6].map((r) => ({ "RateLimit-Policy": '"fw";q=9;w=60', RateLimit: `"fw";r=${r};t=60` })),
      );
    });

    it.each([301, 302, 303, 307, 308])(
      "a redirect of %i tells of policies, not of what is left",
      async (status) => {
        const handle: Site["handle"] = (io) => {
          io.field("Location", "/elsewhere");
          io.send(status);
        };
        const { "RateLimit-Policy": policy } = first;
        expect((await ask(await serve({ policies: { fw } }, { handle }))).fields).toEqual({
          "RateLimit-Policy": policy,
        });
        const kept = await serve({ policies: { fw2: fw }, headers: { omitOnRedirect: false } }, { handle });
        expect((await ask(kept)).fields).toHaveProperty("RateLimit");
        const unix = await serve({ policies: { fw3: fw }, headers: x }, { handle });
        expect((await ask(unix)).fields).toEqual({});
      },
    );

    it("all fields and no body on a refusal of HEAD", async () => {
      const served = await serve({ limit: 0, window: "1m" });
      const get = await ask(served);
      expect(get.status).toBe(429);
      expect(await ask(served, "/", { method: "HEAD" })).toEqual({ ...get, body: undefined });
    });

    it("P43 T2 a refusal is never to be stored, whatever earlier middleware has said", async () => {
      const before: Site["before"] = (io) => io.field("Cache-Control", "public, max-age=300");
      const served = await serve({ policies: { fw } }, { before });
      expect((await asks(3, served)).map(({ fields }) => fields["Cache-Control"])).toEqual([
        "public, max-age=300",
        "public, max-age=300",
        "no-store",
      ]);
    });

    it("P12 T1 preflights are neither counted nor refused: preflight, GET, preflight, GET at a limit of 2", async () => {
      const served = await serve({ policies: { fw } });
      const preflight = {
        method: "OPTIONS",
        headers: { origin: "https://a.example", "access-control-request-method": "POST" },
      };
      const seen: number[] = [];
      for (const how of [preflight, {}, preflight, {}, preflight, {}])
        seen.push((await ask(served, "/", how)).status);
      expect(seen).toEqual([200, 200, 200, 200, 200, 429]);
    });

    it("P12 T2 other OPTIONS are counted, and preflights too when asked to be", async () => {
      const plain = await serve({ policies: { fw } });
      expect(statuses(await asks(3, plain, "/", { method: "OPTIONS" }))).toEqual([200, 200, 429]);
      const counting = await serve({ policies: { counted: fw }, preflights: "count" });
      const headers = { origin: "https://a.example", "access-control-request-method": "POST" };
      expect(statuses(await asks(3, counting, "/", { method: "OPTIONS", headers }))).toEqual([200, 200, 429]);
    });

    it("P12 T3 CORS fields that were set earlier survive on a refusal", async () => {
      const before: Site["before"] = (io) => io.field("Access-Control-Allow-Origin", "https://a.example");
      const served = await serve({ limit: 0, window: "1m" }, { before });
      const answer = await fetch(`http://127.0.0.1:${served.port}/`);
      expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([
        429,
        "https://a.example",
      ]);
    });

    it.each([
      [undefined, {}, "RateLimit, RateLimit-Policy, Retry-After"],
      ["ETag, ratelimit", {}, "ETag, ratelimit, RateLimit-Policy, Retry-After"],
      [
        undefined,
        { standard: "draft-6", x: true },
        "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit-Policy, Retry-After",
      ],
    ] as [string | undefined, HeaderOptions, string][])(
      "expose adds to %s what %o writes",
      async (there, headers, exposed) => {
        const before: Site["before"] = (io) => {
          if (there) io.field("Access-Control-Expose-Headers", there);
        };
        const served = await serve({ policies: { fw }, headers: { ...headers, expose: true } }, { before });
        for (const { fields } of await asks(3, served))
          expect(fields["Access-Control-Expose-Headers"]).toBe(exposed);
      },
    );

    it("jitter is only ever added to Retry-After, and never more than was allowed", async () => {
      const served = await serve(
        {
          policies: {
            fw: fixedWindow({ limit: 0, window: 5000 }),
            one: fixedWindow({ limit: 1, window: 5000 }),
          },
          headers: { jitterSeconds: 3 },
        },
        {},
      );
      const spent = await serve({
        policies: { one: fixedWindow({ limit: 1, window: 5000 }) },
        headers: { jitterSeconds: 3 },
      });
      expect((await ask(served)).fields).not.toHaveProperty("Retry-After");
      await ask(spent);
      const waits = (await asks(40, spent)).map(({ fields }) => [fields["RateLimit"], fields["Retry-After"]]);
      for (const [state] of waits) expect(state).toBe('"one";r=0;t=5');
      expect(new Set(waits.map(([, wait]) => wait))).toEqual(new Set(["5", "6", "7", "8"]));
    });

    it("a blocked identity is told of policies, and how long it stays blocked", async () => {
      const served = await serve({ policies: { fw }, by: () => user("42"), blocking: true });
      await served.limiter.block(user("42"), 9500);
      expect(await ask(served)).toEqual(
        blocked({ "RateLimit-Policy": '"fw";q=2;w=60', "Retry-After": "10" }),
      );
      await served.limiter.block(user("42"), "forever");
      expect(await ask(served)).toEqual(blocked({ "RateLimit-Policy": '"fw";q=2;w=60' }));
    });

    it("an address on the deny list is refused as one that is blocked for ever, and nothing is asked", async () => {
      const served = await serve({
        policies: { fw },
        deny: ["10.0.0.0/8", "127.0.0.1"],
        allow: ["127.0.0.1"],
      });
      expect(await ask(served)).toEqual(blocked({ "RateLimit-Policy": '"fw";q=2;w=60' }));
      expect(await redis.keys()).toEqual([]);
      const others = await serve({ policies: { fw }, deny: ["10.0.0.0/8", "2001:db8::/32"] });
      expect((await ask(others)).status).toBe(200);
    });

    it("policies on trial are in no field, and refuse nobody", async () => {
      const served = await serve({
        policies: { fw, trial: fixedWindow({ limit: 0, window: "1m", mode: "shadow" }) },
      });
      expect(await ask(served)).toEqual(hello(first));
      const all = await serve({ policies: { fw: fixedWindow({ limit: 0, window: "1m" }) }, mode: "shadow" });
      expect(await ask(all)).toEqual(hello({}));
      expect(all.reached[0]).toMatchObject({ allowed: true, verdicts: [{ allowed: false, shadow: true }] });
    });

    it("P42 T1 Retry-After is the rest of the window in seconds, in the field and in what onLimited hears", async () => {
      const heard: unknown[] = [];
      const served = await serve({
        policies: { fw },
        onLimited: ({ retryAfterSeconds, kind, status, violatedPolicies, decision }) =>
          void heard.push([retryAfterSeconds, kind, status, violatedPolicies, decision.retryAfterMs]),
      });
      await asks(2, served);
      redis.clock.advance(55_000);
      expect((await ask(served)).fields).toMatchObject({ "Retry-After": "5", RateLimit: '"fw";r=0;t=5' });
      expect(heard).toEqual([[5, "limit", 429, ["fw"], 5000]]);
    });

    describe("onLimited", () => {
      const spent = (onLimited: Config["onLimited"], more: Partial<Config> = {}) =>
        serve({ limit: 0, window: "1m", by: globally(), onLimited: onLimited!, ...more });
      const fields = {
        "RateLimit-Policy": '"default";q=0;w=60',
        RateLimit: '"default";r=0',
        "Cache-Control": "no-store",
      };
      const usual = refused(
        { "RateLimit-Policy": fields["RateLimit-Policy"], RateLimit: fields.RateLimit },
        "default",
      );

      it.each([
        [
          "a body, with our fields kept",
          { body: { error: "rate_limited" } },
          429,
          "application/json",
          '{"error":"rate_limited"}',
        ],
        ["text", { body: "slow down" }, 429, "text/plain; charset=utf-8", "slow down"],
        [
          "another type of body",
          { body: "<p>slow down</p>", contentType: "text/html" },
          429,
          "text/html",
          "<p>slow down</p>",
        ],
        [
          "another status, type and title",
          { status: 420, type: "https://api.example/slow", title: "Slow down" },
          420,
          "application/problem+json",
          '{"type":"https://api.example/slow","title":"Slow down","status":420,"violated-policies":["default"]}',
        ],
      ])("may give %s", async (_, answer, status, contentType, body) => {
        for (const onLimited of [() => answer, async () => answer]) {
          const { fields: all, ...rest } = await askAll(await spent(onLimited));
          expect({ ...rest, all }).toEqual({ status, body, all: { ...fields, "Content-Type": contentType } });
        }
      });

      it.each([
        ["says nothing", () => undefined, 0],
        ["says nothing, later", async () => {}, 0],
        [
          "throws",
          () => {
            throw new Error("no");
          },
          1,
        ],
        [
          "rejects",
          async () => {
            throw new Error("no");
          },
          1,
        ],
        ["gives a status that is none", () => ({ status: 200 }), 1],
        ["gives nonsense", () => 5 as never, 1],
        ["gives a title that is no text", async () => ({ title: 5 as never }), 1],
      ])("that %s leaves the usual answer", async (_, onLimited, faults) => {
        const served = await spent(onLimited);
        expect(await ask(served)).toEqual(usual);
        expect(served.events).toEqual(
          Array(faults).fill({
            type: "warning",
            code: "TIDEGATE_LIMITED_FAULT",
            message: expect.any(String),
          }),
        );
      });

      it("hears of what is closed, and may answer it as well", async () => {
        const served = await serving(kit, {
          config: {
            redis: "redis://127.0.0.1:1",
            limit: 1,
            window: "1m",
            onFailure: "closed",
            onLimited: ({ kind, status, retryAfterSeconds }) => ({
              body: { kind, status, retryAfterSeconds },
            }),
          },
        });
        expect(await ask(served)).toEqual({
          status: 503,
          fields: { "Retry-After": "5", "Cache-Control": "no-store", "Content-Type": "application/json" },
          body: '{"kind":"closed","status":503,"retryAfterSeconds":5}',
        });
      });
    });
  });
}

/** As {@link ask}, with the type of a body that has another status. */
async function askAll(served: Awaited<ReturnType<typeof serving>>): Promise<Answer> {
  const answer = await fetch(`http://127.0.0.1:${served.port}/`);
  const fields = Object.fromEntries(
    ["RateLimit-Policy", "RateLimit", "Retry-After", "Cache-Control", "Content-Type"].flatMap((name) => {
      const value = answer.headers.get(name);
      return value === null ? [] : [[name, value]];
    }),
  );
  return { status: answer.status, fields, body: await answer.text() };
}
