/** A file decides as the configuration that says the same. */
import {
  apiKey,
  concurrency,
  type Config,
  createLimiter,
  fixedWindow,
  gcra,
  globally,
  identity,
  ip,
  memoryStore,
  route,
  slidingLog,
  slidingWindow,
  tenant,
  tokenBucket,
  user,
} from "@tidegate/core";
import { rateLimit } from "@tidegate/express";
import { policiesFromText } from "@tidegate/policy-file";
import express from "express";
import request from "supertest";
import { describe, expect, it, onTestFinished } from "vitest";
import { fakeClock } from "../harness/clock.ts";

const limits: [name: string, yaml: string, config: Config][] = [
  ["the shortest form", "limit: 3\nwindow: 1m\n", { limit: 3, window: "1m" }],
  ["in JSON", '{ "limit": 3, "window": 60000, "cost": 2 }', { limit: 3, window: 60_000, cost: 2 }],
  [
    "tokenBucket",
    "policies: { a: { algorithm: tokenBucket, capacity: 4, refillPerSecond: 0.5 } }",
    { policies: { a: tokenBucket({ capacity: 4, refillPerSecond: 0.5 }) } },
  ],
  [
    "gcra",
    "policies: { a: { algorithm: gcra, limit: 10, window: 10s, burst: 3 } }",
    { policies: { a: gcra({ limit: 10, window: "10s", burst: 3 }) } },
  ],
  [
    "slidingWindow",
    "policies: { a: { algorithm: slidingWindow, limit: 3, window: 7s, mode: shadow } }",
    { policies: { a: slidingWindow({ limit: 3, window: "7s", mode: "shadow" }) } },
  ],
  [
    "slidingLog",
    "policies: { a: { algorithm: slidingLog, limit: 3, window: 7s, cost: 2 } }",
    { policies: { a: slidingLog({ limit: 3, window: "7s", cost: 2 }) } },
  ],
  [
    "fixedWindow",
    "policies: { a: { algorithm: fixedWindow, limit: 3, window: 7s, align: clock, unit: content-bytes } }",
    { policies: { a: fixedWindow({ limit: 3, window: "7s", align: "clock", unit: "content-bytes" }) } },
  ],
  [
    "fixedWindow of the calendar",
    "policies: { a: { algorithm: fixedWindow, limit: 3, window: day, timeZone: Pacific/Chatham } }",
    { policies: { a: fixedWindow({ limit: 3, window: "day", timeZone: "Pacific/Chatham" }) } },
  ],
  [
    "concurrency",
    "policies: { a: { algorithm: concurrency, limit: 2, leaseMs: 5s } }",
    { policies: { a: concurrency({ limit: 2, leaseMs: 5000 }) } },
  ],
  [
    "several at once, of one process and of all",
    `
instances: 2
policies:
  burst: { algorithm: tokenBucket, capacity: 4, refillPerSecond: 1 }
  all: { algorithm: fixedWindow, limit: 9, window: 1h, by: globally }
  own: { algorithm: slidingLog, limit: 6, window: 1m, scope: process }
`,
    {
      instances: 2,
      policies: {
        burst: tokenBucket({ capacity: 4, refillPerSecond: 1 }),
        all: fixedWindow({ limit: 9, window: "1h", by: globally() }),
        own: slidingLog({ limit: 6, window: "1m", scope: "process" }),
      },
    },
  ],
];

/** Steps of a client: milliseconds to wait, who comes, and with what cost. */
const steps = Array.from({ length: 60 }, (_, i) => ({
  waitMs: (i * 137) % 1900,
  who: i % 5 === 0 ? "b" : "a",
  cost: i % 7 === 3 ? 2 : undefined,
}));

async function decisionsOf(config: Config) {
  const clock = fakeClock();
  const limiter = createLimiter({ ...config, timeoutMs: 10_000, store: memoryStore({ nowUs: clock.now }) });
  const decisions = [];
  for (const { waitMs, who, cost } of steps) {
    clock.advance(waitMs);
    decisions.push(await limiter.decide({ identity: identity(who), ...(cost !== undefined && { cost }) }));
  }
  await limiter.close();
  return decisions.map(({ allowed, retryAfterMs, verdicts, degraded }) => ({
    allowed,
    retryAfterMs,
    verdicts,
    degraded,
  }));
}

