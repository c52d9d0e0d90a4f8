/** Configurations and requests as nobody would think of: every framework answers, soundly, under keys of the grammar. */
import { createServer, type RequestListener, type Server } from "node:http";
import {
  type Check,
  type Config,
  concurrency,
  fixedWindow,
  gcra,
  type HeaderOptions,
  identity,
  ip,
  memoryStore,
  perRequest,
  type Policy,
  rateLimit as expressLimit,
  route,
  type RouteOverride,
  slidingLog,
  slidingWindow,
  type Store,
  tenant,
  tokenBucket,
  user,
} from "@tidegate/express";
import { rateLimit as fastifyLimit } from "@tidegate/fastify";
import { rateLimit as koaLimit } from "@tidegate/koa";
import express from "express";
import fc from "fast-check";
import fastify from "fastify";
import Koa from "koa";
import { type Dispatcher, Pool } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { read } from "../../harness/http.ts";

/** source: the grammar of keys, which is a public contract */
const KEY =
  /^[^{}\u0000-\u001f]{1,64}:\{[a-z]{1,16}:[A-Za-z0-9._~-]{1,64}\}:(([A-Za-z0-9._~-]{1,64}\.)?[A-Za-z][A-Za-z0-9_.-]{0,63}:(tb|gc|sw|sl|fw|cc)|:b|:n:[\w-]+)$/;

const makers = { tokenBucket, gcra, slidingWindow, slidingLog, fixedWindow, concurrency };
type Recipe = readonly [maker: keyof typeof makers, options: object];
const make = ([maker, options]: Recipe): Policy => makers[maker](options as never);

const window = fc.oneof(
  fc.integer({ min: 1, max: 5000 }),
  fc.integer({ min: 1, max: 10 * 365 * 86_400_000 }),
);
const limit = fc.integer({ min: 0, max: 1000 });
const mode = fc.constantFrom("enforce", "shadow");
const common = { mode, unit: fc.constantFrom("requests", "content-bytes") };
const policy: fc.Arbitrary<Recipe> = fc.oneof(
  fc.tuple(
    fc.constant("tokenBucket"),
    fc.record({ capacity: limit, refillPerSecond: fc.integer({ min: 1, max: 1000 }), ...common }),
  ),
  ...(["slidingWindow", "slidingLog", "fixedWindow"] as const).map((maker) =>
    fc.tuple(fc.constant(maker), fc.record({ limit, window, ...common })),
  ),
  fc.tuple(fc.constant("concurrency"), fc.record({ limit, mode })),
) as fc.Arbitrary<Recipe>;

/** What a client or a function may bring: short and long, plain and not, and what looks like part of a key. */
const text = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.string({ minLength: 200, maxLength: 1000 }),
  fc.constantFrom("{}", "}{", "a:b", "__proto__", "h.x", "\r\nX: y", "undefined", " ", "0", "é"),
);
const name = fc.stringMatching(/^[A-Za-z][A-Za-z0-9_.-]{0,20}$/);
const policies = fc
  .uniqueArray(name, { selector: (each) => each.toLowerCase(), minLength: 1, maxLength: 4 })
  .chain((names) => fc.tuple(...names.map((each) => fc.tuple(fc.constant(each), policy, fc.boolean()))));
type Policies = [name: string, recipe: Recipe, perRequest: boolean][];

