/** What docs/headers.md, docs/identity.md and docs/routes.md show: every block is run, every answer and table asked for. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type IncomingMessage, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import Router from "@koa/router";
import {
  apiKey,
  type By,
  type Check,
  concurrency,
  type Config,
  createLimiter,
  fixedWindow,
  gcra,
  globally,
  type HeaderOptions,
  ioredisClient,
  ip,
  ipOf,
  type Limiter,
  memoryStore,
  type Policy,
  rateLimit,
  redisStore,
  type Refusal,
  route,
  slidingLog,
  slidingWindow,
  tenant,
  tokenBucket,
  user,
} from "@tidegate/express";
import { rateLimit as fastifyLimit } from "@tidegate/fastify";
import { rateLimit as koaLimit } from "@tidegate/koa";
import express, {
  type Express,
  type Request,
  type RequestHandler,
  type Response,
  Router as ExpressRouter,
} from "express";
import express4 from "express4";
import fastify, { type FastifyInstance } from "fastify";
import Koa, { type Context, type Middleware } from "koa";
import { parseRateLimit } from "ratelimit-header-parser";
import { afterAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { clients } from "../clients/clients.ts";
import { type FakeClock, fakeClock } from "../harness/clock.ts";
import {
  byNetworks,
  everyFramework,
  NETWORK,
  ours,
  serve,
  type Trust,
  unixSocket,
  type Way,
} from "../proxies/apps.ts";
import {
  answersTo,
  askAll,
  forgers,
  type Place,
  skip,
  statusOf,
  THREE,
  threeClients,
} from "../proxies/client.ts";
import { APPENDS, chain, proxy, type ProxyName } from "../proxies/proxies.ts";
import { type Block, blocksOf, read, root, sectionOf, tablesOf } from "./markdown.ts";

const PAGES = ["docs/headers.md", "docs/identity.md", "docs/routes.md"];
const [HEADERS, IDENTITY, ROUTES] = PAGES.map(read) as [string, string, string];
const MINUTE = { limit: 100, window: "1m" } as const;

type Row = Record<string, string>;

/** A block of a page, with the heading above it. */
interface Shown extends Block {
  readonly name: string;
}

/** Named by page, heading and place below it, from 1. */
const shown = (language: string): Shown[] =>
  PAGES.flatMap((page) => {
    const places = new Map<string, number>();
    return blocksOf(read(page))
      .filter((block) => block.language === language)
      .map((block) => {
        const heading = headingAbove(page, block.line);
        const place = (places.get(heading) ?? 0) + 1;
        places.set(heading, place);
        return { ...block, name: `${basename(page)}: ${heading} ${place}` };
      });
  });

function headingAbove(page: string, line: number): string {
  const above = read(page)
    .replace(/^```[^]*?^```$/gm, (code) => code.replace(/^#/gm, " "))
    .split("\n")
    .slice(0, line);
  return above.findLast((text) => /^#+ /.test(text))!.replace(/^#+ /, "");
}

/** A store that notes the keys it is asked about, in the time of a test. */
function countingStore(clock: FakeClock, keys: string[]) {
  const store = memoryStore({ nowUs: clock.now });
  onTestFinished(() => store.close());
  const decide: typeof store.decide = (batch: readonly Check[], done) => {
    for (const check of batch) keys.push(...check.keys);
    store.decide(batch, done);
  };
  return { ...store, decide };
}

const identityIn = (key: string): string => /^rl:\{(.*)\}/.exec(key)![1]!;

/** An application that is being asked, until the test is over. */
interface Site {
  readonly place: Place;
  readonly clock: FakeClock;
  /** Of every decision, in turn. */
  readonly keys: readonly string[];
  /** What the block declares, by name. */
  readonly made: Readonly<Record<string, unknown>>;
}

interface Given {
  /** Stands for what the block's preamble only declares. */
  readonly values?: Readonly<Record<string, unknown>>;
  /** Changes what cannot be so in a test, such as networks. */
  readonly rewrite?: (text: string) => string;
  readonly before?: (app: Express) => void;
}

type App = Express | FastifyInstance | Koa;

const folder = mkFolder();
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function mkFolder(): string {
  mkdirSync(join(root, ".cache"), { recursive: true });
  return mkdtempSync(join(root, ".cache/http-pages-"));
}

/** Codes of the warnings that went to the process, as nobody listened. */
let warnings: unknown[] = [];
beforeEach(() => {
  warnings = [];
  const spy = vi.spyOn(process, "emitWarning");
  spy.mockImplementation((_message, options) => void warnings.push((options as { code?: string }).code));
  return () => spy.mockRestore();
});

const GIVEN = Symbol.for("tidegate.docs");
let modules = 0;

/** Runs a block as it stands, but for its Redis: a store of the test's own time stands in for it. */
async function build(
  name: string,
  { values = {}, rewrite = (text) => text, before }: Given = {},
): Promise<Site> {
  const block = shown("ts").find((each) => each.name === name)!;
  const clock = fakeClock();
  const keys: string[] = [];
  const app = freshApp(block);
  before?.(app as Express);
  const given = { app, store: countingStore(clock, keys), ...values };
  Object.assign(globalThis, { [GIVEN]: given });
  const file = join(folder, `block-${modules++}.ts`);
  writeFileSync(file, moduleOf({ ...block, text: rewrite(block.text) }));
  const { made } = (await import(/* @vite-ignore */ file)) as { made: Record<string, unknown> };
  const place = await listening((made["app"] as App | undefined) ?? app);
  return { place, clock, keys, made };
}

const DECLARED = /declare const (\w+): [^;]*;/g;
const taken = (name: string) => `const ${name} = given.${name};`;

function moduleOf({ preamble, text }: Block): string {
  const names = [...text.matchAll(/^const (\w+)/gm)].map(([, name]) => name);
  return [
    `const given = (globalThis as any)[Symbol.for("tidegate.docs")];`,
    preamble.replace(DECLARED, (_, name: string) => taken(name)),
    text.replaceAll("redis: process.env.REDIS_URL", "store: given.store"),
    `export const made = { ${names.join(", ")} };`,
  ].join("\n");
}

function freshApp({ preamble, text }: Block): App {
  const code = preamble + text;
  if (code.includes("@tidegate/koa")) return new Koa();
  return code.includes("@tidegate/fastify") ? fastify() : express();
}

/** Says hello to whoever passes and is not answered by a route. */
async function listening(app: App): Promise<Place> {
  if ("register" in app) {
    app.all("/*", () => "hello");
    await app.listen({ port: 0, host: "127.0.0.1" });
    onTestFinished(() => app.close());
    return placeOf(app.server);
  }
  if ("callback" in app) app.use((ctx) => void (ctx.body ??= "hello"));
  else app.use((_req, res) => void res.send("hello"));
  return placeOf(await once(app.listen(0, "127.0.0.1") as Server));
}

const once = (server: Server): Promise<Server> =>
  new Promise((resolve) => server.once("listening", () => resolve(server)));

function placeOf(server: Server): Place {
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { host: "127.0.0.1", port: (server.address() as AddressInfo).port };
}

interface Answer {
  readonly status: number;
  readonly reason: string;
  /** By names in lower case. */
  readonly fields: Readonly<Record<string, string>>;
  readonly body: string;
}

interface Asking {
  readonly method?: string;
  readonly headers?: Record<string, string | number>;
}

/** Sends the head of one request: a body, however long its length says it is, is never sent. */
function ask(
  { place }: Pick<Site, "place">,
  path = "/",
  { method = "GET", headers = {} }: Asking = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request({ ...place, path, method, headers, agent: false }, (response: IncomingMessage) => {
      let body = "";
      response.on("data", (chunk) => (body += chunk));
      response.on("end", () => {
        asked.destroy();
        resolve({
          status: response.statusCode!,
          reason: response.statusMessage!,
          fields: response.headers as Answer["fields"],
          body,
        });
      });
    });
    asked.on("error", reject);
    if ("content-length" in headers) asked.flushHeaders();
    else asked.end();
  });
}

async function asks(
  count: number,
  site: Pick<Site, "place">,
  path = "/",
  how: Asking = {},
): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (let i = 0; i < count; i++) answers.push(await ask(site, path, how));
  return answers;
}

