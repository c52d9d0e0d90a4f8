/** Requests as clients send them, and answers as they get them. */
import type { IncomingMessage, Server } from "node:http";
import {
  type Decision,
  ioredisClient,
  memoryStore,
  type Move,
  rateLimit,
  redisStore,
  type RateLimitHandler,
  type Store,
  type TidegateEvent,
} from "@tidegate/express";
import express, { type Express, type RequestHandler } from "express";
import express4 from "express4";
import { type Item, parseList, serializeList } from "structured-headers";
import request from "supertest";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished } from "vitest";
import { clockedClient, clockedScripts, fakeClock, START_US } from "./clock.ts";
import { eventually } from "./eventually.ts";
import { type RedisServer, type StartOptions, startRedis } from "./redis.ts";

/** For `describe.each`. */
export const expresses: [name: string, express: typeof express][] = [
  ["Express 5", express],
  ["Express 4", express4 as unknown as typeof express],
];

/** An application that says hello to whoever the handlers let pass. */
export function serve(make: typeof express, ...handlers: RequestHandler[]): Express {
  const app = make();
  for (const handler of handlers) app.use(handler);
  app.use((_, res) => void res.end("hello"));
  return app;
}

/** The application on a port, until the test is over: many requests go faster so. */
export function listening(app: Express): Server {
  const server = app.listen(0);
  onTestFinished(() => void server.close());
  return server;
}

export interface Answer {
  readonly status: number;
  /** The header fields, as written on the wire, without those of Node and Express themselves. */
  readonly fields: Record<string, string>;
  readonly body: string | undefined;
}

const PLATFORM = ["Date", "Connection", "Keep-Alive", "Content-Length", "Transfer-Encoding", "X-Powered-By"];

/** Sends one request. Every answer is held to {@link expectSound}. */
export async function visit(
  app: Express | Server,
  headers: Record<string, string> = {},
  method: "get" | "head" | "post" = "get",
): Promise<Answer> {
  const response = await request(app)[method]("/").set(headers);
  const raw = (response as unknown as { res: IncomingMessage }).res.rawHeaders;
  const fields: Record<string, string> = {};
  for (let i = 0; i < raw.length; i += 2) {
    const [name, value] = [raw[i]!, raw[i + 1]!];
    if (PLATFORM.includes(name)) continue;
    expect(fields, "a field stands in one line only").not.toHaveProperty(name);
    fields[name] = value;
  }
  const answer = { status: response.status, fields, body: response.text };
  expectSound(answer);
  return answer;
}

/** `count` requests, one after the other. */
export async function visits(
  count: number,
  app: Express | Server,
  headers: Record<string, string> = {},
): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (let i = 0; i < count; i++) answers.push(await visit(app, headers));
  return answers;
}

/** What a policy may say it counts: `requests` goes without saying. */
const UNITS = ["content-bytes", "concurrent-requests"];

/** The parameters in a field, by policy, in order; all but `qu` are numbers. Fails unless the field is canonical. */
export function read(field: string | undefined): Map<string, Record<string, number>> {
  if (field === undefined) return new Map();
  const list = parseList(field) as Item[];
  expect(serializeList(list), "the field is canonical").toBe(field);
  return new Map(list.map(([name, params]) => [name as string, Object.fromEntries(params) as never]));
}

const MOST = 999_999_999_999_999;
const LONGEST = 2_147_483;

interface Problem {
  readonly type: string;
  readonly "violated-policies"?: readonly string[];
}

