/** What `tidegate explain` says of somebody, held against what a live application answers them next. */
import { readFileSync } from "node:fs";
import type { Server } from "node:http";
import { apiKeyOf, createLimiter, type Limiter, user } from "@tidegate/core";
import { rateLimit } from "@tidegate/express";
import { policiesFrom } from "@tidegate/policy-file";
import express from "express";
import { Cluster } from "ioredis";
import request from "supertest";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { startClusterOf, type TestCluster } from "../harness/cluster.ts";
import { read } from "../harness/http.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { documentIn, fileWith, tidegate } from "./terminal.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

let files = 0;

/** A policy file with a prefix of its own, and the limits that it says. */
function policies(text: string): { file: string; prefix: string } {
  const prefix = `e${++files}`;
  return { file: fileWith(`prefix: ${prefix}\n${text}`), prefix };
}

/** An application that reads the file. Who is logged in stands in a header. */
function app(file: string, redis: unknown = server.url): Live {
  const made = express();
  made.set("trust proxy", "loopback");
  made.use((req, _, next) => {
    Object.assign(req, { user: req.get("x-user") });
    next();
  });
  const limit = rateLimit({ redis: redis as string, timeoutMs: 10_000, ...policiesFrom(file) });
  onTestFinished(() => limit.limiter.close());
  made.use(limit);
  made.use((_, res) => void res.end("hello"));
  const listening = made.listen(0);
  onTestFinished(() => void listening.close());
  return { app: listening, limiter: limit.limiter };
}

type Headers = Record<string, string>;

interface Live {
  readonly app: Server;
  readonly limiter: Limiter;
}

async function visits(
  count: number,
  { app }: Live,
  headers: Headers,
  path = "/",
  method: "get" | "post" = "get",
) {
  let response: request.Response | undefined;
  for (let i = 0; i < count; i++) response = await request(app)[method](path).set(headers);
  return response!;
}

const explain = async (who: readonly string[], file: string, ...more: string[]) => {
  const said = await tidegate([
    "explain",
    ...who,
    "--policy",
    file,
    "--redis",
    server.url,
    "--json",
    ...more,
  ]);
  expect(said.err).toBe("");
  expect(said.code).toBe(0);
  return documentIn(said);
};

/** Seconds go by between a look and the answer: `t` and Retry-After may be one less. All else is equal. */
function expectSameFields(told: Headers, answered: Headers): void {
  expect(told["RateLimit-Policy"]).toBe(answered["ratelimit-policy"]);
  const [mine, theirs] = [read(told["RateLimit"]), read(answered["ratelimit"])];
  expect([...mine.keys()]).toEqual([...theirs.keys()]);
  for (const [name, { t = 0, ...rest }] of mine) {
    const { t: later = 0, ...others } = theirs.get(name)!;
    expect(rest).toEqual(others);
    expect(t - later).toBeGreaterThanOrEqual(0);
    expect(t - later).toBeLessThanOrEqual(2);
  }
  const waits = [told["Retry-After"], answered["retry-after"]].map(Number);
  if (answered["retry-after"] === undefined) expect(told["Retry-After"]).toBeUndefined();
  else expect(waits[0]! - waits[1]!).toBeOneOf([0, 1, 2]);
}

const ALGORITHMS: [name: string, yaml: string][] = [
  ["tokenBucket", "{ algorithm: tokenBucket, capacity: 5, refillPerSecond: 0.001 }"],
  ["gcra", "{ algorithm: gcra, limit: 5, window: 1h, burst: 5 }"],
  ["slidingWindow", "{ algorithm: slidingWindow, limit: 5, window: 1h }"],
  ["slidingLog", "{ algorithm: slidingLog, limit: 5, window: 1h }"],
  ["fixedWindow", "{ algorithm: fixedWindow, limit: 5, window: 1h }"],
  ["fixedWindow by the clock", "{ algorithm: fixedWindow, limit: 5, window: 1 day, align: clock }"],
  ["fixedWindow of a month", "{ algorithm: fixedWindow, limit: 5, window: month, timeZone: Europe/Berlin }"],
  ["a cost of two", "{ algorithm: slidingLog, limit: 10, window: 1h, cost: 2 }"],
];