const statuses = (answers: readonly Answer[]) => answers.map(({ status }) => status);
const last = <T>(list: readonly T[]): T => list.at(-1)!;
const policyIn = ({ fields }: Answer) => fields["ratelimit-policy"];
const stateIn = ({ fields }: Answer) => fields["ratelimit"];

const OURS = [
  "ratelimit-policy",
  "ratelimit",
  "retry-after",
  "cache-control",
  "access-control-expose-headers",
];
const LEGACY = ["limit", "remaining", "reset"].flatMap((part) => [
  `ratelimit-${part}`,
  `x-ratelimit-${part}`,
]);

/** Our fields of an answer, as `name: value`. */
const linesOf = ({ fields }: Answer, names = [...OURS, ...LEGACY]): string[] =>
  names.flatMap((name) => (name in fields ? [`${name}: ${fields[name]}`] : [])).toSorted();

const lowerName = (line: string): string => line.replace(/^[^:]*/, (name) => name.toLowerCase());

/** Serves a limiter without any block. */
async function limited(
  config: Config,
  before?: (app: Express) => void,
): Promise<Site & { limiter: Limiter }> {
  const clock = fakeClock();
  const keys: string[] = [];
  const app = express();
  before?.(app);
  const limit = rateLimit({ store: countingStore(clock, keys), timeoutMs: 10_000, ...config });
  app.use(limit);
  return { place: await listening(app), clock, keys, made: {}, limiter: limit.limiter };
}

/** Middleware in front of the limiter. */
const early =
  (act: (req: Request, res: Response) => unknown) =>
  (app: Express): void =>
    void app.use((req, res, next) => {
      act(req, res);
      next();
    });

const POST = { method: "POST" };
const knownKey = { isKnownKey: async (key: string) => key.startsWith("real") };
const key = (value: string): Asking => ({ headers: { "x-api-key": value } });

/** What each block does, by its name. */
const CHECKS: Record<string, (name: string) => Promise<void>> = {
  async "headers.md: Header fields 1"(name) {
    expect(statuses(await asks(21, await build(name)))).toEqual([...Array(20).fill(200), 429]);
  },

  async "headers.md: Partition keys 1"(name) {
    const answer = await ask(await build(name), "/upload", { headers: { "content-length": 1000 } });
    expect(stateIn(answer)).toMatch(/^"upload";r=65535000;t=10;pk=:/);
  },

  async "headers.md: Pages of another origin 1"(name) {
    const site = await build(name);
    const preflight = { origin: "https://app.example", "access-control-request-method": "GET" };
    const answers = await asks(101, site, "/", { method: "OPTIONS", headers: preflight });
    expect(answers.filter(({ status }) => status === 429)).toEqual([]);
    const counted = await asks(101, site, "/", { method: "OPTIONS" });
    expect(last(counted)).toMatchObject({
      status: 429,
      fields: { "access-control-allow-origin": "https://app.example" },
    });
  },

  async "headers.md: Several limiters on one request 1"(name) {
    const site = await build(name);
    const answers = await asks(11, site, "/search");
    expect(last(answers)).toMatchObject({ status: 429, fields: { ratelimit: '"search";r=0;t=60' } });
    // Both refusals and grants were charged by the first.
    expect(stateIn(await ask(site))).toBe('"api";r=88;t=60');
  },

  async "headers.md: Caches 1"(name) {
    const site = await build(name, { values: { prices: { tea: 3 } } });
    const { fields, body } = await ask(site, "/prices");
    expect(body).toBe('{"tea":3}');
    expect(linesOf({ fields } as Answer)).toEqual([
      "cache-control: public, max-age=60",
      'ratelimit-policy: "default";q=100;w=60',
    ]);
    expect(last(await asks(100, site, "/prices")).fields["cache-control"]).toBe("no-store");
  },

  async "headers.md: An answer of your own 1"(name) {
    const answers = await asks(101, await build(name));
    expect(last(answers)).toMatchObject({ status: 429, body: '{"error":"rate_limited"}' });
  },

  async "headers.md: An answer of your own 2"(name) {
    expect(JSON.parse(last(await asks(101, await build(name))).body)).toEqual({
      type: "https://api.example/problems/slow-down",
      title: "Again in 60 s",
      status: 429,
      "violated-policies": ["api"],
    });
    const denied = await build(name, {
      rewrite: (text) => text.replace("onLimited", 'deny: ["127.0.0.1"], onLimited'),
    });
    expect(JSON.parse((await ask(denied)).body).title).toBe("Abnormal Usage Detected");
  },

  "headers.md: An answer of your own 3": answersItself,
  "headers.md: An answer of your own 4": answersItself,
  "headers.md: An answer of your own 5": answersItself,

  async "identity.md: Who is counted 1"(name) {
    const site = await build(name, { values: knownKey });
    await ask(site, "/", key("real-1"));
    await ask(site, "/", key("invented"));
    await ask(site);
    const [burst, perIp, ...others] = site.keys;
    expect(burst).toMatch(/^rl:\{key:[\w-]{22}\}:burst:tb$/);
    const local = ["rl:{ip:127.0.0.1}:burst:tb", "rl:{ip:127.0.0.1}:perIp:sw"];
    expect([perIp, ...others]).toEqual([local[1], ...local, ...local]);
  },

  async "identity.md: Invented keys 1"(name) {
    const isKnownKey = vi.fn<(key: string) => Promise<boolean>>(async () => false);
    const site = await build(name, {
      values: { isKnownKey },
      rewrite: (text) => text.replace("limit: 600", "limit: 3"),
    });
    for (let i = 0; i < 9; i++) await ask(site, "/", key(`invented-${i}`));
    expect(isKnownKey).toHaveBeenCalledTimes(3);
  },

  async "identity.md: Users and tenants 1"(name) {
    const users: Record<string, string> = { a: "42" };
    const sessionOf = async (req: IncomingMessage) => {
      const userId = users[String(req.headers["x-session"])];
      return userId === undefined ? undefined : { userId };
    };
    const site = await build(name, { values: { sessionOf } });
    await ask(site, "/", { headers: { "x-session": "a" } });
    await ask(site, "/", { headers: { "x-session": "none" } });
    expect(site.keys.map(identityIn)).toEqual(["user:42", "ip:127.0.0.1"]);
  },

  async "identity.md: Functions of your own 1"(name) {
    const customerOf = (req: IncomingMessage) => req.headers["x-customer"];
    const site = await build(name, { values: { customerOf } });
    await ask(site, "/", { headers: { "x-customer": "acme" } });
    await ask(site);
    expect(site.keys.map(identityIn)).toEqual(["tenant:acme", "ip:127.0.0.1"]);
  },

  "identity.md: Proxies 1": behindNginx,
  "identity.md: Proxies 2": behindNginx,
  "identity.md: Proxies 3": behindNginx,

  async "identity.md: CDNs 1"(name) {
    await needsLoopback();
    const site = await build(name, { values: { networksOfTheCdn: ["127.0.9.1"] } });
    const cdn = await proxy("nginx", { at: "127.0.9.1", to: site.place, rules: NAMES_CLIENT });
    await askAll(cdn, threeClients);
    await askAll(site.place, lies);
    expect(new Set(site.keys.map(identityIn))).toEqual(new Set(THREE));
  },

  async "identity.md: Allow and deny 1"(name) {
    const site = await build(name, { before: (app) => void app.set("trust proxy", 1) });
    const seen = [];
    for (const client of [
      "203.0.113.7",
      "2001:db8:1::7",
      "203.0.113.66",
      "::ffff:198.51.100.1",
      "192.0.2.1",
    ]) {
      const answer = await ask(site, "/", { headers: { "x-forwarded-for": client } });
      seen.push([client, answer.status, policyIn(answer) !== undefined]);
    }
    expect(seen).toEqual([
      ["203.0.113.7", 200, false],
      ["2001:db8:1::7", 200, false],
      ["203.0.113.66", 429, true],
      ["::ffff:198.51.100.1", 429, true],
      ["192.0.2.1", 200, true],
    ]);
    expect(site.keys.map(identityIn)).toEqual(["ip:192.0.2.1"]);
  },

  async "routes.md: Routes 1"(name) {
    const site = await build(name, { values: knownKey });
    const states = async (method: string, path: string) => stateIn(await ask(site, path, { method }));
    expect(await states("POST", "/login?next=/")).toBe('"login";r=4;t=900, "burst";r=9;t=2');
    expect(await states("GET", "/search")).toBe('"burst";r=4;t=1');
    expect(await states("GET", "/health")).toBeUndefined();
    expect(await states("POST", "/health")).toBe('"burst";r=3;t=1');
    expect(await states("HEAD", "/admin/a/b")).toBe('"burst";r=2;t=1');
  },

  async "routes.md: What counts where 1"(name) {
    const site = await build(name);
    const seen = [];
    for (const path of ["/send-code", "/resend-code", "/send-code", "/resend-code"])
      seen.push((await ask(site, path, POST)).status);
    expect(seen).toEqual([200, 200, 200, 429]);
    expect(new Set(site.keys)).toEqual(new Set(["rl:{ip:127.0.0.1}:otp.codes:fw"]));
  },

  async "routes.md: A budget for each route 1"(name) {
    const site = await build(name, {
      before: early((req) => Object.assign(req, { tenant: "acme" })),
      rewrite: (text) => text.replace("limit: 1000", "limit: 2"),
    });
    expect(statuses(await asks(3, site, "/search?q=a"))).toEqual([200, 200, 429]);
    for (const path of ["/login", "/webhooks/stripe"]) expect((await ask(site, path, POST)).status).toBe(200);
    expect(stateIn(await ask(site, "/webhooks/github", POST))).toMatch(/r=0/);
  },

  async "routes.md: Where a route is declared 1"(name) {
    const site = await build(name);
    expect(statuses(await asks(6, site, "/login", POST))).toEqual([...Array(5).fill(200), 429]);
    const free = await ask(site, "/health");
    expect([free.body, policyIn(free)]).toEqual(["up", undefined]);
    expect(policyIn(await ask(site))).toBe('"default";q=100;w=60');
  },

  async "routes.md: Adding a policy 1"(name) {
    const site = await build(name, { values: { login: hello } });
    const answers = await asks(6, site, "/login", POST);
    expect(statuses(answers)).toEqual([...Array(5).fill(200), 429]);
    expect(last(answers).fields["ratelimit"]).toBe('"login";r=0;t=900');
    expect(stateIn(await ask(site))).toBe('"api";r=93;t=60');
  },
};

