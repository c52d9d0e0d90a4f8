/** What is different on single routes, and that nothing is counted twice. */
import {
  type Config,
  ConfigError,
  type Extension,
  fixedWindow,
  ip,
  route,
  type RouteOverride,
  slidingLog,
  tenant,
  user,
} from "@tidegate/core";
import { describe, expect, it } from "vitest";
import { storeKinds, type useRedis } from "../../harness/http.ts";
import { ask, asks, type Handle, type Kit, serving, type Site, statuses } from "./kit.ts";

const say: Handle = (io) => io.send(200, "hello");
const perMinute = (limit: number) => fixedWindow({ limit, window: "1m" });
/** Everybody is somebody, whatever the address. */
const anna = () => user("anna");
const KEY = "rl:{user:anna}";

export function routes(kit: Kit, redis: ReturnType<typeof useRedis>): void {
  describe.each(storeKinds)("routes on %s", (kind) => {
    const serve = (config: Config, more: Omit<Site, "config"> = {}) =>
      serving(kit, { config: { store: redis.storeOf(kind), by: anna, ...config }, ...more });
    const policyOf = (answer: { fields: Record<string, string> }) => answer.fields["RateLimit-Policy"];
    const stateOf = (answer: { fields: Record<string, string> }) => answer.fields["RateLimit"];

    it("the first line that matches holds, by method and pattern; what no line names is as configured", async () => {
      const served = await serve({
        policies: { all: perMinute(9) },
        routes: {
          "GET /items/new": { cost: 3 },
          "GET /items/:id": { policies: { items: perMinute(5) } },
          "/admin": { policies: { admin: perMinute(4) } },
          "GET /health": false,
        },
      });
      const told = async (path: string, method = "GET") => stateOf(await ask(served, path, { method }));
      expect(await told("/")).toBe('"all";r=8;t=60');
      expect(await told("/items/new")).toBe('"all";r=5;t=60');
      expect(await told("/items/7")).toBe('"items";r=4;t=60');
      expect(await told("/items/7", "HEAD")).toBe('"items";r=3;t=60');
      expect(await told("/items/8?x=/items/new")).toBe('"items";r=2;t=60');
      expect(await told("/items/7", "POST")).toBe('"all";r=4;t=60');
      expect(await told("/admin", "PUT")).toBe('"admin";r=3;t=60');
      expect(await told("/health")).toBeUndefined();
      expect(await told("/health", "POST")).toBe('"all";r=3;t=60');
    });

    it("a route of its own policies counts for itself, and policies of the configuration count on", async () => {
      const all = perMinute(9);
      const served = await serve({
        policies: { all },
        routes: {
          "POST /login": { policies: { all, login: perMinute(5) } },
          "POST /reset": { limit: 2, window: "1m" },
        },
      });
      expect(stateOf(await ask(served, "/"))).toBe('"all";r=8;t=60');
      expect(stateOf(await ask(served, "/login", { method: "POST" }))).toBe(
        '"login";r=4;t=60, "all";r=7;t=60',
      );
      expect(stateOf(await ask(served, "/reset", { method: "POST" }))).toBe('"default";r=1;t=120');
      expect(statuses(await asks(2, served, "/reset", { method: "POST" }))).toEqual([200, 429]);
      expect(stateOf(await ask(served, "/"))).toBe('"all";r=6;t=60');
      if (kind === "redis") {
        const own = /^rl:\{user:anna\}:h\.[\w-]{22}\.(default:sw|login:fw)$/;
        const keys = (await redis.keys()).map((key) => own.exec(key)?.[1] ?? key);
        expect(keys.toSorted()).toEqual(["default:sw", "login:fw", `${KEY}:all:fw`]);
      }
    });

    it("by, cost, mode and onFailure may differ on a route", async () => {
      const served = await serve({
        policies: { all: perMinute(9) },
        routes: {
          "GET /own": { by: () => user("own") },
          "GET /dear": { cost: async () => 4 },
          "GET /trial": { mode: "shadow" },
        },
      });
      expect(stateOf(await ask(served, "/own"))).toBe('"all";r=8;t=60');
      expect(stateOf(await ask(served, "/dear"))).toBe('"all";r=5;t=60');
      expect((await ask(served, "/trial")).fields).toEqual({});
      expect(stateOf(await ask(served, "/"))).toBe('"all";r=3;t=60');

      const config = { redis: "redis://127.0.0.1:1", limit: 1, window: "1m", by: anna } as const;
      const dead = await serving(kit, {
        config: { ...config, routes: { "POST /pay": { onFailure: "closed" } } },
      });
      expect([(await ask(dead)).status, (await ask(dead, "/pay", { method: "POST" })).status]).toEqual([
        200, 503,
      ]);
    });

    it("units come back on a route that says so", async () => {
      const served = await serve(
        { policies: { all: perMinute(9) }, routes: { "POST /login": { giveBackOn: "success" } } },
        { routes: { "POST /login": (io) => io.send(io.incoming.headers["x-password"] ? 200 : 401) } },
      );
      await ask(served, "/login", { method: "POST", headers: { "x-password": "right" } });
      await ask(served, "/login", { method: "POST" });
      await expect
        .poll(async () => (await served.limiter.peek({ identity: user("anna") })).verdicts[0]!.remaining)
        .toBe(8);
    });

    it("P22 T1 routes of one group share their budget, on which any of them is refused", async () => {
      const otp: RouteOverride = { group: "otp", policies: { codes: perMinute(3) } };
      const served = await serve({
        policies: { all: perMinute(99) },
        routes: { "POST /send": otp, "POST /resend": otp },
      });
      expect(statuses(await asks(3, served, "/send", { method: "POST" }))).toEqual([200, 200, 200]);
      expect((await ask(served, "/resend", { method: "POST" })).status).toBe(429);
      if (kind === "redis") expect(await redis.keys()).toEqual([`${KEY}:otp.codes:fw`]);
    });

    it("P22 T2 without a group each route has its own", async () => {
      const own: RouteOverride = { policies: { codes: perMinute(3) } };
      const served = await serve({
        policies: { all: perMinute(99) },
        routes: { "POST /send": own, "POST /resend": own },
      });
      for (const path of ["/send", "/resend"])
        expect(statuses(await asks(4, served, path, { method: "POST" }))).toEqual([200, 200, 200, 429]);
    });

    it("P22 T3 one limiter on three paths is one budget", async () => {
      const served = await serve({ policies: { all: perMinute(3) } });
      const seen = [];
      for (const path of ["/a", "/b", "/c", "/a"]) seen.push((await ask(served, path)).status);
      expect(seen).toEqual([200, 200, 200, 429]);
    });

    it.each([
      ["by a line of the table", { routes: { "POST /login": { policies: { login: perMinute(3) } } } }, {}],
      ["by more policies on the route", {}, { with: { policies: { login: perMinute(3) } } }],
    ] as [string, Partial<Config>, { with?: Extension }][])(
      "P14 T1 every spelling of a path that reaches the handler is of the same budget: %s",
      async (_, config, more) => {
        let reached = 0;
        const handle: Handle = (io) => {
          reached++;
          io.send(200);
        };
        const served = await serve(
          { policies: { all: perMinute(99) }, ...config },
          { routes: { "POST /login": { ...more, handle } } },
        );
        for (let round = 0; round < 3; round++)
          for (const path of [
            "/login",
            "/login/",
            "/LOGIN",
            "//login",
            "/log%69n",
            "/login?x=1",
            "/Login/?x",
          ])
            await ask(served, path, { method: "POST" });
        expect(reached).toBe(3);
      },
    );

    it.each([
      [{ caseSensitive: true }, "/LOGIN"],
      [{ strict: true }, "/login/"],
    ])("P14 T2 with the router set to %o, %s is another path to the table too", async (router, path) => {
      const served = await serve(
        {
          policies: { all: perMinute(99) },
          routes: { "POST /login": { policies: { login: perMinute(3) } } },
        },
        { router },
      );
      expect(policyOf(await ask(served, "/login", { method: "POST" }))).toBe('"login";q=3;w=60');
      expect(policyOf(await ask(served, path, { method: "POST" }))).toBe('"all";q=99;w=60');
    });

    it("P14 T3 a hundred codes in a path are one route: one counter, one key", async () => {
      const served = await serve({
        policies: { all: perMinute(99) },
        routes: { "GET /verify/:code": { policies: { codes: perMinute(3) } } },
      });
      const seen = [];
      for (let code = 0; code < 100; code++) seen.push((await ask(served, `/verify/${code}`)).status);
      expect(seen).toEqual([200, 200, 200, ...Array(97).fill(429)]);
      if (kind === "redis") expect(await redis.keys()).toHaveLength(1);
    });

    it("P14 T4 a hundred codes are one route to route() as well, where the table does not name it", async () => {
      const served = await serve(
        { policies: { all: fixedWindow({ limit: 3, window: "1m", by: tenant(() => "acme").and(route()) }) } },
        { routes: { "GET /verify/:code": say } },
      );
      const seen = [];
      for (let code = 0; code < 10; code++) seen.push((await ask(served, `/verify/${code}`)).status);
      expect(seen).toEqual([200, 200, 200, ...Array(7).fill(429)]);
    });

    it("a tenant that exhausts search keeps its login and its webhooks", async () => {
      const by = tenant(() => "acme").and(route());
      const served = await serve({
        policies: { all: fixedWindow({ limit: 3, window: "1m", by }) },
        routes: { "GET /search": {}, "POST /login": {}, "POST /webhooks/:name": {} },
      });
      expect(statuses(await asks(5, served, "/search?q=a"))).toEqual([200, 200, 200, 429, 429]);
      for (const path of ["/login", "/webhooks/stripe"])
        expect(stateOf(await ask(served, path, { method: "POST" }))).toBe('"all";r=2;t=60');
      expect(stateOf(await ask(served, "/webhooks/github", { method: "POST" }))).toBe('"all";r=1;t=60');
      await served.limiter.reset(tenant("acme"));
      expect(stateOf(await ask(served, "/search"))).toBe('"all";r=2;t=60');
      expect(await ask(served, "/elsewhere")).toMatchObject({ fields: { RateLimit: '"all";r=2;t=60' } });
    });

    it("more policies on a route come on top, and are told of together; on their own they count all", async () => {
      const more = { policies: { login: slidingLog({ limit: 2, window: "15m" }) } };
      const served = await serve(
        { policies: { all: perMinute(9) } },
        { routes: { "POST /login": { with: more, handle: say } } },
      );
      const answers = await asks(3, served, "/login", { method: "POST" });
      expect(
        answers.map(({ status, fields }) => [status, fields["RateLimit-Policy"], fields["RateLimit"]]),
      ).toEqual([
        [200, '"all";q=9;w=60, "login";q=2;w=900', '"login";r=1;t=900, "all";r=8;t=60'],
        [200, '"all";q=9;w=60, "login";q=2;w=900', '"login";r=0;t=900, "all";r=7;t=60'],
        [429, '"all";q=9;w=60, "login";q=2;w=900', '"login";r=0;t=900'],
      ]);
      expect(served.events).toEqual([]);
      expect(served.reached).toHaveLength(2);
      await served.limiter.reset(user("anna"), "login");
      expect(stateOf(await ask(served, "/login", { method: "POST" }))).toBe(
        '"login";r=1;t=900, "all";r=5;t=60',
      );
    });

    it("P27 T1 the same limiter on the application and on a route counts once, with one note", async () => {
      const served = await serve(
        { policies: { all: perMinute(9) } },
        {
          routes: { "GET /twice": { again: true, with: { policies: { more: perMinute(5) } }, handle: say } },
        },
      );
      for (const r of [8, 7])
        expect(stateOf(await ask(served, "/twice"))).toBe(`"more";r=${r - 4};t=60, "all";r=${r};t=60`);
      expect(served.events).toEqual([
        { type: "warning", code: "TIDEGATE_COUNTED_ONCE", message: expect.any(String) },
      ]);
    });

    it("P46 T1 of several rules the one that binds first is in front, and is the only one where there is room for one", async () => {
      const policies = { second: fixedWindow({ limit: 10, window: 1000 }) };
      const hour = { with: { policies: { hour: fixedWindow({ limit: 1000, window: "1h" }) } }, handle: say };
      const list = await serve({ policies }, { routes: { "GET /x": hour } });
      await asks(6, list, "/x");
      expect((await ask(list, "/x")).fields).toEqual({
        "RateLimit-Policy": '"second";q=10;w=1, "hour";q=1000;w=3600',
        RateLimit: '"second";r=3;t=1, "hour";r=993;t=3600',
      });
      const single = await serve(
        { policies: { once: policies.second }, headers: { standard: "draft-7", x: true } },
        { routes: { "GET /x": hour } },
      );
      await asks(6, single, "/x");
      expect((await ask(single, "/x")).fields).toEqual({
        "RateLimit-Policy": "10;w=1, 1000;w=3600",
        RateLimit: "limit=10, remaining=3, reset=1",
        "X-RateLimit-Limit": "10",
        "X-RateLimit-Remaining": "3",
        "X-RateLimit-Reset": String(Math.ceil(redis.clock.now() / 1_000_000) + 1),
      });
    });

    it("P46 T2 a refusal by two rules says the longer wait, once", async () => {
      const served = await serve({
        policies: {
          second: fixedWindow({ limit: 1, window: 1000 }),
          hour: fixedWindow({ limit: 1, window: "1h" }),
        },
      });
      await ask(served);
      expect((await ask(served)).fields).toMatchObject({
        RateLimit: '"hour";r=0;t=3600, "second";r=0;t=1',
        "Retry-After": "3600",
      });
    });

    it.each([
      ['a name with "quotes"', { policies: { 'a"b': perMinute(1) } }, "TIDEGATE_POLICY_NAME", "policies"],
      ["a name not of ASCII", { policies: { größe: perMinute(1) } }, "TIDEGATE_POLICY_NAME", "policies"],
      ["a route without a path", { limit: 1, window: 1, routes: { login: {} } }, "TIDEGATE_ROUTE", "routes"],
      [
        "a method in small letters",
        { limit: 1, window: 1, routes: { "get /": {} } },
        "TIDEGATE_ROUTE",
        "routes",
      ],
      [
        "a pattern that is none",
        { limit: 1, window: 1, routes: { [`GET ${kit.noPattern}`]: {} } },
        "TIDEGATE_ROUTE",
        "routes",
      ],
      [
        "an unknown option",
        { limit: 1, window: 1, routes: { "GET /": { max: 5 } } },
        "TIDEGATE_OPTION_UNKNOWN",
        "routes.GET /.max",
      ],
      [
        "true for a route",
        { limit: 1, window: 1, routes: { "GET /": true } },
        "TIDEGATE_OPTION_INVALID",
        "routes.GET /",
      ],
      [
        "no policy",
        { limit: 1, window: 1, routes: { "GET /": { policies: {} } } },
        "TIDEGATE_POLICY_MISSING",
        "routes.GET /.policies",
      ],
      [
        "a group that is none",
        { limit: 1, window: 1, routes: { "GET /": { group: "a b" } } },
        "TIDEGATE_OPTION_INVALID",
        "routes.GET /.group",
      ],
      [
        "a policy that reads like a group's",
        {
          policies: { "otp.codes": perMinute(1) },
          routes: { "GET /": { group: "otp", policies: { codes: perMinute(1) } } },
        },
        "TIDEGATE_POLICY_DUPLICATE",
        "policies.otp.codes",
      ],
    ] as [string, Config, string, string][])(
      "P46 T3 %s is refused when the limiter is made",
      async (_, config, code, option) => {
        const made = serving(kit, { config });
        await expect(made).rejects.toMatchObject({ name: "ConfigError", code, option });
        await expect(made).rejects.toBeInstanceOf(ConfigError);
      },
    );

    it("a route's own policy and one more of the same name both hold, and are told apart", async () => {
      const served = await serve(
        {
          policies: { all: perMinute(9) },
          routes: { "GET /x": { policies: { login: perMinute(5) } } },
        },
        { routes: { "GET /x": { with: { policies: { login: perMinute(2) } }, handle: say } } },
      );
      await asks(2, served, "/x");
      const { status, fields, body } = await ask(served, "/x");
      expect([status, fields["RateLimit-Policy"], fields["RateLimit"]]).toEqual([
        429,
        '"login";q=5;w=60, "login-2";q=2;w=60',
        '"login-2";r=0;t=60',
      ]);
      expect(JSON.parse(body!)["violated-policies"]).toEqual(["login-2"]);
    });

    it("more policies of a name that is taken are refused when they are made", async () => {
      const made = serve(
        { policies: { all: perMinute(1) }, by: ip() },
        { routes: { "GET /": { with: { policies: { All: perMinute(2) } }, handle: say } } },
      );
      await expect(made).rejects.toMatchObject({
        code: "TIDEGATE_POLICY_DUPLICATE",
        option: "with.policies.All",
      });
    });
  });
}
