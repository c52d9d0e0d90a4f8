/** What scripts of a page can read across origins, and what the preflights before their requests do to a quota. */
import { type Config, fixedWindow, memoryStore } from "@tidegate/core";
import { JSDOM, VirtualConsole } from "jsdom";
import { request } from "undici";
import { describe, expect, it, onTestFinished } from "vitest";
import { fakeClock } from "../harness/clock.ts";
import { type Api, type FrameworkName, frameworks, startApi } from "./servers.ts";

const PAGE = "https://app.example";
/** Of a middleware in front of the limiter. */
const CORS = {
  "Access-Control-Allow-Origin": PAGE,
  "Access-Control-Allow-Headers": "x-client",
  "Access-Control-Expose-Headers": "X-Request-Id",
  "X-Request-Id": "42",
};

/** As browsers ask before a GET with `x-client`. */
const PREFLIGHT = {
  origin: PAGE,
  "access-control-request-method": "GET",
  "access-control-request-headers": "x-client",
};

/** An API that has one request for everybody, and then none for an hour. */
async function onceAnHour(framework: FrameworkName, config: Partial<Config>): Promise<Api> {
  const store = memoryStore({ nowUs: fakeClock().now });
  const policies = { once: fixedWindow({ limit: 1, window: "1h" }) };
  const api = await startApi(framework, { store, policies, ...config }, CORS);
  onTestFinished(() => api.close());
  return api;
}

/** What a script sees of an answer. A network error has status 0 and nothing to read. */
interface Seen {
  readonly status: number;
  readonly fields: Readonly<Record<string, string | null>>;
  readonly body: string;
}

const ASKED = ["Retry-After", "RateLimit", "RateLimit-Policy", "X-Request-Id"];
const none = Object.fromEntries(ASKED.map((name) => [name, null]));
const PROBLEM =
  '{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"violated-policies":["once"]}';

/** A page of {@link PAGE}, and its way to ask another origin. */
function openPage(): (url: string, headers?: Record<string, string>) => Promise<Seen> {
  // jsdom writes network errors to a console; this one goes nowhere.
  const { window } = new JSDOM("", { url: `${PAGE}/`, virtualConsole: new VirtualConsole() });
  onTestFinished(() => window.close());
  return (url, headers = {}) =>
    new Promise((resolve) => {
      const xhr = new window.XMLHttpRequest();
      xhr.open("GET", url);
      for (const [name, value] of Object.entries(headers)) xhr.setRequestHeader(name, value);
      xhr.onloadend = () =>
        resolve({
          status: xhr.status,
          fields: Object.fromEntries(ASKED.map((name) => [name, xhr.getResponseHeader(name)])),
          body: xhr.responseText,
        });
      xhr.send();
    });
}

const seenBy = ({ visits }: Api) => visits.map(({ method, status }) => `${method} ${status}`);

describe.each(frameworks)("A page of another origin than its API in %s", (framework) => {
  it("reads a refusal's fields and body where headers.expose is on", async () => {
    const { url } = await onceAnHour(framework, { headers: { expose: true } });
    const ask = openPage();
    expect((await ask(url)).status).toBe(200);
    expect(await ask(url)).toEqual({
      status: 429,
      fields: {
        "Retry-After": "3600",
        RateLimit: '"once";r=0;t=3600',
        "RateLimit-Policy": '"once";q=1;w=3600',
        "X-Request-Id": "42",
      },
      body: PROBLEM,
    });
  });

  it("reads status and body of a refusal, and none of our fields, where headers.expose is off", async () => {
    const { url } = await onceAnHour(framework, {});
    const ask = openPage();
    expect((await ask(url)).status).toBe(200);
    expect(await ask(url)).toEqual({
      status: 429,
      fields: { ...none, "X-Request-Id": "42" },
      body: PROBLEM,
    });
  });

  it("is charged for its request and not for the preflight, and gets a readable refusal after another", async () => {
    const api = await onceAnHour(framework, { headers: { expose: true } });
    const ask = openPage();
    const first = await ask(api.url, { "x-client": "page" });
    const second = await ask(api.url, { "x-client": "page" });
    expect(first).toMatchObject({ status: 200, fields: { RateLimit: '"once";r=0;t=3600' }, body: "hello" });
    expect(second).toMatchObject({ status: 429, fields: { "Retry-After": "3600" }, body: PROBLEM });
    expect(seenBy(api)).toEqual(["OPTIONS 204", "GET 200", "OPTIONS 204", "GET 429"]);
  });

  it("is answered a preflight without anything of ours, spent quota or not", async () => {
    const { url } = await onceAnHour(framework, { headers: { expose: true } });
    for (const status of [200, 429]) {
      const { statusCode, headers } = await request(url, { method: "OPTIONS", headers: PREFLIGHT });
      expect(statusCode).toBe(204);
      expect(headers["access-control-expose-headers"]).toBe("X-Request-Id");
      expect(Object.keys(headers).filter((name) => /ratelimit|retry-after/.test(name))).toEqual([]);
      expect((await openPage()(url)).status).toBe(status);
    }
  });

  it("gets a network error and nothing to read where preflights count and none is left", async () => {
    const api = await onceAnHour(framework, { preflights: "count" });
    const ask = openPage();
    expect((await ask(api.url, { "x-client": "page" })).status).toBe(429);
    expect(await ask(api.url, { "x-client": "page" })).toEqual({ status: 0, fields: none, body: "" });
    expect(seenBy(api)).toEqual(["OPTIONS 204", "GET 429", "OPTIONS 429"]);
  });
});