/** All of 127.0.0.0/8 is this machine's, on Linux. */
async function needsLoopback(): Promise<void> {
  if (!(await answersTo("127.0.0.2"))) skip("this machine has no 127.0.0.2");
}

/** One client's request in another's name, to whoever believes one of these fields. */
const naming = (address: string) => ({
  from: "127.0.0.2",
  headers: { "X-Forwarded-For": address, "CF-Connecting-IP": address },
});
const lies = Array.from({ length: 6 }, (_, i) => naming(`198.51.100.${i}`));

/** As a CDN does: over whatever the client wrote. */
const NAMES_CLIENT = `${APPENDS.nginx} proxy_set_header CF-Connecting-IP $remote_addr;`;

const hello = (_req: unknown, res: { send(body: string): void }) => res.send("hello");

async function answersItself(name: string): Promise<void> {
  const { status, fields, body } = last(await asks(101, await build(name)));
  expect([status, body, fields["content-type"], fields["cache-control"]]).toEqual([
    429,
    '{"error":"rate_limited"}',
    "application/json; charset=utf-8",
    "no-store",
  ]);
  expect(fields).toMatchObject({
    "ratelimit-policy": '"default";q=100;w=60',
    ratelimit: expect.stringMatching(/^"default";r=0;t=\d+$/),
  });
}

async function behindNginx(name: string): Promise<void> {
  await needsLoopback();
  const site = await build(name, {
    rewrite: (text) => text.replace('["10.0.0.0/8"]', JSON.stringify(NETWORK)),
  });
  await askAll(await chain(site.place, "nginx", "haproxy"), threeClients);
  expect(site.keys.map(identityIn)).toEqual(THREE);
  await askAll(await chain(site.place, "nginx"), forgers.slice(0, 8));
  expect(warnings).toEqual([]);

  await askAll(site.place, forgers.slice(0, 8));
  expect(new Set(site.keys.map(identityIn))).toEqual(new Set(THREE));
}

/** Where a test comes past the proxy, from a private address, and writes the proxy's field. */
const WARNED = [
  "identity.md: CDNs 1",
  "identity.md: Proxies 1",
  "identity.md: Proxies 2",
  "identity.md: Proxies 3",
];

describe("Every block of", () => {
  it.each(shown("ts"))("$name does what the page says, without a warning", async ({ name }) => {
    await CHECKS[name]!(name);
    expect(warnings).toEqual(WARNED.includes(name) ? ["TIDEGATE_FORWARDED_UNTRUSTED"] : []);
  });
});

/** How each answer that is shown comes about, by the comment above it. */
const ANSWERS: Record<string, () => Promise<Answer>> = {
  "the 17th": async () => last(await asks(17, await build("headers.md: Header fields 1"))),
  "the 21st": async () => last(await asks(21, await build("headers.md: Header fields 1"))),
  "an upload of 45,536,000 bytes": async () =>
    ask(await build("headers.md: Partition keys 1"), "/upload", {
      headers: { "content-length": 45_536_000 },
    }),
  exposed: async () => ask(await build("headers.md: Pages of another origin 1")),
  "a search": async () => ask(await build("headers.md: Several limiters on one request 1"), "/search"),
  "an answer of one's own": async () =>
    last(await asks(101, await build("headers.md: An answer of your own 1"))),
  "the first login": async () =>
    ask(await build("routes.md: Adding a policy 1", { values: { login: hello } }), "/login", POST),
};

describe("Every answer that is shown comes so:", () => {
  it.each(shown("http"))("$preamble ($name)", async ({ preamble, text }) => {
    const [head, body] = text.trim().split("\n\n") as [string, string?];
    const [line, ...fields] = head.split("\n");
    const { status, reason, ...answer } = await ANSWERS[preamble]!();
    expect(`HTTP/1.1 ${status} ${reason}`).toBe(line);
    for (const field of fields) {
      const [name, value] = field.split(": ") as [string, string];
      expect(answer.fields[name.toLowerCase()], name).toBe(value);
    }
    const told = linesOf({ status, reason, ...answer }).map((each) => each.split(":")[0]!);
    expect(fields.map((field) => field.split(":")[0]!.toLowerCase())).toEqual(expect.arrayContaining(told));
    if (body !== undefined) expect(answer.body).toBe(body);
  });
});

const makers = { concurrency, fixedWindow, gcra, slidingLog, slidingWindow, tokenBucket };

