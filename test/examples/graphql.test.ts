/** P30: requests that ask for many things at once, by HTTP against the example's API. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { fixedWindow, slidingLog } from "@tidegate/express";
import request from "supertest";
import { describe, expect, it, onTestFinished } from "vitest";
import { createApi } from "../../examples/graphql/server.js";
import { ownRedis, PATIENT, storeKinds, useRedis } from "../harness/http.ts";
import { callsOf, resetStats } from "../harness/live.ts";
import { freePort } from "../harness/redis.ts";

const redis = useRedis();
const root = fileURLToPath(new URL("../..", import.meta.url));

/** The example's API, until the test is over. */
function api(config: Parameters<typeof createApi>[0]) {
  const { app, close } = createApi({ ...PATIENT, ...config });
  onTestFinished(async () => void (await close()));
  return (body: object) => request(app).post("/graphql").send(body);
}

/** So many units an hour for requests. */
const costing = (units: number) => ({ complexity: fixedWindow({ limit: units, window: "1h" }) });

const ME = { query: "{ me { id } }" };
const ME_ANSWERED = { data: { me: { id: "ip:127.0.0.1" } } };
const batch = (length: number) => Array.from({ length }, () => ME);

/** What a request took of an API that allows 1000 units. */
async function costOf(body: object): Promise<number> {
  const ask = api({ ...costing(1000), sendOtp: fixedWindow({ limit: 100, window: "1h" }) });
  const { headers } = await ask(body);
  return 1000 - Number(/^"complexity";r=(\d+);/.exec(headers["ratelimit"]!)![1]);
}

describe.each(storeKinds)("P30 an API on %s", (kind) => {
  it("P30 T1 charges an array of five operations five", async () => {
    const ask = api({ store: redis.storeOf(kind), ...costing(8) });
    const first = await ask(batch(5));
    expect([first.status, first.body]).toEqual([200, Array(5).fill(ME_ANSWERED)]);
    expect(first.headers["ratelimit"]).toBe('"complexity";r=3;t=3600');
    const second = await ask(batch(5));
    expect([second.status, second.headers["retry-after"]]).toEqual([429, "3600"]);
    expect((await ask(batch(3))).status).toBe(200);
    expect((await ask(ME)).status).toBe(429);
  });

  it("P30 T2 refuses an array of five whole at a limit of three, and takes nothing", async () => {
    const ask = api({ store: redis.storeOf(kind), ...costing(3) });
    const { status, headers, body } = await ask(batch(5));
    expect(status).toBe(429);
    expect(headers["ratelimit"]).toBe('"complexity";r=3');
    expect(headers).not.toHaveProperty("retry-after"); // No wait would help.
    expect(body).toEqual({
      type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
      title: "Quota Exceeded",
      status: 429,
      "violated-policies": ["complexity"],
    });
    expect(await redis.keys()).toEqual([]);
    expect((await ask(batch(3))).headers["ratelimit"]).toBe('"complexity";r=0;t=3600');
  });

  it("P30 T2 runs no operation of a request that is refused", async () => {
    const ask = api({ store: redis.storeOf(kind), ...costing(3) });
    const otp = { query: 'mutation { sendOtp(phone: "1") }' };
    expect((await ask(Array(4).fill(otp))).status).toBe(429);
    expect((await ask(otp)).body).toEqual({ data: { sendOtp: true } });
  });

  const limited = (alias: string, retryAfterSeconds: number) =>
    expect.objectContaining({
      message: "Too many codes were asked for.",
      path: [alias],
      extensions: { code: "RATE_LIMITED", retryAfterSeconds },
    });
  const aliases = 'mutation { a: sendOtp(phone: "1") b: sendOtp(phone: "1") c: sendOtp(phone: "1") }';

  it("P30 T3 of three aliases of a field limited to one, resolves one and answers two errors", async () => {
    const ask = api({ store: redis.storeOf(kind) });
    const { status, body } = await ask({ query: aliases });
    expect(status).toBe(200);
    expect(body).toEqual({
      data: { a: true, b: null, c: null },
      errors: [limited("b", 60), limited("c", 60)],
    });
  });

  it("P30 T3 of three operations at once with a field limited to one, resolves one", async () => {
    const ask = api({ store: redis.storeOf(kind) });
    const { body } = await ask(Array(3).fill({ query: 'mutation { otp: sendOtp(phone: "1") }' }));
    expect(body).toEqual([
      { data: { otp: true } },
      { data: { otp: null }, errors: [limited("otp", 60)] },
      { data: { otp: null }, errors: [limited("otp", 60)] },
    ]);
  });

  it("P30 T3 names the seconds that are left, and resolves the field again when they are over", async () => {
    const ask = api({ store: redis.storeOf(kind) });
    const otp = { query: 'mutation { otp: sendOtp(phone: "1") }' };
    await ask(otp);
    redis.clock.advance(17_500);
    expect((await ask(otp)).body.errors).toEqual([limited("otp", 43)]);
    redis.clock.advance(42_500);
    await redis.expire();
    expect((await ask(otp)).body).toEqual({ data: { otp: true } });
  });
});

