/** What runs a ts block of a framework's page as part of an application, and asks that application by HTTP. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingHttpHeaders, Server } from "node:http";
import { join } from "node:path";
import type { Limiter } from "@tidegate/core";
import express, { type Express, type Request, type RequestHandler } from "express";
import express4 from "express4";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import Koa, { type Context, type Middleware } from "koa";
import Koa2 from "koa2";
import request from "supertest";
import { afterAll, onTestFinished, vi } from "vitest";
import { START_US } from "../harness/clock.ts";
import { read } from "../harness/http.ts";
import { type Block, root } from "./markdown.ts";

/** A handler without a framework: the status it answers with. */
type Act = (headers: IncomingHttpHeaders) => number | Promise<number>;

/** A framework, as far as its blocks need it. `A`: its applications. */
export interface Kit<A = any> {
  readonly name: string;
  readonly page: string;
  /** What a block's import is turned into, where its page is for another version too. */
  readonly instead?: readonly [from: string, to: string];
  readonly make: () => A;
  readonly handler: (act: Act) => unknown;
  /** Finds the user in `x-user`, and leaves it where this framework keeps such things. */
  readonly authenticate: unknown;
  readonly bodyParser?: () => unknown;
  /** Says hello to whatever the block answers nothing to. */
  readonly hello: (app: A) => void;
  /** @param own the server that the block has started by itself */
  readonly serve: (app: A, own: Server | undefined) => Promise<Server>;
  /** Whatever may hold a limiter. */
  readonly holders: (app: A) => unknown[];
  readonly close?: (app: A) => Promise<void>;
}

export interface Reply {
  readonly status: number;
  /** `RateLimit-Policy` */
  readonly policy: string | undefined;
  /** What `RateLimit` says is left, by the names of the policies: `api 99, login 4`. Empty where there is no such field. */
  readonly left: string;
  readonly headers: Record<string, string>;
  readonly type: string;
  readonly text: string;
}

export interface Ask {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: object;
}

/** An application that a block was run in. */
export interface Site {
  readonly server: Server;
  /** The first that is found; a plugin within a scope is not. */
  readonly limiter: Limiter;
  readonly ask: (path?: string, how?: Ask) => Promise<Reply>;
  /** Milliseconds. */
  readonly advance: (ms: number) => void;
  /** Messages that tidegate gave the process, for want of a listener. */
  readonly warnings: readonly string[];
  /** What `metrics.count` was told. */
  readonly counted: readonly string[];
  readonly exports: Gate;
  /** Does what the block does at SIGTERM. */
  readonly terminate: () => void;
}

/** What `exportAll` waits for before it answers. */
interface Gate {
  /** How many requests have come to it. */
  readonly came: () => number;
  readonly open: () => void;
}

mkdirSync(join(root, ".cache"), { recursive: true });
const folder = mkdtempSync(join(root, ".cache/docs-run-"));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;

/**
 * Runs a block with real values for the names that its preamble declares, and serves what it built until the test is
 * over.
 *
 * @param bare whether unknown paths are left to the framework
 */
export async function run(kit: Kit, block: Block, bare = false): Promise<Site> {
  const advance = standingClock();
  const warnings = catchingWarnings();
  const terminate = catchingSigterm();
  const { counted, exports, given } = names(kit);
  stub(given);
  const built = await load(kit, block);
  const app: unknown = built["app"] ?? given["app"];
  if (!bare) kit.hello(app);
  const server = await kit.serve(app, built["server"] as Server | undefined);
  const limiters = [built["limit"], ...kit.holders(app)].flatMap((holder) => limiterIn(holder) ?? []);
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await kit.close?.(app);
    for (const limiter of limiters) await limiter.close();
  });
  const limiter = limiters[0]!;
  return { server, limiter, ask: asking(server), advance, warnings, counted, exports, terminate };
}

/** Until the test is over. */
function stub(given: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(given)) vi.stubGlobal(name, value);
  vi.stubEnv("REDIS_URL", undefined);
  vi.stubEnv("PORT", "0");
  onTestFinished(() => {
    vi.unstubAllGlobals();
    vi.unstubAllEnvs();
  });
}

/** Everything that a block declares at its top, by name. */
async function load({ instead: [from, to] = ["", ""] }: Kit, { preamble, text }: Block) {
  const top = [...text.matchAll(/^const (\w+) =/gm)].map(([, name]) => name);
  const file = join(folder, `block-${++files}.ts`);
  const source = text.replace(`from "${from}";`, `from "${to}";`);
  writeFileSync(file, `${preamble}\n${source}\nexport { ${top.join(", ")} };\n`);
  return (await import(file)) as Record<string, unknown>;
}

/** What the preambles of the pages declare. */
function names(kit: Kit) {
  const counted: string[] = [];
  const { pass, ...exports } = closedGate();
  const given: Record<string, unknown> = {
    app: kit.make(),
    login: kit.handler((headers) => (headers["x-password"] === "right" ? 200 : 401)),
    search: kit.handler((headers) => (headers["if-none-match"] ? 304 : 200)),
    exportAll: kit.handler(pass),
    authenticate: kit.authenticate,
    bodyParser: kit.bodyParser,
    isKnownKey: async (key: string) => key.startsWith("sk_"),
    isSolved: async ({ headers }: FastifyRequest) => headers["x-solved"] === "yes",
    metrics: { count: (name: string) => void counted.push(name) },
    render: async (page: string, data: object) => `${page} ${JSON.stringify(data)}`,
  };
  return { counted, exports, given };
}