/** What a page writes as a call or an object, with values of JSON. */
const json = (text: string): unknown =>
  JSON.parse(text.replaceAll(/([{,]\s*)(\w+):/g, '$1"$2":').replaceAll(/(\d)_(\d)/g, "$1$2"));

function policyOf(text: string): Policy {
  const [, maker, options] = /^(\w+)\((.*)\)$/.exec(text)!;
  return makers[maker as keyof typeof makers](json(options!) as never);
}

describe("docs/headers.md", () => {
  it.each(tablesOf(sectionOf(HEADERS, "What w and t promise"))[0]!)(
    "$policy is told of as shown",
    async ({ policy, "RateLimit-Policy": q, RateLimit: r }) => {
      const answer = await ask(await limited({ policies: { p: policyOf(policy!) } }));
      expect([policyIn(answer), stateIn(answer)]).toEqual([`"p";${q}`, `"p";${r}`]);
    },
  );

  it.each([
    ["a token bucket", 0, tokenBucket({ capacity: 10, refillPerSecond: 3 }), 4],
    ["gcra", 0, gcra({ limit: 100, window: "1m", burst: 20 }), 12],
    ["a fixed window", 0, fixedWindow({ limit: 7, window: "10s" }), 10],
    ["a fixed window by the clock", 0, fixedWindow({ limit: 7, window: "10s", align: "clock" }), 10],
    ["a sliding log", 0, slidingLog({ limit: 7, window: "10s" }), 10],
    ["a sliding window", 347, slidingWindow({ limit: 5, window: "10s" }), 10],
    ["a sliding window, in twice w,", 0, slidingWindow({ limit: 5, window: "10s" }), 20],
  ])("%s refuses %i of 1500 requests of q units in any w seconds", async (_, refusals, policy, seconds) => {
    expect(await refusalsOfObedient(policy, seconds * 1000)).toBe(refusals);
  });

  it("a sliding window refuses the last of 5 that come 10.05 s after 5 at a window's end", async () => {
    const clock = fakeClock(0);
    const limiter = ofOne(slidingWindow({ limit: 5, window: "10s" }), clock);
    const allowed = [];
    for (const at of [...Array(5).fill(9900), ...Array(5).fill(19_950)]) {
      clock.set(at);
      allowed.push((await limiter.decide({ identity: "somebody" })).allowed);
    }
    expect(allowed).toEqual([...Array(9).fill(true), false]);
  });

  it.each([
    ["a token bucket", tokenBucket({ capacity: 10, refillPerSecond: 3 })],
    ["gcra", gcra({ limit: 100, window: "1m", burst: 20 })],
    ["a fixed window", fixedWindow({ limit: 7, window: "10s" })],
    ["a sliding log", slidingLog({ limit: 7, window: "10s" })],
    ["a sliding window", slidingWindow({ limit: 5, window: "10s" })],
  ])("%s lets r units pass within t, and r in t is no higher rate than q in w", async (_, policy) => {
    const site = await limited({ policies: { p: policy } });
    for (const gap of [0, 0, 900, 0, 2300, 0, 0, 0, 4100, 0, 12_000, 0, 0]) {
      site.clock.advance(gap);
      const answer = await ask(site);
      if (answer.status === 429) continue;
      const [, q, w] = /;q=(\d+);w=(\d+)/.exec(policyIn(answer)!)!.map(Number);
      const [, r, t] = /;r=(\d+);t=(\d+)/.exec(stateIn(answer)!)!.map(Number);
      if (policy.rolling) expect(r! * w!).toBeLessThanOrEqual(q! * t!);
      const within = site.clock.now();
      for (const at of [0, t! * 999]) {
        site.clock.set(within / 1000 + at);
        expect((await site.limiter.peek({ identity: ipOf("127.0.0.1"), cost: r! })).allowed).toBe(true);
      }
      site.clock.set(within / 1000);
    }
  });

  it.each(named(tablesOf(sectionOf(HEADERS, "When fields are missing"))[0]!, "what happens"))(
    "says of a response what the table says when %s",
    async (what, { status, ...row }) => {
      for (const answer of await MISSING[what]!()) {
        if (/^\d/.test(status!)) expect(answer.status).toBe(Number(status));
        expect({ "what happens": row["what happens"], ...toldOf(answer) }).toEqual(row);
      }
    },
  );

  const forms = tablesOf(sectionOf(HEADERS, "Older forms"))[0]!;
  it.each(forms)("the form of $headers is written as shown", async (row) => {
    const site = await build("headers.md: Header fields 1", {
      rewrite: (text) => text.replace("policies:", `headers: ${row.headers}, policies:`),
    });
    const answers = await asks(21, site);
    const fields = OURS.slice(0, 3);
    expect(linesOf(answers[16]!, [...fields, ...LEGACY])).toEqual(linesIn(row["the 17th, passed"]!));
    expect(linesOf(answers[20]!, [...fields, ...LEGACY])).toEqual(linesIn(row["the 21st, refused"]!));
  });

  it("drafts 8 to 10 are written as 11, older forms leave out what they cannot say", async () => {
    const policies = {
      minute: fixedWindow({ limit: 5, window: "1m" }),
      hour: fixedWindow({ limit: 5, window: "1h" }),
      flying: concurrency({ limit: 3 }),
      bytes: tokenBucket({ capacity: 9, refillPerSecond: 1, unit: "content-bytes" }),
    };
    const told = async (headers: HeaderOptions, cost = 1) => {
      const site = await limited({ policies, headers, cost });
      return linesOf(last(await asks(cost === 1 ? 1 : 2, site)), [...OURS.slice(0, 3), ...LEGACY]);
    };
    const [newest, ...same] = await Promise.all(
      (["draft-11", "draft-10", "draft-9", "draft-8"] as const).map((standard) => told({ standard })),
    );
    expect(same).toEqual([newest, newest, newest]);
    expect(await told({ standard: "draft-7" })).toEqual([
      "ratelimit-policy: 5;w=3600",
      "ratelimit: limit=5, remaining=4, reset=3600",
    ]);
    // One unit of a cost of 2 is left by flying, and 3 by each window.
    expect(await told({ standard: "draft-7" }, 2)).toContain("ratelimit-policy: 5;w=3600");
    const dear = await limited({
      policies: { minute: policies.minute },
      headers: { standard: "draft-7" },
      cost: 3,
    });
    expect(stateIn(last(await asks(2, dear)))).toBe("limit=5, remaining=0, reset=60");
  });

  const listed = clients.filter(({ missing }) => !missing);
  it.each(listed)("$name does not look at RateLimit of draft-11: it comes back before t", async ({ get }) => {
    const arrivedMs: number[] = [];
    const config = {
      policies: { once: fixedWindow({ limit: 1, window: "1m", by: globally() }) },
      headers: { retryAfter: false },
      skip: () => arrivedMs.length > 3,
    };
    const site = await limited(
      config,
      early(() => arrivedMs.push(performance.now())),
    );
    expect(linesOf(last(await asks(2, site)))).toContain('ratelimit: "once";r=0;t=60');
    const { host, port } = site.place as { host: string; port: number };
    expect(await get(`http://${host}:${port}/`, {})).toBe(200);
    expect(arrivedMs).toHaveLength(4);
    expect(arrivedMs[3]! - arrivedMs[2]!).toBeLessThan(30_000);
  });

  it("ratelimit-header-parser reads no numbers from draft-11, also beside X-RateLimit", async () => {
    for (const x of [false, true]) {
      const site = await limited({ ...MINUTE, headers: { x } });
      const { fields } = await ask(site);
      expect(parseRateLimit(new Headers(fields))).toMatchObject({ limit: NaN, remaining: NaN });
    }
  });

  it("jitter is not added to what is said when the store cannot be asked", async () => {
    const [answer] = await one({ ...away(), onFailure: "closed", headers: { jitterSeconds: 3600 } });
    expect(answer!.fields["retry-after"]).toBe("5");
  });

  it("lists every option of headers", () => {
    const [, known] = /^const KNOWN = \[([^\]]*)\]/m.exec(read("packages/core/src/header-options.ts"))!;
    const table = tablesOf(sectionOf(HEADERS, "Options"))[0]!;
    expect(table.map(({ option }) => option!).toSorted()).toEqual(known!.match(/\w+/g)!.toSorted());
  });

  it("a name that is taken gets -2 in the fields, and one key counts both", async () => {
    const policies = { api: fixedWindow({ limit: 9, window: "1m" }) };
    const keys: string[] = [];
    const store = countingStore(fakeClock(), keys);
    const app = express().use(rateLimit({ store, policies }), rateLimit({ store, policies }));
    const answer = await ask({ place: await listening(app) });
    expect(policyIn(answer)).toBe('"api";q=9;w=60, "api-2";q=9;w=60');
    expect(stateIn(answer)).toBe('"api-2";r=7;t=60, "api";r=8;t=60');
    expect(keys).toEqual(Array(2).fill("rl:{ip:127.0.0.1}:api:fw"));
  });

  it("RateLimit comes off in Fastify and Koa as shown", async () => {
    const app = fastify();
    const config = { ...MINUTE, store: countingStore(fakeClock(), []) };
    await app.register(fastifyLimit, config);
    app.get("/prices", (_request, reply) => {
      reply.raw.removeHeader("RateLimit");
      return "prices";
    });
    const koa = new Koa().use(koaLimit(config));
    koa.use((ctx) => ctx.remove("RateLimit"));
    for (const place of [await listening(app), await listening(koa)])
      expect(linesOf(await ask({ place }, "/prices"))).toEqual(['ratelimit-policy: "default";q=100;w=60']);
  });
});

/** Rows with the text of a column in front, as people read it. */
const named = (rows: readonly Row[], column: string): [string, Row][] =>
  rows.map((row) => [plain(row[column]!), row]);