describe.each(ALGORITHMS)("of %s", (name, yaml) => {
  it.each([0, 1, 3, 4, 5, 6])("tells the fields of the answer after %i requests", async (spent) => {
    const { file } = policies(`policies:\n  burst: ${yaml}\n`);
    const live = app(file);
    await visits(spent, live, { "x-forwarded-for": "203.0.113.7" });

    const { plans } = await explain(["ip:203.0.113.7"], file);
    const answer = await visits(1, live, { "x-forwarded-for": "203.0.113.7" });

    expect(plans).toHaveLength(1);
    expect(plans[0].answer).toBe(answer.status === 200 ? "pass" : "refuse");
    expect(plans[0].status).toBe(answer.status === 200 ? null : 429);
    expectSameFields(plans[0].headers, answer.headers);
    const units = name === "a cost of two" ? 2 : 1;
    const used = Math.min(spent, 5) * units;
    expect(plans[0].policies[0]).toMatchObject({ policy: "burst", used, remaining: 5 * units - used });
  });
});

describe("numbers", () => {
  it("are those of peek", async () => {
    const { file, prefix } = policies(`
by: user
policies:
  burst: { algorithm: tokenBucket, capacity: 10, refillPerSecond: 0.01 }
  day: { algorithm: fixedWindow, limit: 100, window: 1 day }
  trial: { algorithm: slidingLog, limit: 2, window: 1h, mode: shadow }
`);
    const config = { ...policiesFrom(file), redis: server.url, timeoutMs: 10_000 };
    const limiter = createLimiter(config);
    onTestFinished(() => limiter.close());
    for (let i = 0; i < 3; i++) await limiter.decide({ identity: user("42") });

    const { verdicts } = await limiter.peek({ identity: user("42") });
    const { plans, at, blocks } = await explain(["user:42"], file);

    expect(blocks).toEqual([]);
    expect(Math.abs(at - Date.now())).toBeLessThan(10_000);
    expect(plans[0].policies.map(({ key }: { key: string }) => key)).toEqual([
      `${prefix}:{user:42}:burst:tb`,
      `${prefix}:{user:42}:day:fw`,
      `${prefix}:{user:42}:trial:sl`,
    ]);
    for (const [i, verdict] of verdicts.entries()) {
      const told = plans[0].policies[i];
      const { policy, limit, remaining, allowed, reason, shadow } = verdict;
      expect(told).toMatchObject({
        policy,
        limit,
        remaining,
        allowed,
        reason,
        shadow,
        used: limit - remaining,
      });
      for (const wait of ["nextMs", "fullMs"] as const) {
        const passed = verdict[wait]! - told[wait];
        expect(passed).toBeGreaterThanOrEqual(-1);
        expect(passed).toBeLessThan(10_000);
      }
    }
  });

  it("charge nothing and write nothing, however often they are asked for", async () => {
    const { file, prefix } = policies(
      "policies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n",
    );
    for (let i = 0; i < 3; i++) await explain(["ip:203.0.113.7"], file);
    expect(await server.client.keys(`${prefix}:*`)).toEqual([]);
  });

  it("of a limit that is split are those of one part", async () => {
    const { file, prefix } = policies(
      "by: user\npolicies:\n  burst: { algorithm: slidingLog, limit: 8, window: 1h, shards: 2 }\n",
    );
    const { plans } = await explain(["user:42"], file);
    expect(plans[0].policies[0]).toMatchObject({ limit: 8, shards: 2, used: 0, remaining: 4 });
    expect(plans[0].policies[0].key).toMatch(new RegExp(`^${prefix}:\\{user:42#\\d{3}\\}:burst:sl$`));
    const { out } = await tidegate(["explain", "user:42", "--policy", file, "--redis", server.url]);
    expect(out).toMatch(/^burst +user:42#\d{3} +8 per 1 h +0 +4 +now +now +one of 2 shards$/m);
  });

  it("of a limit that each process counts for itself are not to be seen from here", async () => {
    const { file } = policies(
      "by: user\npolicies:\n  own: { algorithm: slidingLog, limit: 8, window: 1h, scope: process }\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n",
    );
    await app(file).limiter.decide({ identity: user("42") });
    const { plans } = await explain(["user:42"], file);
    expect(plans[0].policies).toMatchObject([
      { policy: "own", key: null, used: null, remaining: null, allowed: null },
      { policy: "burst", used: 1, remaining: 4 },
    ]);
    const { out } = await tidegate(["explain", "user:42", "--policy", file, "--redis", server.url]);
    expect(out).toMatch(/^own +8 per 1 h +counted in each process$/m);
  });

  it("of requests in flight are seen while these are", async () => {
    const { file } = policies("by: user\npolicies:\n  slots: { algorithm: concurrency, limit: 2 }\n");
    const limiter = createLimiter({ ...policiesFrom(file), redis: server.url, timeoutMs: 10_000 });
    onTestFinished(() => limiter.close());
    const one = await limiter.decide({ identity: user("42") });
    const two = await limiter.decide({ identity: user("42") });

    const full = await explain(["user:42"], file);
    expect(full.plans[0]).toMatchObject({ answer: "refuse", refusedBy: ["slots"], retryAfterMs: null });
    expect(full.plans[0].policies[0]).toMatchObject({ used: 2, remaining: 0, reason: "concurrency" });

    await limiter.settle(one, "keep");
    const { plans } = await explain(["user:42"], file);
    expect(plans[0].answer).toBe("pass");
    expect(plans[0].policies[0]).toMatchObject({ used: 1, remaining: 1 });
    expect(plans[0].headers["RateLimit"]).toBe('"slots";r=0');
    await limiter.settle(two, "keep");
  });
});

describe("who is counted", () => {
  const FILE = `
by: { or: [user, ip] }
policies:
  burst: { algorithm: slidingLog, limit: 5, window: 1h }
  perIp: { algorithm: slidingLog, limit: 20, window: 1h, by: ip }
`;
  it("is found out from the file, and what counts by something else is named", async () => {
    const { file } = policies(FILE);
    const { plans } = await explain(["user:42"], file);
    expect(plans[0].policies.map(({ policy }: { policy: string }) => policy)).toEqual(["burst"]);
    expect(plans[0].leftOut).toEqual(["perIp"]);
  });

  it("is both the user and the address, when both are named: the fields are then those of the answer", async () => {
    const { file } = policies(FILE);
    const live = app(file);
    const headers = { "x-user": "42", "x-forwarded-for": "2001:db8::1" };
    await visits(2, live, headers);

    const { plans, identities } = await explain(["user:42", "ip:2001:db8::1"], file);
    const answer = await visits(1, live, headers);
    expect(identities).toEqual(["user:42", "ip:20010db800000000"]);
    expectSameFields(plans[0].headers, answer.headers);
  });

  it("is an IPv6 address by the prefix that the file says", async () => {
    const { file, prefix } = policies(
      "by: { ip: { ipv6Prefix: 48 } }\npolicies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n",
    );
    const { plans } = await explain(["ip:2001:db8:1:2::3"], file);
    expect(plans[0].policies[0].key).toBe(`${prefix}:{ip:20010db80001}:burst:sl`);
  });

  it("is somebody as a Redis key names them, digests too", async () => {
    const { file, prefix } = policies(
      "by: user\npolicies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n",
    );
    const limiter = createLimiter({ ...policiesFrom(file), redis: server.url, timeoutMs: 10_000 });
    onTestFinished(() => limiter.close());
    await limiter.decide({ identity: user("somebody@example.com") });
    const [key] = await server.client.keys(`${prefix}:*`);

    const { plans } = await explain([key!], file);
    expect(plans[0].policies[0]).toMatchObject({ key, used: 1 });
    const byName = await explain(["user:somebody@example.com"], file);
    expect(byName.plans[0].policies[0]).toMatchObject({ key, used: 1 });
  });

  it("is an API key by its digest, or by itself on standard input", async () => {
    const { file, prefix } = policies(
      "by: { apiKey: { header: x-api-key } }\npolicies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n",
    );
    const live = app(file);
    await visits(2, live, { "x-api-key": "a secret of somebody's" });
    const [key] = await server.client.keys(`${prefix}:*`);
    const digest = /\{key:(.*)\}/.exec(key!)![1]!;

    const byDigest = await explain([`key:${digest}`], file);
    expect(byDigest.plans[0].policies[0]).toMatchObject({ key, used: 2 });

    const said = await tidegate(["explain", "key:-", "--policy", file, "--redis", server.url, "--json"], {
      input: "a secret of somebody's\n",
    });
    expect(documentIn(said).plans[0].policies[0]).toMatchObject({ key, used: 2 });
    expect(said.out).not.toContain("secret");
  });

  it("is an API key on standard input by the digest that the file's secret makes of it", async () => {
    const { file, prefix } = policies(
      "by: { apiKey: { header: x-api-key, secretFromEnv: PEPPER } }\npolicies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n",
    );
    const outside = { input: "hush-hush\n", env: { PEPPER: "salted" } };
    const digest = apiKeyOf("hush-hush", "salted").value;
    const words = ["key:-", "--policy", file, "--redis", server.url];
    const { out } = await tidegate(["explain", ...words], outside);
    expect(out.split("\n")[0]).toMatch(new RegExp(`^key:${digest} at `));
    expect(out).not.toContain("hush-hush");
    const { identities } = documentIn(await tidegate(["explain", ...words, "--json"], outside));
    expect(identities).toEqual([`key:${digest}`]);
    const reset = await tidegate(["reset", ...words, "--dry-run"], outside);
    expect(reset.out).toMatch(new RegExp(`^This would forget what all policies counted for key:${digest}:`));
    expect(reset.out).toContain(`DEL ${prefix}:{key:${digest}}:burst:sl`);
  });

  it("is told of with 0, whether they are refused or not", async () => {
    const { file } = policies(
      "by: user\npolicies:\n  burst: { algorithm: slidingLog, limit: 0, window: 1h }\n",
    );
    const { code, out } = await tidegate(["explain", "user:42", "--policy", file, "--redis", server.url]);
    expect({ code, refused: out.includes("Refused by burst") }).toEqual({ code: 0, refused: true });
    expect(out).toMatch(/^policy +counts +limit +used +left +next unit back +all again$/m);
  });

  it("is nobody: that is said, with what to name instead", async () => {
    const { file } = policies(
      "by: ip\npolicies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n",
    );
    const { code, err, out } = await tidegate([
      "explain",
      "user:42",
      "--policy",
      file,
      "--redis",
      server.url,
    ]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toMatch(/^user:42: no policy of .*limits\.yaml counts by that\. /);
  });

  it("is one of each kind", async () => {
    const { file } = policies(
      "by: user\npolicies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n",
    );
    const words = ["explain", "user:42", "user:43", "--policy", file, "--redis", server.url];
    expect(await tidegate(words)).toEqual({
      code: 2,
      out: "",
      err: "identity: user:43 is the second of its kind: they are to be one request's, and one request has one of each kind.\n",
    });
  });

  it.each([
    [
      "usr:42",
      'identity: there is no kind "usr" (did you mean user?). An id with a colon in it is written id:usr:42.',
    ],
    ["ip:nonsense", 'identity: "ip:nonsense": this is no address.'],
    ["user:", 'identity: "user:" names nobody.'],
    [
      "key:short",
      "identity: key: give the digest, 22 characters, as the Redis key has it; or key:- and the API key on standard input, so that it stands in no list of processes.",
    ],
  ])("is not %s", async (who, message) => {
    const { file } = policies("policies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n");
    expect(await tidegate(["explain", who, "--policy", file, "--redis", server.url])).toEqual({
      code: 2,
      out: "",
      err: `${message}\n`,
    });
  });
});

describe("routes", () => {
  const FILE = `
by: user
policies:
  burst: { algorithm: slidingLog, limit: 5, window: 1h }
routes:
  "POST /login":
    policies:
      attempts: { algorithm: slidingLog, limit: 2, window: 1h }
  "GET /export/:id": { cost: 4 }
  "GET /health": false
`;
  it("are told of each, with keys of their own", async () => {
    const { file, prefix } = policies(FILE);
    const live = app(file);
    await visits(3, live, { "x-user": "42" }, "/login", "post");
    await visits(2, live, { "x-user": "42" });

    const { plans } = await explain(["user:42"], file);
    expect(plans.map(({ route, answer }: any) => [route, answer])).toEqual([
      [null, "pass"],
      ["POST /login", "refuse"],
      ["GET /export/:id", "refuse"],
    ]);
    const login = plans[1].policies[0];
    expect(login).toMatchObject({ policy: "attempts", used: 2, remaining: 0 });
    expect(await server.client.exists(login.key)).toBe(1);
    expect(login.key.startsWith(`${prefix}:{user:42}:h.`)).toBe(true);
    expect(plans[2].policies[0].key).toBe(`${prefix}:{user:42}:burst:sl`);

    expectSameFields(plans[1].headers, (await visits(1, live, { "x-user": "42" }, "/login", "post")).headers);
    expectSameFields(plans[2].headers, (await visits(1, live, { "x-user": "42" }, "/export/7")).headers);
  });
});

it("of a policy that a route shares with the rest of the file tells under one key", async () => {
  const { file, prefix } = policies(`
policies:
  burst: &burst { algorithm: slidingLog, limit: 5, window: 1h, by: user }
routes:
  "POST /login":
    policies:
      burst: *burst
      attempts: { algorithm: slidingLog, limit: 3, window: 1h, by: user }
`);
  const live = app(file);
  await visits(1, live, { "x-user": "42" });
  await visits(2, live, { "x-user": "42" }, "/login", "post");
  const { plans } = await explain(["user:42"], file);
  expect(plans[0].policies).toMatchObject([{ key: `${prefix}:{user:42}:burst:sl`, used: 3 }]);
  expect(plans[1].policies).toMatchObject([
    { key: `${prefix}:{user:42}:burst:sl`, used: 3 },
    { policy: "attempts", used: 2 },
  ]);
  const { out } = await tidegate(["explain", "user:42", "--policy", file, "--redis", server.url]);
  expect(out.match(/^burst /gm)).toHaveLength(1);
});

describe("lists of addresses", () => {
  const FILE = `
allow: [10.0.0.0/8]
deny: [192.0.2.0/24]
policies:
  burst: { algorithm: slidingLog, limit: 5, window: 1h }
`;
  it("let pass whom they let pass", async () => {
    const { file } = policies(FILE);
    const { plans } = await explain(["ip:10.1.2.3"], file);
    expect(plans[0]).toMatchObject({ answer: "skip", headers: {}, policies: [] });
  });

  it("refuse whom they refuse, and that is said", async () => {
    const { file } = policies(FILE);
    const live = app(file);
    const found = await explain(["ip:192.0.2.7"], file);
    expect(found).toMatchObject({ denied: true, blocks: [] });
    const answer = await visits(1, live, { "x-forwarded-for": "192.0.2.7" });
    expect(answer.status).toBe(429);
    expectSameFields(found.plans[0].headers, answer.headers);
    const { out } = await tidegate(["explain", "ip:192.0.2.7", "--policy", file, "--redis", server.url]);
    expect(out).toContain("Refused: the address is on the file's deny list.");
  });
});

describe("a block", () => {
  const FILE =
    "by: user\nblocking: true\npolicies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n";

  it("is told with its reason and its end, and the fields are those of the refusal", async () => {
    const { file, prefix } = policies(FILE);
    const live = app(file);
    await visits(2, live, { "x-user": "42" });
    await live.limiter.block(user("42"), "1h", "scraping, ticket 1234");

    const found = await explain(["user:42"], file);
    expect(found.blocks).toEqual([
      { key: `${prefix}:{user:42}::b`, reason: "scraping, ticket 1234", until: expect.any(Number) },
    ]);
    expect(found.blocks[0].until - found.at).toBeGreaterThan(3_500_000);
    expect(found.plans[0].policies[0]).toMatchObject({ used: 2, remaining: 3 });
    const answer = await visits(1, live, { "x-user": "42" });
    expect(answer.status).toBe(429);
    expectSameFields(found.plans[0].headers, answer.headers);

    const { out } = await tidegate(["explain", "user:42", "--policy", file, "--redis", server.url]);
    expect(out).toMatch(/^Blocked: user:42, until .* \((1 h|59 min \d+ s)\): "scraping, ticket 1234"\.$/m);
  });

  it("for ever has no end", async () => {
    const { file } = policies(FILE);
    const live = app(file);
    await live.limiter.block(user("42"), "forever");
    const found = await explain(["user:42"], file);
    expect(found.blocks[0]).toMatchObject({ reason: "", until: null });
    expect(found.plans[0].headers).not.toHaveProperty("Retry-After");
    const { out } = await tidegate(["explain", "user:42", "--policy", file, "--redis", server.url]);
    expect(out).toContain("Blocked: user:42, until it is lifted: no reason was given.");
  });

  it("that the file does not heed is told, and changes no answer", async () => {
    const { file, prefix } = policies(FILE.replace("blocking: true\n", ""));
    await server.client.set(`${prefix}:{user:42}::b`, "by hand", "PX", 60_000);
    const found = await explain(["user:42"], file);
    expect(found).toMatchObject({ heedsBlocks: false, blocks: [{ reason: "by hand" }] });
    expect(found.plans[0].answer).toBe("pass");
    const { out } = await tidegate(["explain", "user:42", "--policy", file, "--redis", server.url]);
    expect(out).toContain("The file has no `blocking: true`: an application that reads it heeds no block.");
    expect(out).toContain("Not refused: the next request passes.");
  });

  it("may say anything: nothing of it acts on the terminal", async () => {
    const { file } = policies(FILE);
    const live = app(file);
    const who = "\u001b[2Jmallory\n\u202e\u200b";
    await live.limiter.block(user(who), "1h", "\u001b]0;owned\u0007\r\nDone.\u2028\u2066");

    const words = ["explain", `user:${who}`, "--policy", file, "--redis", server.url];
    const { out } = await tidegate(words);
    expect(out).toContain(String.raw`"\x1b]0;owned\x07\r\nDone.\u2028\u2066"`);
    expect(out).toContain(String.raw`user:\x1b[2Jmallory\n\u202e\u200b at `);
    const coloured = await tidegate(words, { tty: true });
    expect(coloured.out.replace(/\u001b\[\d+m/g, "")).toBe(
      out.replace(/ at \S+ \S+,/, coloured.out.match(/ at \S+ \S+,/)![0]),
    );
  });
});

describe("of a Cluster", () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await startClusterOf({ primaries: 3, replicas: 0 });
  });
  afterAll(() => cluster.stop());

  it("looks at every server that counts, given one of them", async () => {
    const { file } = policies(`
by: user
blocking: true
policies:
  burst: { algorithm: slidingLog, limit: 5, window: 1h }
  perIp: { algorithm: slidingLog, limit: 20, window: 1h, by: ip }
  total: { algorithm: fixedWindow, limit: 1000, window: 1h, by: globally }
`);
    const client = new Cluster([...cluster.startupNodes]);
    onTestFinished(() => client.disconnect());
    const live = app(file, client);
    const headers = { "x-user": "42", "x-forwarded-for": "203.0.113.7" };
    await visits(3, live, headers);

    for (const url of cluster.urls) {
      const said = await tidegate([
        "explain",
        "user:42",
        "ip:203.0.113.7",
        "--policy",
        file,
        "--redis",
        url,
        "--json",
      ]);
      expect(said.err).toBe("");
      const { plans } = documentIn(said);
      expect(plans[0].policies.map(({ policy, used }: any) => [policy, used])).toEqual([
        ["burst", 3],
        ["perIp", 3],
        ["total", 3],
      ]);
    }
    const said = await tidegate([
      "explain",
      "user:42",
      "ip:203.0.113.7",
      "--policy",
      file,
      "--redis",
      cluster.urls[0]!,
      "--cluster",
      "--json",
    ]);
    expectSameFields(documentIn(said).plans[0].headers, (await visits(1, live, headers)).headers);
  });
});

