import { createServer, get, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { concurrency, type Config, fixedWindow, slidingWindow, tokenBucket } from "@tidegate/core";
import { rateLimit } from "@tidegate/express";
import { rateLimit as fastifyRateLimit } from "@tidegate/fastify";
import { rateLimitOf, type RateLimitTold, testStore } from "@tidegate/core/testing";
import axios from "axios";
import express from "express";
import fastify from "fastify";
import got from "got";
import ky from "ky";
import request from "supertest";
import { Agent, request as undici } from "undici";
import { describe, expect, it, onTestFinished } from "vitest";

const policies = {
  burst: tokenBucket({ capacity: 10, refillPerSecond: 5 }),
  perIp: slidingWindow({ limit: 600, window: "1m" }),
};

/** An application that answers 204, on a port until the test is over. */
async function listening(config: Config): Promise<string> {
  const app = express();
  app.use(rateLimit({ store: testStore(), policies, ...config }));
  app.use((_, res) => void res.status(204).end());
  const server = createServer(app);
  server.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const incoming = (url: string) =>
  new Promise<IncomingMessage>((resolve, reject) => {
    get(url, (response) => resolve(response.resume())).on("error", reject);
  });

const PASSED: RateLimitTold = {
  status: 204,
  policies: [
    { name: "burst", quota: 10, unit: "requests", windowSeconds: 2 },
    { name: "perIp", quota: 600, unit: "requests", windowSeconds: 60 },
  ],
  limits: [
    { name: "burst", remaining: 9, resetSeconds: 2 },
    { name: "perIp", remaining: 599, resetSeconds: 120 }, // Begun at a window's very beginning: it weighs until the next has ended.
  ],
};

describe("rateLimitOf reads a response", () => {
  it.each<[library: string, visit: (url: string) => Promise<object>]>([
    ["fetch", (url) => fetch(url)],
    [
      "supertest",
      (url) =>
        request(url)
          .get("/")
          .then((response) => response),
    ],
    ["node:http", incoming],
    ["axios", (url) => axios.get(url)],
    ["got", (url) => got.get(url).then((response) => response)],
    ["ky", (url) => ky.get(url).then((response) => response)],
    [
      "undici",
      async (url) => {
        const dispatcher = new Agent();
        onTestFinished(() => dispatcher.close());
        return undici(url, { dispatcher });
      },
    ],
  ])("of %s", async (_, visit) => {
    const response = await visit(await listening({}));
    expect(rateLimitOf(response as Response)).toStrictEqual(PASSED);
  });

  it("of Fastify's inject", async () => {
    const app = fastify();
    await app.register(fastifyRateLimit, { store: testStore(), policies });
    app.get("/", (_, reply) => reply.code(204).send());
    expect(rateLimitOf(await app.inject("/"))).toStrictEqual(PASSED);
    await app.close();
  });

  it("that a handler is about to send", async () => {
    const seen: RateLimitTold[] = [];
    const app = express();
    app.use(rateLimit({ store: testStore(), policies }));
    app.use((_, res) => {
      res.status(204);
      seen.push(rateLimitOf(res));
      res.end();
    });
    await request(app).get("/");
    expect(seen).toStrictEqual([PASSED]);
  });

  it("whose fields are in any case, or in several lines", () => {
    const headers = { "RATELIMIT-Policy": ['"a";q=1;w=1', '"b";q=2'], "retry-AFTER": 3 };
    expect(rateLimitOf({ statusCode: 429, headers })).toStrictEqual({
      status: 429,
      policies: [
        { name: "a", quota: 1, unit: "requests", windowSeconds: 1 },
        { name: "b", quota: 2, unit: "requests" },
      ],
      limits: [],
      retryAfter: 3,
    });
  });

  it("without any field of a limiter", () => {
    expect(rateLimitOf(new Response())).toStrictEqual({ status: 200, policies: [], limits: [] });
  });
});

/** The first response of an API with these headers, and the one that is refused. */
async function twice(config: Config): Promise<[RateLimitTold, RateLimitTold]> {
  const url = await listening({ policies: { api: fixedWindow({ limit: 1, window: "1m" }) }, ...config });
  return [rateLimitOf(await fetch(url)), rateLimitOf(await fetch(url))];
}

describe("rateLimitOf reads", () => {
  it("draft-11, with its units and partition keys", async () => {
    const partitionKey = new TextEncoder().encode("here");
    const url = await listening({
      policies: {
        bytes: fixedWindow({ limit: 1000, window: "1m", unit: "content-bytes", cost: 10 }),
        slots: concurrency({ limit: 2 }),
      },
      headers: { partitionKey: () => partitionKey },
    });
    expect(rateLimitOf(await fetch(url))).toStrictEqual({
      status: 204,
      policies: [
        { name: "bytes", quota: 1000, unit: "content-bytes", windowSeconds: 60, partitionKey },
        { name: "slots", quota: 2, unit: "concurrent-requests", partitionKey },
      ],
      limits: [
        { name: "slots", remaining: 1, partitionKey },
        { name: "bytes", remaining: 990, resetSeconds: 60, partitionKey },
      ],
    });
  });

  it("draft-7", async () => {
    const policies = [{ quota: 1, unit: "requests", windowSeconds: 60 }];
    const limits = [{ remaining: 0, quota: 1, resetSeconds: 60 }];
    expect(await twice({ headers: { standard: "draft-7" } })).toStrictEqual([
      { status: 204, policies, limits },
      { status: 429, policies, limits, retryAfter: 60 },
    ]);
  });

  it("draft-6", async () => {
    const policies = [{ quota: 1, unit: "requests", windowSeconds: 60 }];
    const limits = [{ remaining: 0, quota: 1, resetSeconds: 60 }];
    expect(await twice({ headers: { standard: "draft-6" } })).toStrictEqual([
      { status: 204, policies, limits },
      { status: 429, policies, limits, retryAfter: 60 },
    ]);
  });

  it("X-RateLimit, whose reset is a moment of the virtual clock", async () => {
    const limits = [{ remaining: 0, quota: 1, resetAt: Date.UTC(2026, 0, 1, 0, 1) / 1000 }];
    expect(await twice({ headers: { standard: false, x: true, retryAfter: false } })).toStrictEqual([
      { status: 204, policies: [], limits },
      { status: 429, policies: [], limits },
    ]);
  });

  it("the newest form where there are two", async () => {
    const [{ limits }] = await twice({ headers: { x: true } });
    expect(limits).toStrictEqual([{ name: "api", remaining: 0, resetSeconds: 60 }]);
  });

  it("nothing where headers are off", async () => {
    expect(await twice({ headers: { standard: false } })).toStrictEqual([
      { status: 204, policies: [], limits: [] },
      { status: 429, policies: [], limits: [], retryAfter: 60 },
    ]);
  });
});

describe("rateLimitOf fails", () => {
  it.each<[name: string, field: string, fault: string]>([
    ["RateLimit", '"a"', "a member has no r"],
    ["RateLimit", '"a";r=-1', "r is a whole number from 0, and not -1"],
    ["RateLimit", '"a";r=1.5', "r is a whole number from 0, and not 1.5"],
    ["RateLimit", '"a";r', "r is a whole number from 0, and not true"],
    ["RateLimit", '"a";r=1;t="2"', 't is a whole number from 0, and not "2"'],
    ["RateLimit", '("a" "b");r=1', "a list in a list is no policy"],
    ["RateLimit", "7;r=1", "a policy's name is a string in double quotes, and not the integer 7"],
    ["RateLimit", "limit=1, reset=2", "a member has no remaining"],
    [
      "RateLimit",
      '"a";r=1,',
      "character 9 should begin another member after the comma, and there is the end",
    ],
    ["RateLimit-Policy", '"a";w=1', "a member has no q"],
    ["RateLimit-Policy", "a;q=1", 'a policy\'s name is a string in double quotes, and not the token "a"'],
    [
      "RateLimit-Policy",
      '"a";q=1;qu=requests',
      'qu is a string in double quotes, and not the token "requests"',
    ],
    ["RateLimit-Policy", '"a";q=1;pk="x"', 'pk is bytes between colons, and not the string "x"'],
    ["RateLimit-Remaining", "many", "it is a whole number from 0"],
    ["X-RateLimit-Remaining", "-1", "it is a whole number from 0"],
    [
      "Retry-After",
      "Thu, 01 Jan 2026 00:01:00 GMT",
      "tests read whole seconds, which do not depend on this machine's clock",
    ],
  ])("at %s: %s", (name, field, fault) => {
    expect(() => rateLimitOf({ status: 200, headers: { [name]: field } })).toThrow(
      expect.objectContaining({
        name: "AssertionError",
        code: "ERR_ASSERTION",
        message: `${name} is not as its draft writes it: ${fault}. It holds: ${field}`,
        actual: field,
        operator: "rateLimitOf",
      }),
    );
  });

  it.each<[what: string, value: unknown, message: string]>([
    [
      "nothing",
      undefined,
      "response: give a response with status or statusCode, and headers, got undefined.",
    ],
    ["a text", "429", 'response: give a response with status or statusCode, and headers, got "429".'],
    [
      "a response without a status",
      { headers: {} },
      "response: give a response with status or statusCode, and headers, got an object (Object).",
    ],
    [
      "a response without headers",
      { status: 200 },
      "response: give a response with status or statusCode, and headers, got an object (Object).",
    ],
    [
      "a promise of a response",
      Promise.resolve(new Response()),
      "response: this is a promise: await it first, got an object (Promise).",
    ],
  ])("at %s", (_, value, message) => {
    expect(() => rateLimitOf(value as Response)).toThrow(
      expect.objectContaining({ name: "ConfigError", code: "TIDEGATE_OPTION_INVALID", message, value }),
    );
  });
});