/** Without links and marks of code. */
const plain = (text: string): string => text.replaceAll(/\[([^\]]*)\]\([^)]*\)|`/g, "$1");

const PREFLIGHT = { origin: "https://app.example", "access-control-request-method": "GET" };
/** Nobody listens there. */
function away() {
  const store = redisStore(ioredisClient("redis://127.0.0.1:1"));
  onTestFinished(() => store.close());
  return { store, timeoutMs: 1000 };
}

const one = async (config: Config, before?: (app: Express) => void, how?: Asking): Promise<Answer[]> => [
  await ask(await limited({ ...MINUTE, ...config }, before), "/", how),
];

/** Answers of the kind that each row tells of. */
const MISSING: Record<string, () => Promise<Answer[]>> = {
  "skip says so, or allow, or the route is false": async () => [
    ...(await one({ skip: () => true })),
    ...(await one({ allow: ["127.0.0.1"] })),
    ...(await one({ routes: { "/": false } })),
  ],
  "a CORS preflight": () => one({}, undefined, { method: "OPTIONS", headers: PREFLIGHT }),
  "the application redirects": async () => {
    const limit = rateLimit({ ...MINUTE, store: countingStore(fakeClock(), []) });
    const app = express().use(limit, (_req, res) => res.redirect("/elsewhere"));
    return [await ask({ place: await listening(app) })];
  },
  'the store cannot be asked, onFailure: "open"': () => one(away()),
  'the store cannot be asked, onFailure: "closed"': () => one({ ...away(), onFailure: "closed" }),
  "the identity is blocked for an hour": () => blocked("1h"),
  "the identity is blocked for ever, or on deny": async () => [
    ...(await blocked("forever")),
    ...(await one({ deny: ["127.0.0.1"] })),
  ],
  "the request costs more than a policy ever allows": () => one({ cost: 101 }),
  "every policy is on trial": () => one({ mode: "shadow", limit: 0 }),
  "earlier middleware has begun the response": () =>
    one(
      { limit: 0 },
      early((_req, res) => res.write("begun")),
    ),
};

async function blocked(span: string): Promise<Answer[]> {
  const site = await limited({ ...MINUTE, blocking: true });
  await site.limiter.block(ipOf("127.0.0.1"), span as "1h");
  return [await ask(site)];
}

const toldOf = (answer: Answer) => {
  const state = stateIn(answer);
  return {
    "RateLimit-Policy": policyIn(answer) === undefined ? "–" : "yes",
    RateLimit: state === undefined ? "–" : state.includes(";t=") ? "yes" : "yes, without `t`",
    "Retry-After": answer.fields["retry-after"] ?? "–",
  };
};

/** Fields as a cell of a table writes them. */
const linesIn = (cell: string): string[] =>
  cell
    .split(/`<br>`|^`|`$/)
    .filter(Boolean)
    .map(lowerName)
    .toSorted();

const ofOne = (policy: Policy, clock: FakeClock): Limiter => {
  const store = memoryStore({ nowUs: clock.now });
  onTestFinished(() => store.close());
  return createLimiter({ store, policies: { policy } });
};

/** How often a client is refused that never asks for more than the limit in any span, but up to it when it can. */
async function refusalsOfObedient(policy: Policy, spanMs: number): Promise<number> {
  const clock = fakeClock(0);
  const limiter = ofOne(policy, clock);
  const random = randomFrom(7);
  /** When the last units were asked for, as many as the limit, ms. */
  let asked: number[] = Array(policy.limit).fill(-spanMs - 1);
  let [now, refused] = [0, 0];
  for (let i = 0; i < 1500; i++) {
    const cost = random() < 0.8 ? 1 : 2;
    now += Math.floor(random() < 0.6 ? random() * 50 : random() * spanMs * 0.4);
    now = Math.max(now, asked[cost - 1]! + spanMs + 1);
    asked = [...asked.slice(cost), ...Array<number>(cost).fill(now)];
    clock.set(now);
    if (!(await limiter.decide({ identity: "somebody", cost })).allowed) refused++;
  }
  return refused;
}

/** source: Park and Miller, "Random number generators: good ones are hard to find" */
function randomFrom(seed: number): () => number {
  return () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
}

describe("onLimited", () => {
  const answers = tablesOf(sectionOf(HEADERS, "An answer of your own"))[0]!;
  const usual = ["application/problem+json", "quota-exceeded", "Quota Exceeded", 429];
  const SENT: Record<string, unknown[]> = {
    nothing: usual,
    "{ type, title }": ["application/problem+json", "mine", "Mine", 429],
    "{ status: 403 }": ["application/problem+json", "quota-exceeded", "Quota Exceeded", 403],
    "{ body: { … } }": ["application/json", '{"own":true}', 429],
    '{ body: "slow down" }': ["text/plain; charset=utf-8", "slow down", 429],
    '{ body: "<p>slow down</p>", contentType: "text/html" }': ["text/html", "<p>slow down</p>", 429],
  };
  const RETURNED: Record<string, unknown> = {
    nothing: undefined,
    "{ type, title }": { type: "https://a.example#mine", title: "Mine" },
    "{ body: { … } }": { body: { own: true } },
  };

  it.each(named(answers, "it returns"))("that returns %s", async (returns) => {
    const answer = returns in RETURNED ? RETURNED[returns] : json(returns);
    const [got] = await one({ limit: 0, onLimited: () => answer as object });
    const { status, fields, body } = got!;
    const problem = fields["content-type"] === "application/problem+json" ? JSON.parse(body) : undefined;
    const said = problem ? [problem.type.split("#")[1], problem.title] : [body];
    expect([fields["content-type"], ...said, status]).toEqual(SENT[returns]);
    if (problem) expect(problem.status).toBe(status);
  });

  it("hears of each kind, with the status and the policies that the page tells of", async () => {
    const heard: unknown[] = [];
    const onLimited = ({ kind, status, violatedPolicies }: Refusal) =>
      void heard.push([kind, String(status), violatedPolicies]);
    await one({ limit: 0, onLimited });
    await one({ deny: ["127.0.0.1"], onLimited });
    await one({ ...away(), onFailure: "closed", onLimited });
    const kinds = tablesOf(sectionOf(HEADERS, "An answer of your own"))[1]!;
    const refusing = [["default"], ["default"], []];
    expect(heard).toEqual(kinds.map(({ kind, status }, i) => [kind, status, refusing[i]]));
  });

  it("is told of the wait also where Retry-After is left out", async () => {
    const waits: unknown[] = [];
    const site = await limited({
      policies: { one: fixedWindow({ limit: 1, window: "1m" }) },
      headers: { retryAfter: false },
      onLimited: ({ retryAfterSeconds }) => void waits.push(retryAfterSeconds),
    });
    expect(last(await asks(2, site)).fields).not.toHaveProperty("retry-after");
    expect(waits).toEqual([60]);
  });

  it("is waited for beyond timeoutMs, and not once it has returned without an answer", async () => {
    const slow = { timeoutMs: 10, limit: 0 };
    const [waited] = await one({ ...slow, onLimited: () => sleep(100, { body: "late" }) });
    expect(waited!.body).toBe("late");
    const late = vi.fn<() => void>();
    const [gone] = await one({ ...slow, onLimited: () => void setTimeout(late, 100) });
    expect(gone!.body).toContain("Quota Exceeded");
    expect(late).not.toHaveBeenCalled();
  });

  it("changes nothing of a response to HEAD, which has no body", async () => {
    const [head] = await one({ limit: 0, onLimited: () => ({ body: "mine" }) }, undefined, {
      method: "HEAD",
    });
    expect([head!.status, head!.fields["content-type"], head!.body]).toEqual([
      429,
      "text/plain; charset=utf-8",
      "",
    ]);
  });
});

/** Who is counted by each source of the table: what is asked, and under whom. */
const SOURCES: Record<string, { by: By[]; headers?: Record<string, string>; counted: RegExp[] }> = {
  "ip()": {
    by: [ip(), () => ipOf("2001:db8:0:1::9")],
    counted: [/^ip:203.0.113.7$/, /^ip:20010db800000001$/],
  },
  'apiKey({ header: "x-api-key" })': { by: [apiKey({ header: "x-api-key" })], counted: [/^key:[\w-]{22}$/] },
  "user(), tenant()": { by: [user(), tenant()], counted: [/^user:42$/, /^tenant:acme$/] },
  "user((request) => …), tenant((request) => …)": {
    by: [user(() => 42), tenant(() => "acme")],
    counted: [/^user:42$/, /^tenant:acme$/],
  },
  "globally()": { by: [globally()], counted: [/^all:-$/] },
  "route()": { by: [route()], counted: [/^all:-$/] },
  "(request) => …": { by: [() => 42], counted: [/^id:42$/] },
  "tenant().and(user())": { by: [tenant().and(user())], counted: [/^both:h\.[\w-]{22}$/] },
  "user().or(ip())": { by: [user((): undefined => undefined).or(ip())], counted: [/^ip:203.0.113.7$/] },
};

describe("docs/identity.md", () => {
  it.each(named(tablesOf(sectionOf(IDENTITY, "Who is counted"))[0]!, "by"))(
    "%s counts as the table says",
    async (by, row) => {
      const source = SOURCES[by]!;
      const seen: string[] = [];
      for (const each of source.by) {
        const site = await limited(
          { ...MINUTE, trustProxy: 1, by: each },
          early((req) => Object.assign(req, { user: { id: 42 }, tenant: "acme" })),
        );
        await ask(site, "/", { headers: { "x-forwarded-for": "203.0.113.7", "x-api-key": "sk" } });
        seen.push(...site.keys.map(identityIn));
      }
      expect(seen).toEqual(source.counted.map((who) => expect.stringMatching(who)));
      const told = row["in keys as"]!.match(/\b(?:ip|key|user|tenant|all|id|both):[\w.-]*/g) ?? [];
      told.forEach((text, i) => expect(seen[i]!.startsWith(text)).toBe(true));
    },
  );

  it("reads the drawn chain from the right, as far as there are proxies", async () => {
    const drawing = blocksOf(sectionOf(IDENTITY, "Proxies")).find(
      ({ language }) => language === "text",
    )!.text;
    const [, chained] = /^X-Forwarded-For: (.*)$/m.exec(drawing)!;
    const [, client] = /^(203\S+)/m.exec(drawing)!;
    const site = await limited({ ...MINUTE, trustProxy: 2 });
    await ask(site, "/", { headers: { "x-forwarded-for": chained! } });
    expect(site.keys.map(identityIn)).toEqual([`ip:${client}`]);
  });

  it("an invented key is somebody new, until the address beside it has no room", async () => {
    const policies = {
      burst: fixedWindow({ limit: 1, window: "1m", by: apiKey({ header: "x-api-key" }) }),
      perIp: fixedWindow({ limit: 3, window: "1m", by: ip() }),
    };
    const alone = await limited({ policies: { burst: policies.burst }, onEvent: () => {} });
    const beside = await limited({ policies });
    const seen: number[][] = [];
    for (const site of [alone, beside]) {
      const answers = [];
      for (let i = 0; i < 5; i++) answers.push((await ask(site, "/", key(`invented-${i}`))).status);
      seen.push(answers);
    }
    expect(seen).toEqual([
      [200, 200, 200, 200, 200],
      [200, 200, 200, 429, 429],
    ]);
  });

  it("verify is asked before anything is decided, also where no room is left", async () => {
    const verify = vi.fn<() => boolean>(() => false);
    const by = apiKey({ header: "x-api-key", verify }).or(ip());
    const site = await limited({ policies: { perIp: fixedWindow({ limit: 1, window: "1m" }) }, by });
    for (let i = 0; i < 5; i++) await ask(site, "/", key(`invented-${i}`));
    expect(verify).toHaveBeenCalledTimes(5);
  });

  it("a pair is forgotten by the identity that the page shows", async () => {
    const by = tenant(() => "acme").and(user(() => "42"));
    const site = await limited({ policies: { one: fixedWindow({ limit: 1, window: "1m" }) }, by });
    expect(statuses(await asks(2, site))).toEqual([200, 429]);
    const [, text] = /To reset a pair of plain ids: `(\{.*?\})`/.exec(IDENTITY)!;
    await site.limiter.reset(json(text!) as { kind: string; value: string });
    expect((await ask(site)).status).toBe(200);
  });

  it("allow and deny go before skip and by, after a route that is false, and not by trustedHeaders", async () => {
    const asked = vi.fn<() => false>(() => false);
    const refused = await limited({
      ...MINUTE,
      deny: ["127.0.0.1"],
      skip: asked,
      by: asked as never,
      mode: "shadow",
    });
    expect([(await ask(refused)).status, asked.mock.calls.length, refused.keys]).toEqual([429, 0, []]);
    const free = await limited({ ...MINUTE, deny: ["127.0.0.1"], routes: { "GET /free": false } });
    expect((await ask(free, "/free")).status).toBe(200);
    const by = ip({ trustedHeaders: { header: "cf-connecting-ip", from: ["127.0.0.1"] } });
    const cdn = await limited({ ...MINUTE, by, deny: ["203.0.113.66"] });
    expect((await ask(cdn, "/", { headers: { "cf-connecting-ip": "203.0.113.66" } })).status).toBe(200);
    expect(cdn.keys.map(identityIn)).toEqual(["ip:203.0.113.66"]);
  });

  it("tells of warnings that there are", () => {
    const known = tablesOf(sectionOf(read("docs/errors.md"), "Warnings"))[0]!.map(({ code }) => code);
    const told = tablesOf(sectionOf(IDENTITY, "Warnings"))[0]!.map(({ code }) => code);
    expect(known).toEqual(expect.arrayContaining(told));
  });
});

/** A setting that gives something away, and the proxies in front. */
interface Setting {
  readonly trust?: Trust;
  readonly by?: By;
  readonly proxies?: readonly ProxyName[];
  /** Whether a client reaches the application without them. */
  readonly past?: true;
  readonly ways: readonly [string, Way][];
}

/** Fastify's own number is nobody, so a number is ours there. */
const byNumber = everyFramework.map(([name, way]): [string, Way] =>
  name === "Fastify 5" ? [name, { ...way, by: "our trustProxy" }] : [name, way],
);
const always: [string, Way, Trust][] = everyFramework.map(([name, way]) => [
  name,
  way,
  way.by === "its setting" ? (true as never) : () => true,
]);
const headersOf = (asked: unknown) => (asked as { headers: Record<string, string | undefined> }).headers;

const leftmost: By = (asked) => ipOf(headersOf(asked)["x-forwarded-for"]?.split(",")[0]);
/** `proxy` is read with each `ctx.ip`. */
const koasOwn: By = (ctx: Context) => {
  ctx.app.proxy = true;
  return ipOf(ctx.ip);
};
const cdnsField: By = (asked) => ipOf(headersOf(asked)["cf-connecting-ip"]);

const SETTINGS: Record<string, Setting> = {
  "nobody is believed, one proxy": { ways: everyFramework },
  "the number 2, one proxy": { trust: 2, ways: byNumber },
  "the number 1, two proxies": { trust: 1, proxies: ["haproxy", "nginx"], ways: byNumber },
  "the number 1, one proxy, and a way past it": { trust: 1, past: true, ways: byNumber },
  "networks in which clients are as well, one proxy": { trust: ["127.0.0.0/8"], ways: everyFramework },
  "a function of yours takes the leftmost entry, one proxy": { by: leftmost, ways: everyFramework },
  "app.proxy of Koa, and a function of yours takes ctx.ip, one proxy": {
    by: koasOwn,
    ways: ours.slice(-1),
  },
  "a function of yours takes cf-connecting-ip from anybody, a CDN, and a way past it": {
    by: cdnsField,
    past: true,
    ways: everyFramework,
  },
};

const wrong = tablesOf(sectionOf(IDENTITY, "What wrong settings give away"))[0]!.flatMap((row) => {
  const name = plain(`${row["what is set"]}, ${row["what stands there"]}`);
  const setting = SETTINGS[name];
  const cases: [string, Setting & { way: Way }][] = setting
    ? setting.ways.map(([framework, way]) => [`${framework}: ${name}`, { ...setting, way }])
    : always.map(([framework, way, trust]) => [`${framework}: ${name}`, { ways: [], way, trust }]);
  return cases.map(([title, each]): [string, Row, Setting & { way: Way }] => [title, row, each]);
});

/** Who of three clients is counted apart, and that a fourth has no room where they count together. */
async function honest(door: Place, counted: readonly string[], proxies: number): Promise<string> {
  await askAll(door, threeClients);
  const apart = counted.length === 3;
  expect(counted).toEqual(apart ? THREE : ["ip:127.0.9.1"]);
  expect((await askAll(door, [{ from: "127.0.0.4" }])).map(statusOf)).toEqual([apart ? 200 : 429]);
  return apart
    ? "count each for itself"
    : `count together, ${proxies > 1 ? "as the outer proxy" : "as the proxy"}`;
}

async function lying(place: Place): Promise<string> {
  const statuses = (await askAll(place, lies)).map(statusOf);
  if (statuses.every((status) => status === 200)) return "chooses its address";
  expect(statuses).toEqual(lies.map(() => 429));
  return "wins nothing";
}

describe("Of a wrong setting an attacker has what the table says:", () => {
  it.each(wrong)("%s", async (_, row, { way, trust, by, proxies = ["nginx"], past }) => {
    await needsLoopback();
    const { place, counted } = await serve(way, trust, { limit: 3, ...(by && { by }) });
    const cdn = { at: "127.0.9.1", to: place, rules: NAMES_CLIENT };
    const door = proxies.length > 1 ? await chain(place, ...proxies) : await proxy("nginx", cdn);
    const liars = past ? place : door;
    expect(await honest(door, counted, proxies.length)).toBe(row["clients that do not"]);
    const lied = await lying(liars);
    expect(lied).toBe(row["a client that lies"]);
    if (lied === "wins nothing" || counted.length < 3) return;
    await askAll(liars, [naming("127.0.0.3"), naming("127.0.0.3")]);
    expect((await askAll(door, [{ from: "127.0.0.3" }])).map(statusOf)).toEqual([429]);
  });

  it("every row is tried", () => {
    expect(new Set(wrong.map(([, row]) => row)).size).toBe(Object.keys(SETTINGS).length + 1);
  });
});

const undefinedToo = (address?: string) => address === undefined;
const [ofExpress, ofFastify] = everyFramework as [[string, Way], [string, Way]];

/** Each way to believe a proxy on a Unix socket, by the row that tells of it. */
const SOCKETS: Record<string, [Way, Trust][]> = {
  'rateLimit({ trustProxy: 1 }), or a function that says yes to "unix"': ours.flatMap(
    ([, way]): [Way, Trust][] => [
      [way, 1],
      [way, (address) => address === "unix"],
    ],
  ),
  'app.set("trust proxy", 1), or a function that says yes to undefined': [
    [ofExpress[1], 1],
    [ofExpress[1], undefinedToo],
  ],
  "fastify({ trustProxy }) of a function that says yes to undefined": [[ofFastify[1], undefinedToo]],
};

it.each(named(tablesOf(sectionOf(IDENTITY, "Unix sockets"))[0]!, "setting"))(
  "A proxy on a Unix socket is believed by %s",
  async (setting) => {
    await needsLoopback();
    for (const [way, trust] of SOCKETS[setting]!) {
      const { place, counted } = await serve(way, trust, {}, unixSocket());
      await askAll(await chain(place, "nginx"), threeClients);
      expect(counted).toEqual(THREE);
    }
  },
);

describe("Whose refusal it was", () => {
  const behind = async (config: Config, rule = "") => {
    await needsLoopback();
    const app = await serve(byNetworks[0]![1], NETWORK, config);
    const http = "limit_req_zone $binary_remote_addr zone=door:1m rate=1r/m;";
    const rules = `${rule} ${APPENDS.nginx}`;
    const door = await proxy("nginx", { at: "127.0.9.1", to: app.place, rules, ...(rule && { http }) });
    return last(await askAll(door, Array(3).fill({ from: "127.0.0.2" })));
  };
  const REFUSALS: Record<string, () => ReturnType<typeof behind>> = {
    "tidegate, by a limit": () => behind({ limit: 2 }),
    "tidegate, as the store cannot be asked": () => behind({ ...away(), onFailure: "closed" }),
    "nginx, by limit_req": () => behind({}, "limit_req zone=door;"),
    "nginx, by limit_req and limit_req_status 429": () =>
      behind({}, "limit_req zone=door; limit_req_status 429;"),
  };

  it.each(named(tablesOf(sectionOf(IDENTITY, "Whose refusal it was"))[0]!, "who refuses"))(
    "%s: as the table says",
    async (who, row) => {
      const { status, headers } = await REFUSALS[who]!();
      const there = (field: string) => (field in headers ? "yes" : "–");
      expect({
        status: String(status),
        "RateLimit-Policy": there("ratelimit-policy"),
        "Retry-After": there("retry-after"),
        "Content-Type": headers["content-type"],
      }).toEqual({ ...row, "who refuses": undefined });
    },
  );
});

const perMinute = (limit: number) => fixedWindow({ limit, window: "1m" });
const say: Middleware = (ctx) => void (ctx.body = "hello");

/** A path that the pattern takes, and one that it does not. */
const PATHS: Record<string, [string, string]> = {
  "/users/:id": ["/users/7", "/users/7/x"],
  "/users/:id(\\d+)": ["/users/7", "/users/x"],
  "/users/:id(^\\d+$)": ["/users/7", "/users/x"],
  "/files/*path": ["/files/a/b", "/file"],
  "/files/*": ["/files/a/b", "/file"],
  "/a{/:b}": ["/a", "/a/b/c"],
  "/a/:b?": ["/a", "/a/b/c"],
};

/** An application in each framework, with a limit of 1 on one route. */
const withRoute: Record<string, (config: Config) => Promise<Place>> = {
  Express: async (config) => listening(express().use(rateLimit(config))),
  "Express 4": async (config) => {
    vi.resetModules();
    vi.doMock("express", () => ({ default: express4, Router: express4.Router }));
    const { rateLimit: limitOf4 } = await import("@tidegate/express");
    vi.doUnmock("express");
    return listening(express4().use(limitOf4(config) as never) as unknown as Express);
  },
  Fastify: async (config) => {
    const app = fastify();
    await app.register(fastifyLimit, config);
    return listening(app);
  },
  Koa: async (config) => listening(new Koa().use(koaLimit(config))),
};

const patterns = tablesOf(sectionOf(ROUTES, "Patterns"))[0]!.flatMap((row) => {
  const framework = /\[?(\w+)\]?(?:\(.*\))?( 4)?/.exec(row["framework"]!)!;
  return row["for example"]!.split("`, `").map((text): [string, string] => [
    `${framework[1]}${framework[2] ?? ""}`,
    JSON.parse(`"${text.replaceAll("`", "")}"`),
  ]);
});