describe("one route", () => {
  const FILE = `
by: user
policies:
  burst: { algorithm: slidingLog, limit: 5, window: 1h }
  each: { algorithm: slidingLog, limit: 3, window: 1h, by: { and: [user, route] } }
routes:
  "POST /login": { limit: 2, window: 1h }
  "GET /health": false
`;

  it("that the file names is told of alone", async () => {
    const { file } = policies(FILE);
    const { plans } = await explain(["user:42"], file, "--route", "POST /login");
    expect(
      plans.map(({ route, policies }: any) => [route, policies.map(({ policy }: any) => policy)]),
    ).toEqual([["POST /login", ["default"]]]);
  });

  it("that the framework names has its own counts, where policies count by route", async () => {
    const { file, prefix } = policies(FILE);
    const live = app(file);
    await visits(2, live, { "x-user": "42" });
    const { plans } = await explain(["user:42"], file);
    expect(plans[0].policies.map(({ key, used }: any) => [key, used])).toEqual([
      [`${prefix}:{user:42}:burst:sl`, 2],
      [`${prefix}:{user:42}:-.each:sl`, 2],
    ]);
    const one = await explain(["user:42"], file, "--route", "GET /users/:id");
    expect(one.plans).toHaveLength(1);
    expect(one.plans[0].policies.map(({ used }: any) => used)).toEqual([2, 0]);
  });

  it("that is not limited is said to be so", async () => {
    const { file } = policies(FILE);
    const said = await tidegate([
      "explain",
      "user:42",
      "--policy",
      file,
      "--redis",
      server.url,
      "--route",
      "GET /health",
    ]);
    expect(said).toEqual({ code: 0, out: "GET /health is not limited: the file says so.\n", err: "" });
  });
});

