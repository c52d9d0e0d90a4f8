/** What is Express's own: mounting, next("route"), error middleware, answering by `res`, and what only looks like a response. */
import { type Decision, fixedWindow, rateLimit, route, tenant, type TidegateEvent } from "@tidegate/express";
import express, {
  type ErrorRequestHandler,
  type Request,
  type RequestHandler,
  type Response,
  Router,
} from "express";
import express4 from "express4";
import request from "supertest";
import { describe, expect, expectTypeOf, it, vi } from "vitest";
import { expresses, PATIENT } from "../harness/http.ts";

const three = () => ({ ...PATIENT, policies: { three: fixedWindow({ limit: 3, window: "1m" }) } });
const THREE = { "ratelimit-policy": '"three";q=3;w=60', ratelimit: '"three";r=2;t=60' };
const say: RequestHandler = (_, res) => void res.send("hello");

describe.each(expresses)("On %s", (name, make) => {
  const router = () => (name === "Express 4" ? (express4.Router() as unknown as Router) : Router());

  it("P27 T2 next('route') and a router within a router count once", async () => {
    const limit = rateLimit(three());
    const inner = router()
      .use(limit)
      .get("/x", (_, __, next) => next("route"))
      .get("/x", limit, say);
    const app = make().use(limit).use("/in", inner);
    expect((await request(app).get("/in/x")).headers).toMatchObject(THREE);
  });

  it("P27 T4 two limiters of one name on one store count both, and are told apart", async () => {
    const events: TidegateEvent[] = [];
    const make1 = () => rateLimit({ limit: 9, window: "1m", onEvent: (event) => events.push(event) });
    const { headers } = await request(make().use(make1()).use(make1()).get("/", say)).get("/");
    expect(headers["ratelimit-policy"]).toBe('"default";q=9;w=60, "default-2";q=9;w=60');
    expect(headers["ratelimit"]).toMatch(/^"default";r=8;t=\d+, "default-2";r=8;t=\d+$/);
    expect(events).toEqual([]);
  });

  it("the table reads whole paths, wherever the limiter is mounted", async () => {
    const limit = rateLimit({ ...three(), routes: { "GET /api/search": false, "GET /api": false } });
    const app = make().use("/api", limit, say);
    for (const path of ["/api/search", "/api/search?q=1", "/api", "/api?x=1"])
      expect((await request(app).get(path)).headers, path).not.toHaveProperty("ratelimit");
    expect((await request(app).get("/api/else")).headers).toMatchObject(THREE);
  });

  it("the table reads the path that an earlier rewrite has made", async () => {
    const rewrite: RequestHandler = (req, _, next) => {
      req.url = req.url.replace("/v1", "");
      next();
    };
    const app = make().use(rewrite, rateLimit({ ...three(), routes: { "GET /search": false } }), say);
    expect((await request(app).get("/v1/search")).headers).not.toHaveProperty("ratelimit");
  });

  it("a limiter on a route knows the route, with where it is mounted", async () => {
    const limit = rateLimit({
      ...PATIENT,
      policies: { one: fixedWindow({ limit: 1, window: "1m", by: tenant(() => "acme").and(route()) }) },
    });
    const users = router().get("/:id", limit, say);
    const app = make()
      .use("/users", users)
      .use("/teams", router().get("/:id", limit, say));
    const seen = [];
    for (const path of ["/users/1", "/users/2", "/teams/1", "/teams/2"])
      seen.push((await request(app).get(path)).status);
    expect(seen).toEqual([200, 429, 200, 429]);
  });

  it("a path that cannot be decoded is the application's to answer", async () => {
    const app = make()
      .use(rateLimit({ ...three(), routes: { "GET /a/:id": false } }))
      .get("/a/:id", say);
    const answered: ErrorRequestHandler = (_error, _req, res, _next) => void res.status(400).end();
    app.use(answered);
    const answer = await request(app).get("/a/%zz");
    expect([answer.status, answer.headers["ratelimit"]]).toEqual([400, THREE.ratelimit]);
  });

  it.each<[string, RequestHandler]>([
    [
      "thrown",
      () => {
        throw new Error("no");
      },
    ],
    ["handed on", (_, __, next) => next(new Error("no"))],
  ])(
    "an error that is %s keeps our fields, by Express's own handler and by one of the application",
    async (_, fails) => {
      vi.spyOn(console, "error").mockReturnValue();
      const plain = make().use(rateLimit(three()), fails);
      expect(await request(plain).get("/")).toMatchObject({ status: 500, headers: THREE });
      const mine: ErrorRequestHandler = (_error, _req, res, _next) =>
        void res.status(418).json({ error: "mine" });
      const own = make().use(rateLimit(three()), fails, mine);
      expect(await request(own).get("/")).toMatchObject({
        status: 418,
        body: { error: "mine" },
        headers: THREE,
      });
    },
  );

  it.each<[string, (res: Response) => unknown]>([
    ["returns the response", (res) => res.json({ error: "mine" })],
    ["returns nothing", (res) => void res.json({ error: "mine" })],
    [
      "is async",
      async (res) => {
        await Promise.resolve();
        return res.json({ error: "mine" });
      },
    ],
  ])(
    "P37 T4 onLimited that replies itself and %s is the only answer, and nobody goes on",
    async (_, onLimited) => {
      const events: TidegateEvent[] = [];
      const limit = rateLimit({
        limit: 0,
        window: "1m",
        onEvent: (event) => events.push(event),
        onLimited: (_refusal, _req, res) => onLimited(res) as void,
      });
      const handler = vi.fn<RequestHandler>(say);
      const answer = await request(make().use(limit, handler)).get("/");
      expect(answer).toMatchObject({ status: 429, body: { error: "mine" } });
      expect(answer.headers).toMatchObject({
        ratelimit: '"default";r=0',
        "content-type": "application/json; charset=utf-8",
      });
      expect([handler.mock.calls.length, events]).toEqual([0, []]);
    },
  );

  it.each([
    ["answers", (res: Response) => res.redirect("/elsewhere"), undefined],
    [
      "writes the head of",
      (res: Response) => res.writeHead(302, { Location: "/elsewhere" }).end(),
      undefined,
    ],
    ["answers with no redirect", (res: Response) => res.send("ok"), '"three";r=2;t=60'],
  ])(
    "what a mounted application has limited and left alone, the outer one %s, and sees the decision",
    async (_, answer, expected) => {
      const inner = make().use(rateLimit(three()));
      const seen: unknown[] = [];
      const app = make().use("/in", inner, (req, res) => {
        seen.push(req.rateLimit?.verdicts.map(({ policy, remaining }) => [policy, remaining]));
        answer(res as Response);
      });
      const { headers } = await request(app).get("/in/x").redirects(0);
      expect(headers["ratelimit"]).toBe(expected);
      expect(headers["ratelimit-policy"]).toBe('"three";q=3;w=60');
      expect(seen).toEqual([[["three", 2]]]);
    },
  );

  it("whoever writes req.rateLimit after it is read there, for this request alone", async () => {
    const seen: unknown[] = [];
    const app = make().use(rateLimit(three()), (req, res) => {
      if (req.path === "/mine") (req as { rateLimit: unknown }).rateLimit = "mine";
      seen.push(typeof req.rateLimit);
      res.send("ok");
    });
    for (const path of ["/mine", "/other"]) await request(app).get(path);
    expect(seen).toEqual(["string", "object"]);
  });

  it("P33 T2 what only looks like a request and a response is decided all the same", () => {
    const limit = rateLimit({ limit: 2, window: "1m", by: () => "socket" });
    const passed = [];
    for (let i = 0; i < 3; i++) {
      const next = vi.fn<() => void>();
      const req = {} as Request;
      limit(req, {} as Response, next);
      passed.push([next.mock.calls.length, req.rateLimit?.allowed]);
    }
    expect(passed).toEqual([
      [1, true],
      [1, true],
      [0, false],
    ]);
  });
});

it("a limiter that was extended is not extended by the same name again", () => {
  const policies = { login: fixedWindow({ limit: 5, window: "15m" }) };
  expect(() => rateLimit({ limit: 1, window: 1 }).with({ policies }).with({ policies })).toThrow(
    expect.objectContaining({ code: "TIDEGATE_POLICY_DUPLICATE", option: "with.policies.login" }),
  );
});

it("has exact types", () => {
  expectTypeOf<Request["rateLimit"]>().toEqualTypeOf<Decision | undefined>();
  const limit = rateLimit({
    limit: 1,
    window: "1m",
    by: (req) => {
      expectTypeOf(req).toEqualTypeOf<Request>();
      return req.get("x-user");
    },
    onLimited: (_refusal, req, res) => {
      expectTypeOf(req).toEqualTypeOf<Request>();
      expectTypeOf(res).toEqualTypeOf<Response>();
    },
  });
  expectTypeOf(limit).toExtend<RequestHandler>();
  express().post(
    "/login",
    limit.with({ policies: { login: fixedWindow({ limit: 5, window: "15m" }) } }),
    say,
  );
});