describe("docs/routes.md", () => {
  it.each(patterns)("%s takes %s for a pattern", async (framework, pattern) => {
    const routes = { [`GET ${pattern}`]: { policies: { own: perMinute(1) } } };
    const store = countingStore(fakeClock(), []);
    const place = await withRoute[framework]!({ store, policies: { all: perMinute(9) }, routes });
    const [inside, outside] = PATHS[pattern]!;
    expect(policyIn(await ask({ place }, inside))).toBe('"own";q=1;w=60');
    expect(policyIn(await ask({ place }, outside))).toBe('"all";q=9;w=60');
  });

  it.each(named(tablesOf(sectionOf(ROUTES, "A budget for each route"))[0]!, "limiter"))(
    "a limiter %s knows the routes that the table says",
    async (limiter, row) => {
      const keys: string[] = [];
      const config: Config = {
        store: countingStore(fakeClock(), keys),
        policies: { all: perMinute(99) },
        by: route(),
        routes: { "GET /in-table/:id": {} },
      };
      const framework = /\w+/.exec(row["framework"]!)![0];
      const place = await KNOWING[`${framework} ${limiter}`]!(config);
      const paths = ["/users/1", "/users/2", "/teams/1", "/teams/2", "/in-table/1", "/in-table/2"];
      for (const path of paths) await ask({ place }, path);
      const [user1, user2, team1, team2, table1, table2] = keys;
      expect([user2, team2, table2]).toEqual([user1, team1, table1]);
      expect([table1 === user1, table1 === team1]).toEqual([false, false]);
      expect(user1 === team1).toBe(row["knows"] === "the lines of its table");
    },
  );

  it("lists what a line takes, as the sources do", () => {
    const [, known] = /^const OVERRIDES = \[([^\]]*)\]/m.exec(read("packages/core/src/plans.ts"))!;
    const listed = tablesOf(sectionOf(ROUTES, "What may differ"))[0]!.flatMap(({ option }) =>
      option!.match(/\w+/g)!,
    );
    expect(listed.filter((word) => word !== "or" && word !== "and").toSorted()).toEqual(
      known!.match(/\w+/g)!.toSorted(),
    );
  });

  it("the object of the configuration counts on, a copy does not, and mode is that of every policy", async () => {
    const all = perMinute(9);
    const trial = fixedWindow({ limit: 0, window: "1m", mode: "shadow" });
    const site = await limited({
      policies: { all },
      routes: {
        "/same": { policies: { all } },
        "/copy": { policies: { all: perMinute(9) } },
        "/dear": { cost: 3 },
        "/shadow": { mode: "shadow" },
        "/enforced": { mode: "enforce", policies: { trial } },
      },
    });
    expect(stateIn(await ask(site, "/same"))).toBe('"all";r=8;t=60');
    expect(stateIn(await ask(site, "/copy"))).toBe('"all";r=8;t=60');
    expect(stateIn(await ask(site, "/dear"))).toBe('"all";r=5;t=60');
    expect(stateIn(await ask(site, "/shadow"))).toBeUndefined();
    expect(stateIn(await ask(site))).toBe('"all";r=3;t=60');
    expect((await ask(site, "/enforced")).status).toBe(429);
  });

  it("a group counts the configuration's policies for itself, and lines of the same policies count apart", async () => {
    const own = { policies: { login: perMinute(9) } };
    const site = await limited({
      policies: { all: perMinute(9) },
      routes: { "/a": { group: "both" }, "/b": { group: "both" }, "/c": own, "/d": own },
    });
    const states = [];
    for (const path of ["/", "/a", "/b", "/c", "/d"]) states.push(stateIn(await ask(site, path)));
    expect(states).toEqual([8, 8, 7, 8, 8].map((r, i) => `"${i < 3 ? "all" : "login"}";r=${r};t=60`));
  });

  describe("limit.with()", () => {
    const more = (limit: number) => ({ policies: { login: perMinute(limit) } });
    const site = async (
      mounted: boolean,
      make: (limit: ReturnType<typeof rateLimit>) => [string, RequestHandler][],
    ) => {
      const events: string[] = [];
      const store = countingStore(fakeClock(), []);
      const onEvent: Config["onEvent"] = (event) =>
        void (event.type === "warning" && events.push(event.code));
      const limit = rateLimit({ store, policies: { api: perMinute(9) }, onEvent });
      const app = express();
      if (mounted) app.use(limit);
      for (const [path, handler] of make(limit)) app.get(path, handler);
      return { place: await listening(app), limiter: limit.limiter, events };
    };

    it("decides after the application's limiter, or about all at once where that is not mounted", async () => {
      const twice = await site(true, (limit) => [["/login", limit.with(more(1))]]);
      expect(statuses(await asks(3, twice, "/login"))).toEqual([200, 429, 429]);
      expect(stateIn(await ask(twice))).toBe('"api";r=5;t=60');
      const once = await site(false, (limit) => [
        ["/login", limit.with(more(1))],
        ["/", limit],
      ]);
      expect(statuses(await asks(3, once, "/login"))).toEqual([200, 429, 429]);
      expect(stateIn(await ask(once))).toBe('"api";r=7;t=60');
      expect([twice.events, once.events]).toEqual([[], []]);
    });

    it("shares a budget by name, and has its own by a group", async () => {
      const served = await site(true, (limit) => [
        ["/a", limit.with(more(1))],
        ["/b", limit.with(more(1))],
        ["/c", limit.with({ ...more(1), group: "c" })],
        [
          "/d",
          limit.with({ policies: { login: fixedWindow({ limit: 1, window: "1m", by: ip().and(route()) }) } }),
        ],
        ["/e", limit.with(more(1)) && limit],
      ]);
      const seen = [];
      for (const path of ["/a", "/b", "/c", "/d", "/e"]) seen.push((await ask(served, path)).status);
      expect(seen).toEqual([200, 429, 200, 200, 200]);
      expect(served.events).toEqual(["TIDEGATE_COUNTED_ONCE"]);
    });

    it("adds to both when it is asked of one that has more already", async () => {
      const served = await site(true, (limit) => [
        ["/x", limit.with(more(5)).with({ policies: { code: perMinute(3) } })],
      ]);
      expect(policyIn(await ask(served, "/x"))).toBe('"api";q=9;w=60, "login";q=5;w=60, "code";q=3;w=60');
    });

    it("reset by name forgets what the configuration, lines, groups and with() have counted", async () => {
      const store = countingStore(fakeClock(), []);
      const one = { policies: { login: perMinute(1) } };
      const limit = rateLimit({
        store,
        policies: { api: perMinute(99) },
        routes: { "/line": one, "/group": { ...one, group: "g" } },
      });
      const app = express()
        .use(limit)
        .get("/with", limit.with({ policies: { code: perMinute(1) } }));
      const place = await listening(app);
      const round = async () => {
        const seen = [];
        for (const path of ["/line", "/group", "/with"]) seen.push((await ask({ place }, path)).status);
        return seen;
      };
      expect([await round(), await round()]).toEqual([Array(3).fill(200), Array(3).fill(429)]);
      await limit.limiter.reset(ipOf("127.0.0.1"), "login");
      expect(await round()).toEqual([200, 200, 429]);
      await limit.limiter.reset(ipOf("127.0.0.1"), "code");
      expect(await round()).toEqual([429, 429, 200]);
      await limit.limiter.reset(ipOf("127.0.0.1"));
      expect(await round()).toEqual([200, 200, 200]);
    });

    it("reset without a name leaves what route() alone has counted, and by name forgets it", async () => {
      const served = await limited({
        policies: { each: fixedWindow({ limit: 1, window: "1m", by: route() }) },
        routes: { "/a": {} },
      });
      await ask(served, "/a");
      await served.limiter.reset(ipOf("127.0.0.1"));
      expect((await ask(served, "/a")).status).toBe(429);
      await served.limiter.reset(ipOf("127.0.0.1"), "each");
      expect((await ask(served, "/a")).status).toBe(200);
    });
  });
});