function closedGate(): Gate & { readonly pass: Act } {
  let came = 0;
  let open = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  const pass: Act = async () => {
    came++;
    await opened;
    return 200;
  };
  return { came: () => came, open, pass };
}

/** Stops the clock of the stores that blocks make: no bucket fills up, however long a busy machine takes to ask. */
function standingClock(): (ms: number) => void {
  let now = START_US / 1000 - performance.timeOrigin;
  const standing = vi.spyOn(performance, "now").mockImplementation(() => now);
  onTestFinished(() => {
    standing.mockRestore();
  });
  return (ms) => void (now += ms);
}

function catchingWarnings(): string[] {
  const messages: string[] = [];
  const listener = ({ name, message }: Error) => {
    if (name === "TidegateWarning") messages.push(message);
  };
  process.on("warning", listener);
  onTestFinished(() => void process.off("warning", listener));
  return messages;
}

/** Takes the listeners that are added from here on, so that none outlives the test. */
function catchingSigterm(): () => void {
  const others = process.listeners("SIGTERM");
  const added = () => process.listeners("SIGTERM").filter((listener) => !others.includes(listener));
  onTestFinished(() => {
    for (const listener of added()) process.off("SIGTERM", listener);
  });
  return () => {
    for (const listener of added()) listener("SIGTERM");
  };
}

const limiterIn = (holder: unknown): Limiter | undefined =>
  (holder as { limiter?: Limiter } | undefined)?.limiter;

const asking =
  (server: Server): Site["ask"] =>
  async (path = "/", { method = "GET", headers = {}, body } = {}) => {
    const asked = request(server)[method.toLowerCase() as "get"](path).set(headers);
    const response = await (body === undefined ? asked : asked.send(body));
    const fields = response.headers as Record<string, string>;
    const left = [...read(fields["ratelimit"])].map(([name, { r }]) => `${name} ${r}`);
    return {
      status: response.status,
      policy: fields["ratelimit-policy"],
      left: left.toSorted().join(", "),
      headers: fields,
      type: response.type,
      text: response.text,
    };
  };

const listening = (server: Server): Promise<Server> =>
  new Promise((resolve) => {
    if (server.listening) resolve(server);
    else server.once("listening", () => resolve(server));
  });

interface Routing {
  readonly stack: readonly { readonly handle: unknown }[];
}

const expressKit = (name: string, make: typeof express, more?: Pick<Kit, "instead">): Kit<Express> => ({
  name,
  page: "docs/express.md",
  ...more,
  make: () => make(),
  handler: (act): RequestHandler => {
    return (req, res, next) =>
      void Promise.resolve(act(req.headers)).then((status) => res.status(status).end(), next);
  },
  authenticate: ((req: Request & { user?: unknown }, _res, next) => {
    if (req.headers["x-user"]) req.user = { id: req.headers["x-user"] };
    next();
  }) satisfies RequestHandler,
  hello: (app) => void app.use((_req, res) => void res.send("hello")),
  serve: (app, own) => listening(own ?? app.listen(0)),
  holders(app) {
    // Express 4 throws when it is asked for `router`.
    const { stack } =
      (app as { _router?: Routing })._router ?? (app as unknown as { router: Routing }).router;
    return stack.map(({ handle }) => handle);
  },
});

const fastifyKit: Kit<FastifyInstance> = {
  name: "Fastify 5",
  page: "docs/fastify.md",
  make: () => fastify(),
  handler: (act) => async (incoming: FastifyRequest, reply: FastifyReply) =>
    reply.code(await act(incoming.headers)).send(),
  async authenticate(incoming: FastifyRequest & { user?: unknown }) {
    if (incoming.headers["x-user"]) incoming.user = { id: incoming.headers["x-user"] };
  },
  hello(app) {
    // A block that listens by itself has declared all its routes.
    if (!app.server.listening) app.all("/*", async () => "hello");
  },
  async serve(app) {
    if (!app.server.listening) await app.listen({ port: 0 });
    return app.server;
  },
  holders: (app) => [app.rateLimit],
  close: (app) => app.close(),
};

const koaKit = (name: string, Make: typeof Koa, more?: Pick<Kit, "instead">): Kit<Koa> => ({
  name,
  page: "docs/koa.md",
  ...more,
  make: () => Object.assign(new Make(), { silent: true }), // Errors are answered; printed they are of no use.
  handler: (act): Middleware => {
    return async (ctx) => void (ctx.status = await act(ctx.headers));
  },
  authenticate: (async (ctx, next) => {
    if (ctx.get("x-user")) ctx.state["user"] = { id: ctx.get("x-user") };
    await next();
  }) satisfies Middleware,
  bodyParser: () => readJson,
  hello: (app) => void app.use((ctx) => void (ctx.body = "hello")),
  serve: (app, own) => listening(own ?? app.listen(0)),
  holders: (app) => app.middleware,
});

async function readJson(ctx: Context, next: () => Promise<unknown>): Promise<void> {
  let text = "";
  for await (const chunk of ctx.req) text += chunk;
  if (text) Object.assign(ctx.request, { body: JSON.parse(text) });
  await next();
}

export const kits: readonly Kit[] = [
  expressKit("Express 5", express),
  expressKit("Express 4", express4 as unknown as typeof express, { instead: ["express", "express4"] }),
  fastifyKit,
  koaKit("Koa 3", Koa),
  koaKit("Koa 2", Koa2, { instead: ["koa", "koa2"] }),
];