const by = fc.constantFrom("ip", "user", "tenant and route", "route", "nonsense", "async", "undefined");
const pattern = fc.constantFrom("GET /a", "/a", "GET /:id", "POST /b/c", "GET /free");
const override = fc.option(
  fc.record(
    {
      policies: policies as fc.Arbitrary<Policies>,
      by,
      cost: fc.integer({ min: 0, max: 5 }),
      mode,
      group: name,
      giveBackOn: fc.constantFrom("success", "failure"),
    },
    { requiredKeys: [] },
  ),
  { nil: false as const },
);
const headers = fc.record(
  {
    standard: fc.constantFrom("draft-11", "draft-8", "draft-7", "draft-6", false),
    x: fc.boolean(),
    retryAfter: fc.oneof(fc.boolean(), fc.record({ concurrency: fc.integer({ min: 1, max: 99 }) })),
    omitOnRedirect: fc.boolean(),
    jitterSeconds: fc.integer({ min: 0, max: 5 }),
    expose: fc.boolean(),
  },
  { requiredKeys: [] },
);
const request = fc.record({
  method: fc.constantFrom("GET", "POST", "HEAD", "OPTIONS", "DELETE"),
  path: fc.oneof(
    fc.constantFrom("/", "/a", "/A/", "/b/c", "//a", "/free", "/%61", "/%zz", "/a?q={x}&k=%00", "/../a"),
    fc.webPath().map((path) => (path.startsWith("/") ? path : `/${path}`)),
  ),
  forwarded: fc.option(
    fc.oneof(
      fc.ipV4(),
      fc.ipV6(),
      fc.array(fc.ipV4(), { maxLength: 4 }).map(String),
      fc.string({ unit: "grapheme-ascii" }),
    ),
  ),
  key: fc.option(fc.string({ unit: "grapheme-ascii", maxLength: 400 })),
});
const scenario = fc.record({
  framework: fc.constantFrom("express", "koa", "fastify"),
  policies: policies as fc.Arbitrary<Policies>,
  more: fc.option(policies as fc.Arbitrary<Policies>),
  by,
  identity: fc.oneof(text, fc.constantFrom(NaN, {}, null, undefined, 0, -1)),
  routes: fc.dictionary(pattern, override, { maxKeys: 3 }),
  headers,
  partitioned: fc.boolean(),
  trustProxy: fc.constantFrom(undefined, 0, 1, 3, ["loopback"], () => true),
  blocking: fc.boolean(),
  requests: fc.array(request, { minLength: 1, maxLength: 4 }),
});
type Scenario = typeof scenario extends fc.Arbitrary<infer T> ? T : never;

const policiesOf = (recipes: Policies) =>
  Object.fromEntries(
    recipes.map(([each, recipe, chosen]) => {
      const base = make(recipe);
      return [each, chosen ? perRequest(base, () => base) : base];
    }),
  );

function sourceOf(kind: string, given: unknown): Config["by"] {
  if (kind === "ip") return ip();
  if (kind === "user") return user(() => given as never).or(ip());
  if (kind === "tenant and route") return tenant(() => "acme").and(route());
  if (kind === "route") return route();
  if (kind === "async") return async () => identity(String(given));
  return kind === "nonsense" ? () => given as never : undefined;
}

function configOf(asked: Scenario, store: Store): Config {
  const { standard = "draft-11" } = asked.headers;
  const partitionKey =
    asked.partitioned && standard !== "draft-7" && standard !== "draft-6" && standard !== false;
  const by = (kind: string | undefined) => (kind === undefined ? undefined : sourceOf(kind, asked.identity));
  const routes = Object.entries(asked.routes).map(([path, override]) => {
    if (override === false) return [path, false] as const;
    const { policies, by: kind, ...rest } = override;
    const source = by(kind);
    return [
      path,
      {
        ...rest,
        ...(policies && { policies: policiesOf(policies) }),
        ...(source && { by: source }),
      } as RouteOverride,
    ] as const;
  });
  const source = by(asked.by);
  return {
    store,
    timeoutMs: 10_000,
    policies: policiesOf(asked.policies),
    routes: Object.fromEntries(routes),
    headers: { ...asked.headers, ...(partitionKey && { partitionKey: { secret: "s" } }) } as HeaderOptions,
    blocking: asked.blocking,
    onEvent: () => {},
    ...(source && { by: source }),
    ...(asked.trustProxy !== undefined && { trustProxy: asked.trustProxy }),
  };
}

/** The names of two configurations meet now and then: then there is nothing to extend. */
const extending = (asked: Scenario) => {
  const taken = [asked.policies, ...Object.values(asked.routes).map((each) => (each && each.policies) || [])]
    .flat()
    .map(([each]) => each.toLowerCase());
  const free = asked.more?.filter(([each]) => !taken.includes(each.toLowerCase())) ?? [];
  return free.length > 0 ? { policies: policiesOf(free) } : undefined;
};

