/** One limit, counted by Python and by Node: uvicorn as a process of its own, Express, and a real Redis between them. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { apiKey, type Config, ip, rateLimit, slidingWindow, tokenBucket } from "@tidegate/express";
import express from "express";
import request from "supertest";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { findPython } from "../../scripts/python.js";
import { eventually } from "../harness/eventually.ts";
import { faultProxy } from "../harness/fault-proxy.ts";
import { listening, ownRedis, PATIENT, serve } from "../harness/http.ts";
import { callsOf } from "../harness/live.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import {
  type Answer,
  answersTo,
  ask,
  askAll,
  type Asking,
  forgers,
  type Place,
  statusOf,
} from "../proxies/client.ts";
import { proxy } from "../proxies/proxies.ts";

const example = fileURLToPath(new URL("../../examples/fastapi", import.meta.url));
const python = findPython();

if (!python && existsSync("/etc/debian_version"))
  throw new Error("Python has no redis, fastapi and uvicorn: npm test installs them");

beforeEach(({ skip }) => {
  if (!python) skip("no Python here has redis, fastapi and uvicorn");
});

interface Uvicorn {
  readonly port: number;
  readonly place: Place;
  readonly stop: () => Promise<void>;
}

/** Starts an application of Python, and waits until it listens. It dies with this process, however that ends. */
async function uvicorn(app: string, env: Record<string, string>, args: string[] = []): Promise<Uvicorn> {
  const child = spawn(python!, ["-m", "uvicorn", app, "--port", "0", "--no-access-log", ...args], {
    cwd: example,
    env: { ...process.env, PYTHONPATH: example, PYTHONDONTWRITEBYTECODE: "1", ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const guard = endWithUs(child);
  const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const stop = async () => {
    child.kill("SIGKILL");
    await gone;
    guard?.kill("SIGKILL");
  };
  let said = "";
  child.stderr.on("data", (chunk) => (said += chunk));
  const told = () => /running on http:\/\/127\.0\.0\.1:(\d+)/.exec(said)?.[1];
  await eventually("uvicorn listens", () => told() !== undefined || child.exitCode !== null, 30_000);
  const port = Number(told());
  if (port > 0) return { port, place: { host: "127.0.0.1", port }, stop };
  await stop();
  throw new Error(`uvicorn did not start: ${said}`);
}

/** A shell that waits for our end, also by SIGKILL, and then ends the process. */
function endWithUs({ pid }: ChildProcess): ChildProcess | undefined {
  if (pid === undefined) return undefined;
  const guard = spawn("sh", ["-c", `read -r _; kill -9 ${pid}`], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true, // Ctrl-C is for us; the guard goes after.
  });
  guard.on("error", () => {});
  guard.stdin.on("error", () => {});
  guard.unref();
  (guard.stdin as unknown as { unref(): void }).unref();
  return guard;
}

/** One application in Python: each of its places has limits of its own, and all time it needs. */
const APP = `
import os
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse, RedirectResponse
from tidegate import Limit, RateLimit, RedisStore, SlidingWindow, TokenBucket, api_key, first_of, ip

YEARS = 298_000_000_000
app = FastAPI()

def limited(prefix, *limits, by=first_of(api_key("x-api-key"), ip())):
    api = FastAPI()
    store = RedisStore(os.environ["REDIS_URL"], prefix=prefix, timeout_ms=10_000)
    api.add_middleware(RateLimit, store=store, limits=limits, by=by)

    @api.get("/", response_class=PlainTextResponse)
    async def hello():
        return "hello"

    @api.get("/away")
    async def away():
        return RedirectResponse("/")

    @api.get("/stored", response_class=PlainTextResponse)
    async def stored():
        return PlainTextResponse("hello", headers={"RateLimit": "mine", "Cache-Control": "public"})

    app.mount("/" + prefix, api)

limited("race", Limit("burst", TokenBucket(100, 0.0001)), Limit("window", SlidingWindow(100, YEARS)))
limited("bucket", Limit("burst", TokenBucket(10, 1e-7)))
limited("window", Limit("steady", SlidingWindow(3, YEARS)))
limited("costly", Limit("a", TokenBucket(20, 1e-7), cost=3), Limit("b", SlidingWindow(9, YEARS), cost=2))
limited("never", Limit("small", TokenBucket(2, 1e-7), cost=3))

def is_known(text):
    return {"k1": True, "k2": "yes"}[text]

limited("known", Limit("burst", TokenBucket(10, 1e-7)), by=api_key("x-api-key", verify=is_known))
limited("usual", Limit("burst", TokenBucket(10, 5)), Limit("perIp", SlidingWindow(600, 60_000), by=ip()))
`;

/** A window that began in 2026 and ends in 2036: until then what it says does not change. */
const YEARS = 298_000_000_000;

/** What {@link APP} has, in the words of Node. */
const CONFIGS: Record<string, Config["policies"]> = {
  race: {
    burst: tokenBucket({ capacity: 100, refillPerSecond: 0.0001 }),
    window: slidingWindow({ limit: 100, window: YEARS }),
  },
  bucket: { burst: tokenBucket({ capacity: 10, refillPerSecond: 1e-7 }) },
  window: { steady: slidingWindow({ limit: 3, window: YEARS }) },
  costly: {
    a: tokenBucket({ capacity: 20, refillPerSecond: 1e-7, cost: 3 }),
    b: slidingWindow({ limit: 9, window: YEARS, cost: 2 }),
  },
  never: { small: tokenBucket({ capacity: 2, refillPerSecond: 1e-7, cost: 3 }) },
  usual: {
    burst: tokenBucket({ capacity: 10, refillPerSecond: 5 }),
    perIp: slidingWindow({ limit: 600, window: "1m", by: ip() }),
  },
};

let redis: RedisServer;
let folder: string;
let many: Uvicorn;
let shipped: Uvicorn;

beforeAll(async () => {
  if (!python) return;
  folder = mkdtempSync(join(tmpdir(), "tidegate-fastapi-"));
  writeFileSync(join(folder, "many.py"), APP);
  redis = await startRedis();
  const env = { REDIS_URL: redis.url, TIDEGATE_TIMEOUT_MS: "10000", TIDEGATE_PREFIX: "shipped" };
  [many, shipped] = await Promise.all([
    uvicorn("many:app", env, ["--app-dir", folder]),
    uvicorn("app:app", env, ["--proxy-headers", "--forwarded-allow-ips", "127.0.9.1"]),
  ]);
});

afterAll(async () => {
  await Promise.all([many?.stop(), shipped?.stop()]);
  await redis?.stop();
  if (folder) rmSync(folder, { recursive: true });
});

beforeEach(() => redis?.client.flushall());

/** Express with the limits that Python has under this prefix, until the test is over. */
function node(prefix: string): Place {
  const by = apiKey({ header: "x-api-key" }).or(ip());
  const limit = rateLimit({
    redis: redis.url,
    prefix,
    by,
    policies: CONFIGS[prefix]!,
    onEvent: () => {},
    ...PATIENT,
  });
  onTestFinished(() => limit.limiter.close());
  const { port } = listening(serve(express, limit)).address() as AddressInfo;
  return { host: "127.0.0.1", port };
}

/** A request to Python's application of this prefix. */
const toPython = (prefix: string, asking: Asking = {}): Promise<Answer> =>
  ask(many.place, { ...asking, path: `/${prefix}${asking.path ?? "/"}` });

const key = (text: string): Asking => ({ headers: { "x-api-key": text } });

const OURS = ["ratelimit-policy", "ratelimit", "retry-after", "cache-control"];

/** What an answer says of limits, in the order of its fields; of a refusal the type and the body too. */
function told({ status, headers, body }: Answer) {
  const names = status === 429 ? [...OURS, "content-type"] : OURS;
  const fields = Object.entries(headers).filter(([name]) => names.includes(name));
  return { status, fields, body: status === 429 ? body : undefined };
}

it("12 requests against FastAPI are 10 × 200 and 2 × 429", async () => {
  const answers = await askAll(shipped.place, Array<Asking>(12).fill(key("k1")));
  expect(answers.map(statusOf)).toEqual([...Array(10).fill(200), 429, 429]);
  expect(answers[0]!.body).toBe('{"hello":"world"}');
});

describe("a Python and a Node process on one limit of 100", () => {
  it("admit exactly 100 of 150 requests to each at once", async () => {
    const express = node("race");
    const requests = Array.from({ length: 150 }, () => [ask(express, key("k")), toPython("race", key("k"))]);
    const answers = await Promise.all(requests.flat());
    const admitted = answers.filter(({ status }) => status === 200);
    expect(admitted).toHaveLength(100);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(200);
    // Whose request was let in without a decision would say nothing of what is left.
    expect(admitted.every(({ headers }) => headers["ratelimit"])).toBe(true);
    const [window] = await redis.client.keys("race:{*}:window:sw");
    expect((await redis.client.getBuffer(window!))!.readUInt32LE(4)).toBe(100);
  });
});

describe("FastAPI answers to the byte as Express does", () => {
  // Far ends of windows: neither r nor t depends on how long a request takes.
  it.each([
    ["bucket", 12],
    ["window", 4],
    ["costly", 6],
    ["never", 1],
  ])("on its way to a refusal: %s", async (prefix, times) => {
    const byNode = await askAll(node(prefix), Array<Asking>(times).fill(key("node")));
    const byPython: Answer[] = [];
    for (let i = 0; i < times; i++) byPython.push(await toPython(prefix, key("python")));
    expect(byPython.map(told)).toEqual(byNode.map(told));
    expect(byPython.at(-1)!.status).toBe(429);
  });

  it("when Python refuses what Node has spent, and the other way round", async () => {
    const express = node("costly");
    for (let i = 0; i < 4; i++) await ask(express, key("k"));
    const [byNode, byPython] = [told(await ask(express, key("k"))), told(await toPython("costly", key("k")))];
    expect(byPython).toEqual(byNode);
    expect(byPython).toEqual({
      status: 429,
      fields: [
        ["ratelimit-policy", '"a";q=20;w=200000000, "b";q=9;w=298000000'],
        ["ratelimit", '"b";r=1;t=2147483'],
        ["retry-after", "2147483"],
        ["cache-control", "no-store"],
        ["content-type", "application/problem+json"],
      ],
      body: '{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"violated-policies":["b"]}',
    });
  });

  it("by numbers that people use", async () => {
    const express = node("usual");
    // Both are somebody new, at the same time. A second may begin between them, but not every time.
    let i = 1;
    await eventually("both say the same", async () => {
      const from = { from: `127.0.1.${i++}` };
      const byNode = told(await ask(express, { ...from, ...key(`node-${i}`) }));
      await redis.client.flushall();
      const byPython = told(await toPython("usual", { ...from, ...key(`python-${i}`) }));
      expect(byPython.fields[0]).toEqual(["ratelimit-policy", '"burst";q=10;w=2, "perIp";q=600;w=60']);
      return JSON.stringify(byPython) === JSON.stringify(byNode);
    });
  });

  it("and leaves RateLimit out of redirects, and everything out of preflights", async () => {
    const away = await toPython("bucket", { ...key("k"), path: "/away" });
    expect([away.status, told(away).fields]).toEqual([
      307,
      [["ratelimit-policy", '"burst";q=10;w=100000000']],
    ]);
    const preflight = await request(`http://127.0.0.1:${many.port}`)
      .options("/bucket/")
      .set({ "x-api-key": "k", origin: "https://a.example", "access-control-request-method": "GET" });
    expect(OURS.filter((name) => name in preflight.headers)).toEqual([]);
    const next = await toPython("bucket", key("k"));
    expect(next.headers["ratelimit"]).toBe('"burst";r=8;t=2147483');
  });

  it("and lets stand what the application says itself", async () => {
    const { headers } = await toPython("bucket", { ...key("k"), path: "/stored" });
    expect([headers["ratelimit"], headers["cache-control"]]).toEqual(["mine", "public"]);
    expect(headers["ratelimit-policy"]).toBe('"burst";q=10;w=100000000');
  });
});

describe("FastAPI counts who Express counts", () => {
  const keys: [what: string, text: string][] = [
    ["braces", "{user:1}"],
    ["colons", "::burst:tb"],
    ["1 KB", "y".repeat(1024)],
    ["__proto__", "__proto__"],
    ["what looks like a digest", "h.rSGRkjqUGYdt0qs_n2XmJA"],
    ["what is beyond ASCII, as its bytes come", Buffer.from("clé 😀").toString("latin1")],
    ["a digit", "0"],
  ];

  it.each(keys)("by an API key of %s", async (_, text) => {
    const express = node("bucket");
    const answers = [await ask(express, key(text)), await toPython("bucket", key(text))];
    expect(answers.map(({ headers }) => headers["ratelimit"])).toEqual([
      '"burst";r=9;t=2147483',
      '"burst";r=8;t=2147483',
    ]);
    expect(await redis.client.keys("*")).toEqual([
      expect.stringMatching(/^bucket:\{key:[A-Za-z0-9_-]{22}\}:burst:tb$/),
    ]);
  });

  it.each<[what: string, headers: Record<string, string>]>([
    ["no API key", {}],
    ["an empty one", { "x-api-key": "" }],
  ])("by address, with %s", async (_, headers) => {
    const express = node("bucket");
    await ask(express, { headers });
    const { headers: fields } = await toPython("bucket", { headers });
    expect(fields["ratelimit"]).toBe('"burst";r=8;t=2147483');
    expect(await redis.client.keys("*")).toEqual(["bucket:{ip:127.0.0.1}:burst:tb"]);
  });
});

it.each<[what: string, headers: Record<string, string>, counted: string]>([
  ["a key that verify knows counts by itself", { "x-api-key": "k1" }, "key:arnx6499M4j0-dWG9m6Z_Q"],
  ["one that it answers with no real yes, by address", { "x-api-key": "k2" }, "ip:127.0.0.1"],
  ["one that it throws at, by address", { "x-api-key": "k3" }, "ip:127.0.0.1"],
  ["and none, by address", {}, "ip:127.0.0.1"],
])("%s", async (_, headers, counted) => {
  await toPython("known", { headers });
  expect(await redis.client.keys("*")).toEqual([`known:{${counted}}:burst:tb`]);
});

it("after SCRIPT FLUSH the next decision is right, and the text goes along once", async () => {
  await toPython("bucket", key("k"));
  await redis.client.script("FLUSH");
  const before = await callsOf(redis, "eval");
  const answers = [await toPython("bucket", key("k")), await toPython("bucket", key("k"))];
  expect(answers.map(({ headers }) => headers["ratelimit"])).toEqual([
    '"burst";r=8;t=2147483',
    '"burst";r=7;t=2147483',
  ]);
  expect((await callsOf(redis, "eval")) - before).toBe(1);
});

/** What a counter of the application stands at. */
async function counter(place: Place, name: string): Promise<number> {
  const { body } = await ask(place, { path: "/metrics" });
  const line = body.split("\n").find((each) => each.startsWith(`${name} `));
  return Number(line?.slice(name.length) ?? 0);
}

/** Requests that were let pass without a decision. */
const degraded = (place: Place, reason: string): Promise<number> =>
  counter(place, `tidegate_degraded_decisions_total{limiter="rl",rule="open",reason="${reason}"}`);

const LATE = 'tidegate_late_replies_total{limiter="rl",kind="late"}';

const isDecided = ({ headers }: Answer): boolean => headers["ratelimit"] !== undefined;

/** The example's application on a Redis, until the test is over; with 50 ms unless told otherwise. */
async function running(url: string, timeoutMs = "50"): Promise<Place> {
  const { place, stop } = await uvicorn("app:app", { REDIS_URL: url, TIDEGATE_TIMEOUT_MS: timeoutMs });
  onTestFinished(stop);
  return place;
}

describe("When Redis cannot decide", () => {
  it("FastAPI answers 200 within 50 ms and a little, counts it, and nobody is charged later", async () => {
    const server = await ownRedis();
    const place = await running(server.url);
    const decided = async () => isDecided(await ask(place, key("k")));
    await eventually("Redis decides in time", decided, 20_000);
    const [bucket] = await server.client.keys("*:tb");
    const before = await server.client.hgetall(bucket!);
    const timeouts = await degraded(place, "timeout");
    const calls = await callsOf(server, "evalsha");

    server.pause();
    const began = performance.now();
    const answers = await Promise.all(Array.from({ length: 3 }, () => ask(place, key("k"))));
    const took = performance.now() - began;
    expect(answers.map((answer) => [answer.status, told(answer).fields])).toEqual(
      Array(3).fill([200, [["ratelimit-policy", '"burst";q=10;w=100, "perIp";q=600;w=60']]]),
    );
    // The rest is for a busy machine. At 1,550 ms the connection would have been given up.
    expect(took).toBeLessThan(50 + 700);
    expect((await degraded(place, "timeout")) - timeouts).toBe(3);

    server.resume();
    const ran = async () => (await callsOf(server, "evalsha")) - calls === 3;
    await eventually("all three have run in Redis", ran, 20_000);
    expect(await server.client.hgetall(bucket!)).toEqual(before);
    expect(await counter(place, LATE)).toBe(0);
    await eventually("Redis decides again", decided, 20_000);
  });

  it("an answer that comes too late is counted, and is nobody else's", async () => {
    const server = await ownRedis();
    const wire = await faultProxy(server);
    onTestFinished(() => wire.close());
    const place = await running(wire.url, "1000");
    const three = () => Promise.all([1, 2, 3].map((times) => ask(place, key(`k${times}`))));
    // Each key has another number of units left, so a reply that went astray would show.
    for (const times of [1, 2, 3]) await askAll(place, Array<Asking>(times).fill(key(`k${times}`)));
    wire.latency(50); // Three connections, so that none is made below.
    await three();
    wire.latency(700); // There within the deadline, and back after it.
    const late = await three();
    wire.pass();
    expect(late.map((answer) => [answer.status, isDecided(answer)])).toEqual(Array(3).fill([200, false]));
    expect((await three()).map(({ headers }) => headers["ratelimit"]!.slice(0, 11))).toEqual([
      '"burst";r=6',
      '"burst";r=5',
      '"burst";r=4',
    ]);
    await eventually("all three are known of", async () => (await counter(place, LATE)) === 3, 20_000);
  });

  it("a request whose reply is lost is charged once, as nothing is sent again", async () => {
    const server = await ownRedis();
    const wire = await faultProxy(server);
    onTestFinished(() => wire.close());
    const place = await running(wire.url, "10000");
    await ask(place, key("k"));
    wire.dropReplies(1);
    expect(isDecided(await ask(place, key("k")))).toBe(false);
    expect((await ask(place, key("k"))).headers["ratelimit"]).toMatch(/^"burst";r=7;/);
    expect(await degraded(place, "connection")).toBe(1);
  });

  it("a Redis that is not there lets pass at once, and says so in the metric", async () => {
    const gone = await startRedis();
    await gone.stop();
    const place = await running(gone.url, "10000");
    const answers = await askAll(place, Array<Asking>(12).fill(key("k")));
    expect(answers.map(statusOf)).toEqual(Array(12).fill(200));
    expect(await degraded(place, "connection")).toBe(12);
  });

  it("a server whose clock has stepped is asked once more, and charges once", () => {
    const lines = `
import asyncio
from tidegate import Identity, Limit, RedisStore, TokenBucket
from tidegate.policies import Part

async def main():
    store = RedisStore("${redis.url}", timeout_ms=10_000)
    parts = [Part(Limit("burst", TokenBucket(10, 1e-7)), Identity("id", "42"))]
    for server_us in (None, 0, 2**52):
        if server_us is not None:
            now = asyncio.get_running_loop().time()
            store._clock.forget()
            store._clock.learn(now, now, server_us)
        outcome = await store.decide(parts, on_late=lambda: None)
        print(outcome.granted, outcome.words[0])
    await store.close()

asyncio.run(main())
`;
    const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
    const { stdout, stderr } = spawnSync(python!, ["-c", lines], { cwd: example, env, encoding: "utf8" });
    expect(stdout, stderr).toBe("True 9000000\nTrue 8000000\nTrue 7000000\n");
  });
});

describe("Behind a proxy, with --proxy-headers", () => {
  beforeEach(async ({ skip }) => {
    if (!(await answersTo("127.0.9.1"))) skip("this machine has 127.0.0.1 alone");
  });

  const counted = async () =>
    (await redis.client.keys("shipped:*:burst:tb")).map((each) => /\{(.*)\}/.exec(each)![1]!).toSorted();

  it("the proxy's client is counted", async () => {
    const nginx = await proxy("nginx", { at: "127.0.9.1", to: shipped.place });
    for (const from of ["127.0.0.3", "127.0.0.4"]) await ask(nginx, { from });
    expect(await counted()).toEqual(["ip:127.0.0.3", "ip:127.0.0.4"]);
  });

  it("whatever the client writes into X-Forwarded-For", async () => {
    const nginx = await proxy("nginx", { at: "127.0.9.1", to: shipped.place });
    const forged = forgers
      .filter(({ headers }) => typeof headers!["X-Forwarded-For"] === "string")
      .slice(0, 12);
    const answers = await askAll(
      nginx,
      forged.map((asking) => ({ ...asking, from: "127.0.0.3" })),
    );
    expect(answers.map(statusOf)).toEqual([...Array(10).fill(200), 429, 429]);
    expect(await counted()).toEqual(["ip:127.0.0.3"]);
  });

  it("and who comes past the proxy counts by its own address, whatever it writes", async () => {
    const forged = forgers.slice(0, 12).map((asking) => ({ ...asking, from: "127.0.0.5" }));
    const answers = await askAll(shipped.place, forged);
    expect(answers.map(statusOf)).toEqual([...Array(10).fill(200), 429, 429]);
    expect(await counted()).toEqual(["ip:127.0.0.5"]);
  });
});