describe("a file makes the decisions of the configuration that says the same", () => {
  it.each(limits)("%s", async (_, yaml, config) => {
    const decisions = await decisionsOf(policiesFromText(yaml));
    expect(decisions).toEqual(await decisionsOf(config));
    expect(new Set(decisions.map(({ verdicts }) => verdicts.every(({ allowed }) => allowed)))).toEqual(
      new Set([true, false]),
    );
  });
});

const burst = tokenBucket({ capacity: 4, refillPerSecond: 0.25 });
const daily = fixedWindow({ limit: 20, window: "day" });
const login = slidingLog({ limit: 2, window: "1m", by: ip() });
const few = gcra({ limit: 2, window: "1m" });

const sites: [name: string, yaml: string, config: Config][] = [
  [
    "routes, with the file's policies by name, in both forms",
    `
policies:
  burst: { algorithm: tokenBucket, capacity: 4, refillPerSecond: 0.25 }
  daily: { algorithm: fixedWindow, limit: 20, window: day }
trustProxy: 1
routes:
  GET /free: false
  GET /login:
    policies: { burst: burst, login: { algorithm: slidingLog, limit: 2, window: 1m, by: ip } }
  /bursts: { policies: [burst] }
  /renamed: { policies: { quick: burst } }
  /otp: { group: otp, limit: 2, window: 1m, mode: shadow }
  /dear: { cost: 3, giveBackOn: success }
`,
    {
      policies: { burst, daily },
      trustProxy: 1,
      routes: {
        "GET /free": false,
        "GET /login": { policies: { burst, login } },
        "/bursts": { policies: { burst } },
        "/renamed": { policies: { quick: burst } },
        "/otp": { group: "otp", limit: 2, window: "1m", mode: "shadow" },
        "/dear": { cost: 3, giveBackOn: "success" },
      },
    },
  ],
  [
    "routes, with an alias of one of the file's policies",
    `
policies:
  burst: &burst { algorithm: tokenBucket, capacity: 4, refillPerSecond: 0.25 }
trustProxy: [loopback]
routes:
  /login: { policies: { burst: *burst } }
  /otp: { policies: { burst: { <<: *burst } } }
`,
    {
      policies: { burst },
      trustProxy: ["loopback"],
      routes: {
        "/login": { policies: { burst } },
        "/otp": { policies: { burst: tokenBucket({ capacity: 4, refillPerSecond: 0.25 }) } },
      },
    },
  ],
  [
    "identities",
    `
by: { or: [{ apiKey: { header: X-Api-Key, secretFromEnv: KEY_SECRET } }, { and: [tenant, user, route] }, { ip: { ipv6Prefix: 48 } }] }
policies:
  each: { algorithm: gcra, limit: 2, window: 1m }
  host:
    algorithm: fixedWindow
    limit: 12
    window: 1h
    by: { ip: { trustedHeaders: { header: cf-connecting-ip, from: [loopback] } } }
  site: { algorithm: fixedWindow, limit: 30, window: 1h, by: globally }
trustProxy: 1
deny: [203.0.113.66]
allow: ["2001:db8:ffff::/48"]
headers: { standard: draft-7, x: true, expose: true }
`,
    {
      by: apiKey({ header: "x-api-key", secret: "s3cret" })
        .or(tenant().and(user()).and(route()))
        .or(ip({ ipv6Prefix: 48 })),
      policies: {
        each: few,
        host: fixedWindow({
          limit: 12,
          window: "1h",
          by: ip({ trustedHeaders: { header: "cf-connecting-ip", from: ["loopback"] } }),
        }),
        site: fixedWindow({ limit: 30, window: "1h", by: globally() }),
      },
      trustProxy: 1,
      deny: ["203.0.113.66"],
      allow: ["2001:db8:ffff::/48"],
      headers: { standard: "draft-7", x: true, expose: true },
    },
  ],
];

