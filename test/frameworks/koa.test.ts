/** What is Koa's own: composing, mounting, errors, answering by `ctx.body`, and doing without a router. */
import Router from "@koa/router";
import {
  type Config,
  type Decision,
  fixedWindow,
  type KoaRateLimitConfig,
  rateLimit,
  type TidegateEvent,
  user,
} from "@tidegate/koa";
import Koa, { type Context, type DefaultState, type Middleware } from "koa";
import Koa2 from "koa2";
import request from "supertest";
import { describe, expect, expectTypeOf, it } from "vitest";
import { PATIENT } from "../harness/http.ts";

const three = (): Config => ({ ...PATIENT, policies: { three: fixedWindow({ limit: 3, window: "1m" }) } });
const THREE = { "ratelimit-policy": '"three";q=3;w=60', ratelimit: '"three";r=2;t=60' };

function application(Make: typeof Koa, ...middleware: Middleware[]): Koa {
  const app = new Make();
  app.silent = true;
  for (const each of middleware) app.use(each);
  return app;
}

const get = (app: Koa, path = "/") => request(app.callback()).get(path);
const say: Middleware = (ctx) => void (ctx.body = "hello");

describe.each([
  ["Koa 3", Koa],
  ["Koa 2", Koa2],
])("On %s", (_, Make) => {
  it("without any router every path is limited, also those that nobody answers", async () => {
    const app = application(Make, rateLimit(three()));
    const seen = [];
    for (const path of ["/a", "/b", "/c", "/d"]) seen.push((await get(app, path)).status);
    expect(seen).toEqual([404, 404, 404, 429]);
  });

  it("P27 T3 composed twice in one chain it counts once", async () => {
    const limit = rateLimit(three());
    const app = application(Make, limit, async (ctx, next) => limit(ctx as Context, next), say);
    expect((await get(app)).headers).toMatchObject(THREE);
  });

  it.each<[string, unknown]>([
    ["an error", new Error("no")],
    [
      "an error with a status and fields of its own",
      Object.assign(new Error("no"), { status: 418, expose: true, headers: { "X-Own": "1" } }),
    ],
  ])("%s thrown by a handler keeps our fields through Koa's own error handler", async (_, error) => {
    const app = application(Make, rateLimit(three()), () => {
      throw error;
    });
    const { status, headers } = await get(app);
    expect(status).toBe((error as { status?: number }).status ?? 500);
    expect(headers).toMatchObject(THREE);
    if (status === 418) expect(headers["x-own"]).toBe("1");
  });

  it("ctx.throw keeps our fields as well, and what is no object is thrown on", async () => {
    const app = application(Make, rateLimit(three()), (ctx) => {
      if (ctx.path === "/text") throw "text";
      ctx.throw(403);
    });
    expect(await get(app)).toMatchObject({ status: 403, headers: THREE });
    expect((await get(app, "/text")).status).toBe(500);
  });

  it("an error handler of the application sees the error and the fields", async () => {
    const app = application(
      Make,
      async (ctx, next) => {
        try {
          await next();
        } catch (error) {
          ctx.status = 409;
          ctx.body = (error as Error).message;
        }
      },
      rateLimit(three()),
      () => {
        throw new Error("conflict");
      },
    );
    expect(await get(app)).toMatchObject({ status: 409, text: "conflict", headers: THREE });
  });

  it.each<[string, NonNullable<KoaRateLimitConfig["onLimited"]>]>([
    ["sets a body", (_refusal, ctx) => void (ctx.body = { error: "mine" })],
    [
      "sets a body, later",
      async (_refusal, ctx) => {
        await Promise.resolve();
        ctx.body = { error: "mine" };
      },
    ],
    [
      "answers below Koa",
      (_refusal, ctx) => {
        ctx.respond = false;
        ctx.res.setHeader("Content-Type", "application/json; charset=utf-8");
        ctx.res.statusCode = 429;
        ctx.res.end('{"error":"mine"}');
      },
    ],
  ])("onLimited that %s is the only answer, with our fields and status kept", async (_, onLimited) => {
    const events: TidegateEvent[] = [];
    const config = {
      limit: 0,
      window: "1m",
      onEvent: (event: TidegateEvent) => void events.push(event),
    } as const;
    const answer = await get(application(Make, rateLimit({ ...config, onLimited }), say));
    expect(answer).toMatchObject({ status: 429, body: { error: "mine" } });
    expect(answer.headers).toMatchObject({
      ratelimit: '"default";r=0',
      "content-type": "application/json; charset=utf-8",
    });
    expect(events).toEqual([]);
  });

  it("a body that earlier middleware has set as a default is no answer", async () => {
    const early: Middleware = async (ctx, next) => {
      ctx.body = "default";
      await next();
    };
    const app = application(Make, early, rateLimit(three()), say);
    expect(await get(app)).toMatchObject({ status: 200, text: "hello", headers: THREE });
    const spent = application(Make, early, rateLimit({ limit: 0, window: "1m" }), say);
    expect((await get(spent)).body).toMatchObject({ title: "Quota Exceeded" });
  });

  it("app.proxy is not believed: it takes what clients write", async () => {
    const app = application(
      Make,
      rateLimit({ ...three(), policies: { one: fixedWindow({ limit: 1, window: "1m" }) } }),
      say,
    );
    app.proxy = true;
    const seen = [];
    for (const i of [1, 2]) seen.push((await get(app).set("x-forwarded-for", `203.0.113.${i}`)).status);
    expect(seen).toEqual([200, 429]);
  });

  it("sensitive and strict read the table as the router of these options does", async () => {
    const routes = { "GET /a": { limit: 1, window: "1m" } } as const;
    const policyOf = async (path: string, options: object) =>
      (await get(application(Make, rateLimit({ ...three(), routes, ...options }), say), path)).headers[
        "ratelimit-policy"
      ];
    const table = '"default";q=1;w=60';
    expect([await policyOf("/A", {}), await policyOf("/a/", {})]).toEqual([table, table]);
    const other = '"three";q=3;w=60';
    expect([await policyOf("/A", { sensitive: true }), await policyOf("/a/", { strict: true })]).toEqual([
      other,
      other,
    ]);
  });

  it("a nested router's routes are known whole to route()", async () => {
    const limit = rateLimit({ ...three(), policies: { one: fixedWindow({ limit: 1, window: "1m" }) } });
    const inner = new Router({ prefix: "/users" });
    inner.get(
      "/:id",
      limit.with({ policies: { own: fixedWindow({ limit: 1, window: "1m" }) } }) as never,
      say as never,
    );
    const app = application(Make, inner.routes() as Middleware);
    const seen = [];
    for (const path of ["/users/1", "/users/2"]) seen.push((await get(app, path)).status);
    expect(seen).toEqual([200, 429]);
  });
});

it("refuses options for its table that are none", () => {
  expect(() => rateLimit({ limit: 1, window: 1, strict: 1 as never })).toThrow(
    /strict: give true or false, got 1/,
  );
});

it("has exact types", () => {
  expectTypeOf<DefaultState["rateLimit"]>().toEqualTypeOf<Decision | undefined>();
  rateLimit({
    limit: 1,
    window: "1m",
    by: (ctx) => {
      expectTypeOf(ctx).toEqualTypeOf<Context>();
      return user(ctx.ip);
    },
    onLimited: (_refusal, ctx) => expectTypeOf(ctx).toEqualTypeOf<Context>() as never,
  });
  // @ts-expect-error There is no such option.
  expect(() => rateLimit({ limit: 1, window: "1m", max: 5 })).toThrow(/max: there is no such option/);
});