/** How each limiter of the table is mounted. */
const KNOWING: Record<string, (config: Config) => Promise<Place>> = {
  "Express on the application or a router, app.use(limit)": async (config) => {
    const limit = rateLimit(config);
    const users = ExpressRouter()
      .use(limit)
      .get("/:id", hello as never);
    return listening(
      express()
        .use("/users", users)
        .use(limit)
        .get("/teams/:id", hello as never),
    );
  },
  'Express on a route, app.get("/users/:id", limit, …)': async (config) => {
    const limit = rateLimit(config);
    const teams = ExpressRouter().get("/:id", limit, hello as never);
    return listening(
      express()
        .get("/users/:id", limit, hello as never)
        .use("/teams", teams)
        .use(limit),
    );
  },
  "Fastify wherever it is registered": async (config) => {
    const app = fastify();
    await app.register(fastifyLimit, config);
    app.get("/users/:id", () => "hello");
    app.get("/teams/:id", () => "hello");
    app.get("/in-table/:id", () => "hello");
    return listening(app);
  },
  "Koa on the application, app.use(limit)": async (config) => listening(new Koa().use(koaLimit(config))),
  "Koa in a router, on it or on a route": async (config) => {
    const limit = koaLimit(config) as never;
    const [users, others] = [new Router({ prefix: "/users" }), new Router()];
    users.use(limit);
    users.get("/:id", say as never);
    others.get("/teams/:id", limit, say as never);
    others.get("/in-table/:id", limit, say as never);
    return listening(new Koa().use(users.routes() as Middleware).use(others.routes() as Middleware));
  },
};