const PATHS = ["/", "/login", "/free", "/bursts", "/renamed", "/otp", "/dear"];
const CLIENTS: Record<string, string>[] = [
  { "x-forwarded-for": "203.0.113.7" },
  { "x-forwarded-for": "2001:db8:0:1::1", "x-user": "42", "x-tenant": "acme" },
  { "x-forwarded-for": "2001:db8:0:2::1", "x-api-key": "k" },
  { "x-forwarded-for": "203.0.113.66" },
  { "x-forwarded-for": "2001:db8:ffff::1" },
];

async function answersOf(config: Config) {
  const clock = fakeClock();
  const limit = rateLimit({
    ...config,
    timeoutMs: 10_000,
    store: memoryStore({ nowUs: clock.now }),
    onEvent: () => undefined,
  });
  const app = express();
  app.use((req, _res, next) => {
    Object.assign(req, { user: req.get("x-user"), tenant: req.get("x-tenant") });
    next();
  });
  app.use(limit, (_req, res) => void res.end("hello"));
  const server = app.listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  const answers = [];
  for (let i = 0; i < 100; i++) {
    clock.advance((i * 311) % 400);
    const { status, headers } = await request(server)
      .get(PATHS[(i * 5) % PATHS.length]!)
      .set(CLIENTS[(i * 3) % CLIENTS.length]!);
    const told = Object.entries(headers).filter(([name]) => /ratelimit|retry-after|expose/.test(name));
    answers.push({ status, told: Object.fromEntries(told) });
  }
  await limit.limiter.close();
  return answers;
}

describe("a file answers as the configuration that says the same, in Express", () => {
  it.each(sites)("%s", { timeout: 60_000 }, async (_, yaml, config) => {
    const env = (name: string) => (name === "KEY_SECRET" ? "s3cret" : undefined);
    const answers = await answersOf(policiesFromText(yaml, "limits.yaml", { env }));
    expect(answers).toEqual(await answersOf(config));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]));
  });
});

describe("secretFromEnv", () => {
  const text = "limit: 1\nwindow: 1m\nby: { apiKey: { header: x, secretFromEnv: TIDEGATE_TEST_SECRET } }\n";

  it("is looked up in the environment of the process", () => {
    process.env["TIDEGATE_TEST_SECRET"] = "s3cret";
    onTestFinished(() => void delete process.env["TIDEGATE_TEST_SECRET"]);
    expect(policiesFromText(text).by).toHaveProperty("unverified", true);
  });

  it.each([
    ["not set", undefined],
    ["empty", ""],
  ])("is told of where the variable is %s", (how, value) => {
    expect(() => policiesFromText(text, "a.yaml", { env: () => value })).toThrow(
      `a.yaml:3:43: by.apiKey.secretFromEnv: set the environment variable TIDEGATE_TEST_SECRET; it is ${how}.`,
    );
  });

  it("makes the partition keys of this secret", () => {
    const { headers } = policiesFromText(
      "limit: 1\nwindow: 1m\nheaders: { partitionKey: { secretFromEnv: PK } }\n",
      "a.yaml",
      { env: (name) => `value of ${name}` },
    );
    expect(headers).toEqual({ partitionKey: { secret: "value of PK" } });
  });
});

it("says nothing of what the file leaves out, so that spreading it changes nothing else", () => {
  expect(policiesFromText("limit: 1\nwindow: 1m\nx-any: [1]\n$schema: ./schema.json\n")).toEqual({
    limit: 1,
    window: "1m",
  });
});

it("keeps every setting that is plain data as it is written", () => {
  const config = {
    limit: 1,
    window: "1m",
    cost: 0,
    mode: "shadow",
    allow: ["10.0.0.0/8"],
    deny: [],
    trustProxy: 2,
    preflights: "count",
    timeoutMs: 20,
    functionTimeoutMs: 10,
    onFailure: "closed",
    instances: 3,
    headers: {
      standard: false,
      x: true,
      retryAfter: { concurrency: 2, closed: 9 },
      partitionKey: false,
      omitOnRedirect: false,
      jitterSeconds: 4,
      expose: true,
    },
    giveBackOn: "failure",
    idempotencyMs: 5,
    denyCache: { maxMs: 7 },
    coalesce: false,
    blocking: true,
    prefix: "api",
    scripting: "functions",
  };
  expect(policiesFromText(JSON.stringify(config))).toEqual(config);
});