it("of two who are counted together tells under one key, and a reset of the pair forgets it alone", async () => {
  const { file, prefix } = policies(`
policies:
  pair: { algorithm: slidingLog, limit: 5, window: 1h, by: { and: [user, ip] } }
  own: { algorithm: slidingLog, limit: 50, window: 1h, by: user }
`);
  const live = app(file);
  await visits(2, live, { "x-user": "42", "x-forwarded-for": "203.0.113.7" });
  for (const who of [["user:42", "ip:203.0.113.7"], ["both:user:42+ip:203.0.113.7"]]) {
    const { plans } = await explain(who, file);
    expect(plans[0].policies.map(({ policy, used }: any) => [policy, used])).toEqual([
      ["pair", 2],
      ["own", 2],
    ]);
  }
  const pair = "both:user:42+ip:203.0.113.7";
  expect(await tidegate(["reset", pair, "--policy", file, "--redis", server.url, "--yes"])).toMatchObject({
    code: 0,
  });
  expect(await server.client.keys(`${prefix}:*`)).toEqual([`${prefix}:{user:42}:own:sl`]);
});

it("of a file that asks for Functions asks by these", async () => {
  const { file } = policies(
    "scripting: functions\nby: user\npolicies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n",
  );
  await visits(2, app(file), { "x-user": "42" });
  await server.client.call("ACL", "SETUSER", "byfunctions", "on", ">pw", "~*", "+@all", "-eval", "-evalsha");
  const url = server.url.replace("://", "://byfunctions:pw@");
  const said = await tidegate(["explain", "user:42", "--policy", file, "--redis", url, "--json"]);
  expect(documentIn(said).plans[0].policies[0]).toMatchObject({ used: 2, remaining: 3 });
});