it("P30 T1 five operations are one step in Redis", async () => {
  const server = await ownRedis();
  const ask = api({ redis: server.url, ...costing(8) });
  await ask({ query: "{ __typename }" }); // The script is there from now on.
  await resetStats(server);
  const { headers } = await ask(batch(5));
  expect(headers["ratelimit"]).toMatch(/^"complexity";r=2;/);
  expect([await callsOf(server, "evalsha"), await callsOf(server, "eval")]).toEqual([1, 0]);
});

it("P30 T3 a field's limit is shared by instances on one Redis", async () => {
  const sendOtp = slidingLog({ limit: 1, window: "1h" });
  const [here, there] = [api({ redis: redis.url, sendOtp }), api({ redis: redis.url, sendOtp })];
  const otp = { query: 'mutation { sendOtp(phone: "1") }' };
  const answers = await Promise.all([here(otp), there(otp)]);
  expect(answers.map(({ body }) => String(body.data.sendOtp)).sort()).toEqual(["null", "true"]);
});

describe("P30 a request costs", () => {
  const books = "{ books(first: 20) { title } }";

  it.each<[what: string, cost: number, body: object]>([
    ["one for a field", 1, ME],
    ["one for each root field", 3, { query: "{ me { id } other: me { id } __typename }" }],
    ["what a list's first says", 20, { query: books }],
    ["the schema's own first where none is given", 10, { query: "{ books { title } }" }],
    [
      "what a variable says",
      7,
      { query: "query ($n: Int!) { books(first: $n) { title } }", variables: { n: 7 } },
    ],
    ["what a variable's default says", 9, { query: "query ($n: Int! = 9) { books(first: $n) { title } }" }],
    [
      "the schema's first where a variable is missing",
      10,
      { query: "query ($n: Int) { books(first: $n) { title } }" },
    ],
    [
      "one for a list of none, or of fewer",
      2,
      { query: "{ a: books(first: 0) { title } b: books(first: -100) { title } }" },
    ],
    ["no less for a field in a fragment", 20, { query: `{ ...F } fragment F on Query ${books}` }],
    ["no less for a field in an inline fragment", 20, { query: `{ ... on Query ${books} }` }],
    [
      "nothing for the fields below",
      21,
      { query: `{ me { ...C } books(first: 20) { a: title b: title } } fragment C on Caller { id }` },
    ],
    [
      "one for each alias",
      3,
      { query: 'mutation { a: sendOtp(phone: "1") b: sendOtp(phone: "1") c: sendOtp(phone: "1") }' },
    ],
    ["what its operations cost together", 31, [ME, { query: books }, { query: "{ books { title } }" }]],
    ["one for an empty array", 1, []],
  ])("%s: %i", async (_, cost, body) => {
    expect(await costOf(body)).toBe(cost);
  });
});

describe("P30 what cannot run", () => {
  it.each<[what: string, message: string, body: object]>([
    ["a body without a query", "Give a query.", {}],
    ["a query that is no text", "Give a query.", { query: { toString: 1 } }],
    ["variables that are no object", "Give the variables as an object.", { ...ME, variables: "n" }],
    ["a query with a slip", "Syntax Error", { query: "{" }],
    ["a field that is not there", 'Cannot query field "you" on type "Query".', { query: "{ you }" }],
    [
      "a circle of fragments",
      'Cannot spread fragment "F" within itself.',
      { query: "{ ...F } fragment F on Query { ...F }" },
    ],
    [
      "a variable that does not fit",
      'Variable "$n" got invalid value "x"',
      { query: "query ($n: Int!) { books(first: $n) { title } }", variables: { n: "x" } },
    ],
    [
      "two operations, and none named",
      "Say which operation of the document.",
      { query: "query A { me { id } } query B { me { id } }" },
    ],
    ["too long a query", "500 tokens", { query: `{${" me { id }".repeat(200)} }` }],
  ])("is answered and costs one: %s", async (_, message, body) => {
    const ask = api(costing(10));
    const { status, headers, body: answer } = await ask(body);
    expect(status).toBe(200);
    expect(answer).toEqual({
      errors: [expect.objectContaining({ message: expect.stringContaining(message) })],
    });
    expect(headers["ratelimit"]).toBe('"complexity";r=9;t=3600');
  });

  it("makes nothing beside it cheaper", async () => {
    const broken = { query: "query ($n: Float = 1e308) { books(first: $n) { title } }" };
    expect(await costOf([broken, { query: "{ books(first: 50) { title } }" }])).toBe(51);
  });
});

it("The API stands as a program until SIGTERM, and ends with 0", async () => {
  const port = await freePort();
  const child = spawn(process.execPath, ["examples/graphql/server.js"], {
    cwd: root,
    env: { ...process.env, REDIS_URL: "", PORT: String(port) },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = once(child, "exit");
  await once(child.stdout, "data");
  const answer = await request(`http://127.0.0.1:${port}`).post("/graphql").send(ME);
  expect(answer.body).toEqual(ME_ANSWERED);
  child.kill("SIGTERM");
  expect(await ended).toEqual([0, null]);
});