async function listenerOf(asked: Scenario, store: Store): Promise<RequestListener> {
  const config = configOf(asked, store);
  const more = extending(asked);
  if (asked.framework === "express") {
    const limit = expressLimit(config);
    const app = express().use(limit);
    if (more) app.get("/a", limit.with(more));
    return app.use((_, res) => void res.end("hello"));
  }
  if (asked.framework === "koa") {
    const limit = koaLimit(config);
    const app = new Koa();
    app.silent = true;
    app.use(limit);
    if (more) app.use(limit.with(more));
    app.use((ctx) => void (ctx.body = "hello"));
    return app.callback();
  }
  const app = fastify();
  await app.register(fastifyLimit, config);
  app.all("/*", { preHandler: more ? [app.rateLimit.with(more)] : [] }, () => "hello");
  await app.ready();
  return (req, res) => app.routing(req, res);
}

function watchedStore(keys: string[]): Store {
  const store = memoryStore({ maxEntries: 10_000 });
  return {
    ...store,
    decide(batch: readonly Check[], done) {
      for (const check of batch)
        keys.push(...check.keys, ...check.blocks, ...(check.nonce ? [check.nonce.key] : []));
      store.decide(batch, done);
    },
  };
}

const FIELD =
  /^(ratelimit(-policy|-limit|-remaining|-reset)?|x-ratelimit-(limit|remaining|reset)|retry-after)$/;

function expectSound({ statusCode, headers }: Dispatcher.ResponseData, asked: Scenario): void {
  expect(statusCode).toBeOneOf([200, 400, 404, 429]);
  const told = Object.entries(headers).filter(([each]) => FIELD.test(each));
  for (const [each, value] of told) {
    expect(value, "a field stands in one line only").toBeTypeOf("string");
    // Names and partition keys are data, in which any letters may stand; all else is numbers.
    expect(String(value).replaceAll(/"[^"]*"|:[^:]*:/g, "")).not.toMatch(/NaN|Infinity|undefined|null|=-|^-/);
    if (/^(x-|ratelimit-(limit|remaining|reset)|retry-after)/.test(each)) expect(value).toMatch(/^\d{1,15}$/);
  }
  const { standard = "draft-11" } = asked.headers;
  const list = standard !== "draft-7" && standard !== "draft-6";
  const [policyField, limitField] = [headers["ratelimit-policy"], headers["ratelimit"]] as (
    | string
    | undefined
  )[];
  if (!list) return;
  const limits = read(policyField);
  for (const [each, { r }] of read(limitField)) expect(r).toBeLessThanOrEqual(limits.get(each)!["q"]!);
}

let server: Server;
let pool: Pool;
let listener: RequestListener = (_, res) => void res.end();
beforeAll(async () => {
  server = createServer((req, res) => listener(req, res));
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  pool = new Pool(`http://127.0.0.1:${port}`, { connections: 1 });
});
afterAll(async () => {
  await pool.destroy();
  server.close();
});

it("5,000 configurations and their requests", { timeout: 240_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async (asked) => {
      const keys: string[] = [];
      const store = watchedStore(keys);
      try {
        listener = await listenerOf(asked, store);
      } catch (error) {
        // A group and a policy may read like another policy, and too many policies may meet.
        expect(error).toMatchObject({
          code: expect.stringMatching(/^TIDEGATE_(POLICY_DUPLICATE|OPTION_INVALID)$/),
        });
        return;
      }
      for (const { method, path, forwarded, key } of asked.requests) {
        const headers: Record<string, string> = {};
        if (forwarded !== null) headers["x-forwarded-for"] = forwarded.replaceAll(/[^ -~]/g, "");
        if (key !== null) headers["x-api-key"] = key.replaceAll(/[^ -~]/g, "");
        const answer = await pool.request({ method: method as "GET", path, headers });
        await answer.body.dump();
        expectSound(answer, asked);
      }
      for (const each of keys) {
        expect(each).toMatch(KEY);
        expect(each.length).toBeLessThanOrEqual(256);
      }
      await store.close();
    }),
    { numRuns: 5000 },
  );
});