it("is shown by the package's README as it is", async () => {
  const readme = readFileSync(new URL("../../packages/cli/README.md", import.meta.url), "utf8");
  const [, shown = ""] = /```text\n([^]*?)```/.exec(readme) ?? [];
  const { file } = policies(
    "by: user\npolicies:\n  burst: { algorithm: tokenBucket, capacity: 10, refillPerSecond: 0.1 }\n",
  );
  await visits(10, app(file), { "x-user": "42" });
  const { out } = await tidegate(["explain", "user:42", "--policy", file, "--redis", server.url]);
  expect(timeless(out)).toBe(timeless(shown));
});

/** Without the moment, and without where it was. */
const timeless = (text: string): string =>
  text
    .replace(/redis:\S+/, "URL")
    .replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, "TIME")
    .replace(/(in |\()[\d.]+ (min \d+ )?s/g, "$1SPAN")
    .replace(/(t=|Retry-After: )\d+/g, "$1SECONDS")
    .replace(/ +/g, " ")
    .trim();

it("of the shortest form tells of its one policy", async () => {
  const { file, prefix } = policies("limit: 5\nwindow: 1h\n");
  await visits(1, app(file), { "x-forwarded-for": "203.0.113.7" });
  const { plans } = await explain(["ip:203.0.113.7"], file);
  expect(plans[0].policies).toMatchObject([
    { key: `${prefix}:{ip:203.0.113.7}:default:sw`, used: 1, remaining: 4 },
  ]);
});

describe("a server that does not let it look", () => {
  it("for want of a right is told in one line", async () => {
    const { file, prefix } = policies(
      "by: user\npolicies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n",
    );
    await server.client.call(
      "ACL",
      "SETUSER",
      "blind",
      "on",
      ">pw",
      `~${prefix}:*`,
      "-@all",
      "+info",
      "+eval",
      "+evalsha",
      "+time",
    );
    const url = server.url.replace("://", "://blind:pw@");
    const { code, out, err } = await tidegate(["explain", "user:42", "--policy", file, "--redis", url]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err.trimEnd().split("\n")).toHaveLength(1);
    expect(err).toMatch(/^Redis (gave no answer|did not do it): .*(NOPERM|may not)/);
  });

  it("for a key of another type is told in one line", async () => {
    const { file, prefix } = policies(
      "by: user\npolicies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n",
    );
    await server.client.set(`${prefix}:{user:42}:burst:sl`, "somebody else's");
    const { code, err } = await tidegate(["explain", "user:42", "--policy", file, "--redis", server.url]);
    expect(code).toBe(2);
    expect(err).toBe(
      "Redis gave no answer: a key of this limiter holds another type: give the limiter a prefix of its own.\n",
    );
  });
});
