/** What is Fastify's own: scopes, hooks, the order of registration, unknown URLs, error handlers and serializers. */
import {
  type Config,
  type Decision,
  fixedWindow,
  globally,
  memoryStore,
  rateLimit,
  type TidegateEvent,
  user,
} from "@tidegate/fastify";
import fastify, {
  type FastifyContextConfig,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from "fastify";
import { describe, expect, expectTypeOf, it, onTestFinished } from "vitest";
import { PATIENT } from "../harness/http.ts";

const three = { ...PATIENT, policies: { three: fixedWindow({ limit: 3, window: "1m" }) } };

function application(): FastifyInstance {
  const app: FastifyInstance = fastify();
  onTestFinished(() => app.close());
  return app;
}

/** The statuses of `count` requests for each path in turn. */
async function statuses(app: FastifyInstance, count: number, ...paths: string[]): Promise<number[]> {
  const seen = [];
  for (let i = 0; i < count; i++) seen.push((await app.inject(paths[i % paths.length]!)).statusCode);
  return seen;
}

describe("P18", () => {
  it("T1 routes declared without awaiting the registration are limited", async () => {
    const app = application();
    void app.register(rateLimit, three);
    app.get("/", () => "hello");
    expect(await statuses(app, 4, "/")).toEqual([200, 200, 200, 429]);
  });

  it("T2 routes declared before the registration are limited, those of earlier plugins too", async () => {
    const app = application();
    app.get("/", () => "hello");
    void app.register(async (scope) => {
      scope.get("/earlier", () => "hello");
      void scope.register(async (inner) => void inner.get("/inner", () => "hello"));
    });
    void app.register(rateLimit, three);
    expect(await statuses(app, 4, "/", "/earlier", "/inner", "/earlier")).toEqual([200, 200, 200, 429]);
  });

  it("T3 routes declared after an awaited registration are limited", async () => {
    const app = application();
    await app.register(rateLimit, three);
    app.get("/", () => "hello");
    expect(await statuses(app, 4, "/")).toEqual([200, 200, 200, 429]);
  });

  it.each<[string, (app: FastifyInstance) => void, (app: FastifyInstance) => void]>([
    ["Fastify's own answer", () => {}, () => {}],
    [
      "a handler set before",
      (app) => void app.setNotFoundHandler((_, reply) => void reply.code(404).send("no")),
      () => {},
    ],
    [
      "a handler set after",
      () => {},
      (app) => void app.setNotFoundHandler((_, reply) => void reply.code(404).send("no")),
    ],
  ])("T4 unknown URLs are limited: %s", async (_, before, after) => {
    const app = application();
    before(app);
    void app.register(rateLimit, three);
    after(app);
    app.get("/", () => "hello");
    expect(await statuses(app, 4, "/nowhere", "/else")).toEqual([404, 404, 404, 429]);
    expect((await app.inject("/")).statusCode).toBe(429);
  });

  it("T5 a scope's limiter leaves its siblings and unknown URLs alone, and holds for scopes within", async () => {
    const app = application();
    void app.register(async (scope) => {
      await scope.register(rateLimit, three);
      scope.get("/in", () => "hello");
      void scope.register(async (inner) => void inner.get("/within", () => "hello"));
    });
    app.get("/out", () => "hello");
    expect(await statuses(app, 4, "/in", "/within")).toEqual([200, 200, 200, 429]);
    expect(await statuses(app, 4, "/out")).toEqual([200, 200, 200, 200]);
    expect(await statuses(app, 4, "/nowhere")).toEqual([404, 404, 404, 404]);
  });

  it("T6 a scope may have a limiter of its own besides that of the application: both count", async () => {
    const app = application();
    await app.register(rateLimit, three);
    void app.register(async (scope) => {
      await scope.register(rateLimit, { limit: 1, window: "1m" });
      scope.get("/in", () => "hello");
    });
    app.get("/out", () => "hello");
    expect(await statuses(app, 2, "/in")).toEqual([200, 429]);
    expect((await app.inject("/out")).headers["ratelimit"]).toBe('"three";r=0;t=60');
  });

  it.each<[string, object]>([
    ["an unknown option", { limti: 3 }],
    ["no such hook", { ...three, hook: "onSend" }],
    ["a policy that is none", { policies: { three: 3 } }],
  ])("T7 %s fails the boot with a clear text", async (_, options) => {
    const app = application();
    void app.register(rateLimit, options as Config);
    await expect(app.ready()).rejects.toMatchObject({
      name: "ConfigError",
      message: expect.stringMatching(/, got /),
    });
  });
});

describe("config.rateLimit of a route", () => {
  it("false: the route is not limited; an object: what is different there", async () => {
    const app = application();
    void app.register(rateLimit, three);
    // @ts-expect-error It is an object, or false.
    const config: FastifyContextConfig = { rateLimit: 5 };
    expect(config).toBeDefined();
    app.get("/free", { config: { rateLimit: false } }, () => "hello");
    app.get(
      "/own",
      { config: { rateLimit: { policies: { own: fixedWindow({ limit: 1, window: "1m" }) } } } },
      () => "hello",
    );
    app.get("/dear", { config: { rateLimit: { cost: 2 } } }, () => "hello");
    app.get("/", () => "hello");
    expect((await app.inject("/free")).headers).not.toHaveProperty("ratelimit-policy");
    expect(await statuses(app, 2, "/own")).toEqual([200, 429]);
    expect((await app.inject("/dear")).headers["ratelimit"]).toBe('"three";r=1;t=60');
    expect((await app.inject("/")).headers["ratelimit"]).toBe('"three";r=0;t=60');
  });

  it("goes before a line of the table", async () => {
    const app = application();
    void app.register(rateLimit, {
      ...three,
      routes: { "/*": { policies: { table: fixedWindow({ limit: 9, window: "1m" }) } } },
    });
    app.get("/own", { config: { rateLimit: { limit: 5, window: 1000 } } }, () => "hello");
    app.get("/", () => "hello");
    expect((await app.inject("/own")).headers["ratelimit-policy"]).toBe('"default";q=5;w=1');
    expect((await app.inject("/")).headers["ratelimit-policy"]).toBe('"table";q=9;w=60');
  });

  it("HEAD counts as GET, and two routes of one object count each for itself", async () => {
    const own = { config: { rateLimit: { policies: { own: fixedWindow({ limit: 2, window: "1m" }) } } } };
    const app = application();
    void app.register(rateLimit, three);
    app.get("/a/:id", own, () => "hello");
    app.get("/b", own, () => "hello");
    expect(await statuses(app, 1, "/a/1")).toEqual([200]);
    expect((await app.inject({ method: "HEAD", url: "/a/2" })).statusCode).toBe(200);
    expect(await statuses(app, 3, "/a/3", "/b", "/b")).toEqual([429, 200, 200]);
  });

  it("that cannot work fails the boot", async () => {
    const app = application();
    void app.register(rateLimit, three);
    void app.register(async (scope) => {
      scope.get("/own", { config: { rateLimit: { max: 5 } as never } }, () => "hello");
    });
    await expect(app.ready()).rejects.toMatchObject({
      code: "TIDEGATE_OPTION_UNKNOWN",
      option: "routes.GET /own.max",
    });
  });
});

describe("hook", () => {
  it.each(["onRequest", "preParsing", "preValidation", "preHandler"] as const)(
    "%s decides, and a body is there from preValidation on",
    async (hook) => {
      const bodies: unknown[] = [];
      const app = application();
      void app.register(rateLimit, {
        ...three,
        hook,
        cost: (request) => {
          bodies.push(request.body);
          return 1;
        },
      });
      app.post("/", () => "hello");
      const seen = [];
      for (let i = 0; i < 4; i++)
        seen.push((await app.inject({ method: "POST", url: "/", payload: { a: 1 } })).statusCode);
      expect(seen).toEqual([200, 200, 200, 429]);
      const parsed = hook === "preValidation" || hook === "preHandler";
      expect(bodies[0]).toEqual(parsed ? { a: 1 } : undefined);
    },
  );

  it("onRequest refuses before a body is read and parsed", async () => {
    const app = application();
    void app.register(rateLimit, { limit: 0, window: "1m" });
    app.post("/", () => "hello");
    const headers = { "content-type": "application/json" };
    const { statusCode } = await app.inject({ method: "POST", url: "/", payload: "no json", headers });
    expect(statusCode).toBe(429);
  });
});

describe("An error", () => {
  const refusedBody = expect.objectContaining({ title: "Quota Exceeded", status: 429 });

  it.each<[string, (app: FastifyInstance) => void]>([
    [
      "a serializer for the reply",
      (app) => void app.setReplySerializer((payload) => JSON.stringify({ wrapped: payload })),
    ],
    ["an onSend hook", (app) => void app.addHook("onSend", async (_request, _reply, payload) => payload)],
    [
      "an error handler",
      (app) => void app.setErrorHandler((_, __, reply) => void reply.code(418).send("mine")),
    ],
    ["a schema for 429", (app) => void app.addSchema({ $id: "x", type: "object" })],
  ])("%s of the application leaves a refusal as it is", async (_, more) => {
    const app = application();
    more(app);
    void app.register(rateLimit, { limit: 0, window: "1m" });
    app.get("/", { schema: { response: { 429: { type: "object", properties: {} } } } }, () => ({
      hello: "world",
    }));
    const answer = await app.inject("/");
    expect([answer.statusCode, answer.headers["content-type"], answer.json()]).toEqual([
      429,
      "application/problem+json",
      refusedBody,
    ]);
    expect(answer.headers["ratelimit"]).toBe('"default";r=0');
  });

  it.each<[string, (app: FastifyInstance) => void, number]>([
    ["Fastify's own handler", () => {}, 500],
    [
      "a handler of the application",
      (app) => void app.setErrorHandler((_, __, reply) => void reply.code(418).send("mine")),
      418,
    ],
  ])("thrown by a route, answered by %s, keeps our fields", async (_, more, status) => {
    const app = application();
    more(app);
    void app.register(rateLimit, three);
    app.get("/", () => {
      throw new Error("no");
    });
    const { statusCode, headers } = await app.inject("/");
    expect([statusCode, headers["ratelimit"]]).toEqual([status, '"three";r=2;t=60']);
  });
});

describe("onLimited", () => {
  it.each<[string, (reply: FastifyReply) => unknown]>([
    ["returns the reply", (reply) => reply.send({ error: "mine" })],
    ["returns nothing", (reply) => void reply.send({ error: "mine" })],
    ["is async", async (reply) => reply.send({ error: "mine" })],
    [
      "hijacks",
      (reply) =>
        void reply
          .hijack()
          .raw.writeHead(429, { "Content-Type": "application/json; charset=utf-8" })
          .end('{"error":"mine"}'),
    ],
  ])("that replies itself and %s is the only answer", async (_, onLimited) => {
    const app = application();
    const events: TidegateEvent[] = [];
    void app.register(rateLimit, {
      limit: 0,
      window: "1m",
      onEvent: (event) => events.push(event),
      onLimited: (_refusal, _request, reply) => onLimited(reply) as void,
    });
    app.get("/", () => "hello");
    await app.listen();
    const answer = await fetch(app.listeningOrigin);
    expect([answer.status, answer.headers.get("content-type"), await answer.json()]).toEqual([
      429,
      "application/json; charset=utf-8",
      { error: "mine" },
    ]);
    expect(answer.headers.get("ratelimit")).toBe('"default";r=0');
    expect(events).toEqual([]);
  });
});

it("works in process, through inject, where units come back as well", async () => {
  const app = application();
  void app.register(rateLimit, { ...three, giveBackOn: "success", by: () => user("anna") });
  app.get("/", () => "hello");
  expect(await statuses(app, 9, "/")).toEqual(Array(9).fill(200));
  await expect
    .poll(async () => (await app.rateLimit.limiter.peek({ identity: user("anna") })).verdicts[0]!.remaining)
    .toBe(3);
});

it("closes what it opened with the application, and may be made and closed again and again", async () => {
  for (let i = 0; i < 5; i++) {
    const app = fastify();
    void app.register(rateLimit, three);
    await app.ready();
    await app.close();
  }
});

it("two limiters in one scope count both, and the first is the one decorated", async () => {
  const app = application();
  const store = memoryStore();
  void app.register(rateLimit, { ...three, store });
  void app.register(rateLimit, {
    store,
    policies: { all: fixedWindow({ limit: 9, window: "1m", by: globally() }) },
  });
  app.get("/", () => "hello");
  const { headers } = await app.inject("/");
  expect(headers["ratelimit-policy"]).toBe('"three";q=3;w=60, "all";q=9;w=60');
});

it("has exact types", () => {
  expectTypeOf<FastifyRequest["rateLimit"]>().toEqualTypeOf<Decision | undefined>();
  const app = application();
  void app.register(rateLimit, {
    limit: 1,
    window: "1m",
    by: (request) => {
      expectTypeOf(request).toEqualTypeOf<FastifyRequest>();
      return request.ip;
    },
    onLimited: (refusal, request, reply) => {
      expectTypeOf(refusal.kind).toEqualTypeOf<"limit" | "blocked" | "closed">();
      expectTypeOf(request).toEqualTypeOf<FastifyRequest>();
      expectTypeOf(reply).toEqualTypeOf<FastifyReply>();
    },
  });

  // @ts-expect-error It is an object, or false.
  const config: FastifyContextConfig = { rateLimit: 5 };
  expect(config).toBeDefined();
  app.get("/free", { config: { rateLimit: false } }, ({ rateLimit }) => rateLimit?.allowed);
});