/** What the header contract asks of every answer, whatever was asked. */
function expectSound({ status, fields, body }: Answer): void {
  const told = Object.keys(fields).filter((name) => /ratelimit|retry-after/i.test(name));
  const policies = read(fields["RateLimit-Policy"]);
  const limits = read(fields["RateLimit"]);
  const waits = fields["Retry-After"];

  for (const name of told) expect(["RateLimit-Policy", "RateLimit", "Retry-After"]).toContain(name);
  for (const { q, qu, w, ...more } of policies.values()) {
    expectWhole(q, 0, MOST);
    if (qu !== undefined) expect(UNITS).toContain(qu);
    if (w !== undefined || String(qu) !== "concurrent-requests") expectWhole(w, 1, MOST);
    expect(more).toEqual({});
  }
  for (const [name, { r, t, ...more }] of limits) {
    expect([...policies.keys()]).toContain(name);
    expectWhole(r, 0, policies.get(name)!.q!);
    if (t !== undefined) expectWhole(t, 0, LONGEST);
    if (t !== undefined && waits !== undefined) expect(Number(waits)).toBeGreaterThanOrEqual(t);
    expect(more).toEqual({});
  }
  if (waits !== undefined) {
    expect(waits).toMatch(/^[1-9]\d*$/);
    expectWhole(Number(waits), 1, LONGEST);
    expect([429, 503]).toContain(status);
  }
  if (status === 429 && fields["Content-Type"] === "application/problem+json") {
    expect(fields["Cache-Control"]).toBe("no-store");
    const blocked = limits.size === 0;
    if (waits === undefined && !blocked)
      expect([...limits.values()].some(({ t }) => t === undefined)).toBe(true);
    if (body) {
      const { type, "violated-policies": violated = [] }: Problem = JSON.parse(body);
      expect([...violated].sort()).toEqual([...limits.keys()].sort());
      expect(type).toMatch(blocked ? /#abnormal-usage-detected$/ : /#quota-exceeded$/);
    }
  }
}

function expectWhole(value: number | undefined, least: number, most: number): void {
  expect(value).toSatisfy(Number.isInteger);
  expect(value).toBeGreaterThanOrEqual(least);
  expect(value).toBeLessThanOrEqual(most);
}

/** The answer of a refusal by these policies. */
export function refused(fields: Record<string, string>, ...violated: string[]): Answer {
  return {
    status: 429,
    fields: { ...fields, "Cache-Control": "no-store", "Content-Type": "application/problem+json" },
    body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"violated-policies":${JSON.stringify(violated)}}`,
  };
}

/** The answer to an identity that is blocked. */
export const blocked = (fields: Record<string, string>): Answer => ({
  status: 429,
  fields: { ...fields, "Cache-Control": "no-store", "Content-Type": "application/problem+json" },
  body: '{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":"Abnormal Usage Detected","status":429}',
});

/** The answer of the rule `closed`. */
export const UNAVAILABLE: Answer = {
  status: 503,
  fields: { "Retry-After": "5", "Cache-Control": "no-store", "Content-Type": "application/problem+json" },
  body: '{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503}',
};

/** The answer of an application that {@link serve} made. */
export const passed = (fields: Record<string, string>): Answer => ({ status: 200, fields, body: "hello" });

/** A limiter and what it told. When the test is over it is closed, unless its store is another's. */
export function limiting(
  config: Parameters<typeof rateLimit>[0],
): RateLimitHandler & { events: TidegateEvent[] } {
  const events: TidegateEvent[] = [];
  const limit = rateLimit({ onEvent: (event) => events.push(event), ...config });
  if (!config.store) onTestFinished(() => limit.limiter.close());
  return Object.assign(limit, { events });
}

/** The request's decisions, one after the other, as a handler behind the limiter sees them. */
export function watching(limit: RequestHandler, decisions: (Decision | undefined)[]): RequestHandler {
  return (req, res, next) => {
    res.on("finish", () => decisions.push(req.rateLimit));
    limit(req, res, next);
  };
}

/** A store, and what comes after decisions: each call's moves, and how many units they moved. */
export function watchingSettlements(store: Store) {
  const settled: { moves: readonly Move[]; units: number }[] = [];
  let begun = 0;
  return {
    store: {
      ...store,
      settle(moves, done) {
        begun++;
        store.settle(moves, (error, units) => {
          settled.push({ moves, units });
          done(error, units);
        });
      },
    } satisfies Store as Store,
    settled,
    /** When nothing is under way any more. */
    through: () => eventually("what was begun is settled", () => settled.length === begun, 20_000),
  };
}

/** A server that goes when the test is over. */
export async function ownRedis(options?: StartOptions): Promise<RedisServer> {
  const server = await startRedis(options);
  onTestFinished(() => server.stop());
  return server;
}

/** How a limiter of {@link useRedis} is asked: with all the time it needs, since the test's own clock stands. */
export const PATIENT = { timeoutMs: 10_000 };

/** A Redis for the tests of a file, empty before each; the clock then stands at {@link START_US}. */
export function useRedis() {
  const clock = fakeClock();
  let server: RedisServer;
  let store: Store;
  beforeAll(async () => {
    server = await startRedis();
    store = redisStore(clockedClient(ioredisClient(server.url), clock), { scripts: clockedScripts });
  });
  beforeEach(async () => {
    clock.set(START_US / 1000);
    await server.client.flushall();
  });
  afterAll(async () => {
    await store.close();
    await server.stop();
  });

  /** Until `ms` from now, as the clocked script would have written it. */
  const keep = (key: string, ms: number) =>
    server.client.set(`${key}:kept`, clock.now() + Math.ceil(ms) * 1000);

  return {
    clock,
    get url() {
      return server.url;
    },
    get client() {
      return server.client;
    },
    /** Runs the shipped script in Redis, at the time of `clock`. */
    get store() {
      return store;
    },
    /** Either store, at the time of `clock`. */
    storeOf: (kind: StoreKind): Store => (kind === "redis" ? store : memoryStore({ nowUs: clock.now })),
    /** The keys in Redis, sorted, without the clocked script's own. */
    async keys(): Promise<string[]> {
      return (await server.client.keys("*")).filter((key) => !key.endsWith(":kept")).sort();
    },
    /** Lets Redis forget what has had its time. */
    async expire() {
      for (const kept of await server.client.keys("*:kept"))
        if (Number(await server.client.get(kept)) <= clock.now())
          await server.client.del(kept, kept.slice(0, -":kept".length));
    },
    /** Puts state there as earlier requests would have left it. */
    seed: {
      async bucket(key: string, tokens: number, fullInMs: number) {
        await server.client.hset(key, "tokens", tokens.toFixed(6), "ts", clock.now());
        await keep(key, fullInMs);
      },
      async window(key: string, count: number, endsInMs: number) {
        await server.client.set(key, count);
        await keep(key, endsInMs);
      },
      async inFlight(key: string, count: number, leaseMs = 30_000) {
        for (let i = 0; i < count; i++)
          await server.client.zadd(key, clock.now() + leaseMs * 1000, `another.${i}`);
        await keep(key, leaseMs);
      },
      /** @param agesMs one per unit, oldest first */
      async log(key: string, windowMs: number, agesMs: number[]) {
        const stamps = agesMs.map((age) => String(clock.now() - Math.round(age * 1000)));
        await server.client.zadd(key, ...stamps.flatMap((stamp) => [stamp, stamp]));
        await keep(key, windowMs - agesMs.at(-1)!);
      },
    },
  };
}

export type StoreKind = "redis" | "memory";
export const storeKinds: StoreKind[] = ["redis", "memory"];

/** Under what a request of {@link visit} counts that is counted by address. */
export const LOCAL = "rl:{ip:127.0.0.1}";
