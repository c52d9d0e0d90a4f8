/** docs/failure.md: its blocks are run against a Redis that is not there, and its tables are held to the sources. */
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { Server } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type FailureRule, fixedWindow, type Limiter } from "@tidegate/core";
import { rateLimit } from "@tidegate/express";
import express, { type Express } from "express";
import type { Redis } from "ioredis";
import { afterAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { faults } from "../../bench/faults/faults.js";
import { products } from "../../bench/faults/products.js";
import { eventually } from "../harness/eventually.ts";
import { listening, passed, visit, visits } from "../harness/http.ts";
import { freePort, startRedis } from "../harness/redis.ts";
import { type Block, blockOf, blocksOf, read, root, sectionOf, tablesOf } from "./markdown.ts";

const page = read("docs/failure.md");

/** The only ts block under a heading. Deeper headings have their own. */
function block(heading: string): Block {
  const own = sectionOf(page, heading).split(/\n#{3,} /)[0]!;
  const found = blocksOf(own).filter(({ language }) => language === "ts");
  expect(found, `ts blocks under ${heading}`).toHaveLength(1);
  return found[0]!;
}

const folder = mkFolder();
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function mkFolder(): string {
  mkdirSync(join(root, ".cache"), { recursive: true });
  return mkdtempSync(join(root, ".cache/failure-page-"));
}

const GIVEN = Symbol.for("tidegate.docs.failure");
let modules = 0;

/** What a block has made, and the application that it was run in. Nobody listens at its Redis. */
async function run(heading: string, values: Record<string, unknown> = {}) {
  const { preamble, text } = block(heading);
  const app = express();
  const port = await freePort();
  vi.stubEnv("REDIS_URL", `redis://127.0.0.1:${port}`);
  Object.assign(globalThis, { [GIVEN]: { app, ...values } });
  const names = [...text.matchAll(/^const (\w+)/gm)].map(([, name]) => name);
  const module = [
    `const given = (globalThis as any)[Symbol.for("tidegate.docs.failure")];`,
    preamble.replace(/declare const (\w+): [^;]*;/g, "const $1 = given.$1;"),
    text.replace("app.listen(3000)", "app.listen(0)"),
    `export const made = { ${names.join(", ")} };`,
  ];
  const file = join(folder, `block-${modules++}.ts`);
  writeFileSync(file, module.join("\n"));
  const { made } = (await import(/* @vite-ignore */ file)) as { made: Record<string, any> };
  vi.unstubAllEnvs();
  for (const limiter of limitersOf(app)) onTestFinished(() => limiter.close());
  return { app, made, port };
}

const limitersOf = (app: Express): Limiter[] =>
  (app.router?.stack ?? []).flatMap(({ handle }) => (handle as { limiter?: Limiter }).limiter ?? []);

/** Says hello to whoever passes. */
const hello = (app: Express): Server =>
  listening(app.use((_req, res) => void res.end("hello")) as unknown as Express);

const statuses = (answers: { status: number }[]) => answers.map(({ status }) => status);

/** Codes of warnings that went to the process, as nobody listened. */
function warnings(): string[] {
  const codes: string[] = [];
  const spy = vi.spyOn(process, "emitWarning");
  spy.mockImplementation((_, options) => void codes.push((options as { code: string }).code));
  onTestFinished(() => spy.mockRestore());
  return codes;
}

describe("The deadline", () => {
  const slow = (ms: number) => ({ isKnownKey: () => sleep(ms, true) });

  it("a function that takes longer than Redis may is waited for, for its own time", async () => {
    const told = warnings();
    const { app } = await run("The deadline", slow(150));
    const start = performance.now();
    expect(await visit(hello(app), { "x-api-key": "sk" })).toEqual(
      passed({ "RateLimit-Policy": '"default";q=100;w=60' }),
    );
    expect(performance.now() - start).toBeGreaterThanOrEqual(149);
    expect(told).toEqual(["TIDEGATE_STORE_AWAY"]);
  });

  it("and no longer: its request is counted by address", async () => {
    const told = warnings();
    const { app } = await run("The deadline", slow(5000));
    const start = performance.now();
    expect((await visit(hello(app), { "x-api-key": "sk" })).status).toBe(200);
    expect(performance.now() - start).toBeLessThan(4000);
    expect(told).toEqual(["TIDEGATE_IDENTITY_FAULT", "TIDEGATE_STORE_AWAY"]);
  });
});

describe("The rules", () => {
  it("hold for the limiter, the route and the policy that they are said of, and the strictest holds", async () => {
    const { app } = await run("The rules");
    const door = hello(app);
    const API = { "RateLimit-Policy": '"api";q=50;w=5' };
    expect(await visit(door)).toEqual(passed(API));
    const post = async (path: string) => {
      const response = await fetch(`http://127.0.0.1:${portOf(door)}${path}`, { method: "POST" });
      return [response.status, response.headers.get("ratelimit-policy"), response.headers.get("ratelimit")];
    };
    const here = '"loginHere";q=3;w=900';
    const logins = [];
    for (let i = 0; i < 4; i++) logins.push(await post("/login"));
    expect(logins.map(([status]) => status)).toEqual([200, 200, 200, 429]);
    expect(logins[0]).toEqual([200, here, '"loginHere";r=2;t=900']);
    expect(await post("/payments")).toEqual([503, null, null]);
    expect(await post("/exports")).toEqual([503, null, null]);
  });

  const SPARE = { spare: fixedWindow({ limit: 2, window: "1m" }) };
  const rules: Record<string, FailureRule> = {
    '"open"': "open",
    '"closed"': "closed",
    '"local"': "local",
    "{ local: policies }": { local: SPARE },
  };
  const rows = tablesOf(sectionOf(page, "The rules"))[0]!;

  it.each(rows.map((row): [string, Record<string, string>] => [nameOf(row["rule"]!), row]))(
    "%s answers as its line says",
    async (name, row) => {
      const limit = rateLimit({
        redis: `redis://127.0.0.1:${await freePort()}`,
        policies: { shared: fixedWindow({ limit: 10, window: "1m" }) },
        onFailure: rules[name]!,
        instances: 5,
      });
      onTestFinished(() => limit.limiter.close());
      const { status, fields } = await visit(hello(express().use(limit)));
      expect(status).toBe(row["the request"]!.includes("503") ? 503 : 200);
      const policy = { yes: '"shared";q=10;w=60', "with those parts": '"shared";q=2;w=60' };
      const shown = { ...policy, "of those policies": '"spare";q=2;w=60' }[row["RateLimit-Policy"]!];
      expect(fields["RateLimit-Policy"]).toBe(shown);
      expect("RateLimit" in fields).toBe(row["RateLimit"] === "the same");
    },
  );

  it("there is a line for every rule", () => {
    expect(rows.map((row) => nameOf(row["rule"]!))).toEqual(Object.keys(rules));
  });

  it("closed answers as it is shown, over the wire", async () => {
    const limit = rateLimit({
      redis: `redis://127.0.0.1:${await freePort()}`,
      limit: 1,
      window: 1000,
      onFailure: "closed",
    });
    onTestFinished(() => limit.limiter.close());
    const shown = blockOf(sectionOf(page, "Closed"), "http").trim().split("\n");
    const answer = (await raw(portOf(hello(express().use(limit))))).split("\r\n");
    expect([answer[0], answer.at(-1)]).toEqual([shown[0], shown.at(-1)]);
    expect(answer.filter((line) => shown.includes(line))).toEqual(expect.arrayContaining(shown));
  });

  it("local lets a process's part pass, and no more", async () => {
    const { app } = await run("Local");
    const door = hello(app);
    const fields = { "RateLimit-Policy": '"default";q=150;w=60' };
    expect((await visit(door)).fields).toMatchObject(fields);
    const seen = statuses(await visits(150, door));
    expect(seen).toEqual([...Array(149).fill(200), 429]);
    expect(page).toContain(`\`RateLimit-Policy: ${fields["RateLimit-Policy"]}\``);
  });

  it("without HTTP the decision says which rule answered, and why", async () => {
    const log = vi.spyOn(console, "log").mockImplementation(() => {});
    onTestFinished(() => log.mockRestore());
    const { made } = await run("Without HTTP");
    onTestFinished(() => made["limiter"].close());
    expect(log.mock.calls).toEqual([["not now: connection"]]);
  });
});

it("A client that is shared gets no listener for its errors, and is left open", async () => {
  const error = vi.spyOn(console, "error").mockImplementation(() => {});
  onTestFinished(() => error.mockRestore());
  const { app, made } = await run("Late answers, and doubles");
  const redis = made["redis"] as Redis;
  onTestFinished(() => redis.disconnect());
  expect(await visit(hello(app))).toEqual(passed({ "RateLimit-Policy": '"default";q=100;w=60' }));
  for (const limiter of limitersOf(app)) await limiter.close();
  expect(redis.listenerCount("error")).toBe(0);
  expect(redis.status).not.toBe("end");
});

it("At SIGTERM requests under way are answered, the server ends, and then the limiter", async () => {
  const before = process.listeners("SIGTERM");
  const { app, made } = await run("At the end");
  const terminate = process.listeners("SIGTERM").find((each) => !before.includes(each))!;
  onTestFinished(() => void process.off("SIGTERM", terminate));
  const { limiter } = made["limit"] as { limiter: Limiter };
  const close = vi.spyOn(limiter, "close");
  let answer: (() => void) | undefined;
  app.get("/", (_req, res) => void (answer = () => res.end("late")));

  const server = made["server"] as Server;
  const ended = once(server, "close");
  const asked = fetch(`http://127.0.0.1:${portOf(server)}/`, { headers: { connection: "close" } });
  await eventually("the request has arrived", () => answer, 20_000);
  terminate("SIGTERM");
  await sleep(100);
  expect(close).not.toHaveBeenCalled();
  answer!();
  expect(await (await asked).text()).toBe("late");
  await ended;
  expect(close).toHaveBeenCalledOnce();
});

it("An outage is told of once, and so is its end", async () => {
  const told: string[] = [];
  const pager = { alert: (text: string) => told.push(text), resolve: (text: string) => told.push(text) };
  const { app, port } = await run("Hearing of it", { pager });
  const door = hello(app);
  await visits(8, door);
  expect(told).toEqual([expect.stringMatching(/^no limits: connection, there is no connection/)]);
  const server = await startRedis({ port });
  onTestFinished(() => server.stop());
  await eventually("Redis decides", async () => "RateLimit" in (await visit(door)).fields, 10_000);
  expect(told).toHaveLength(2);
  expect(told[1]).toMatch(/^limits again, after \d+ ms$/);
});

describe("The page", () => {
  it("says what happens for every class of store error", () => {
    const source = read("packages/core/src/errors.ts").replace(/\/\*\*[^]*?\*\//g, "");
    const [, union] = /export type StoreErrorClass =([^;]*);/.exec(source)!;
    const classes = [...union!.matchAll(/"(\w+)"/g)].map(([, name]) => name!);
    const rows = tablesOf(sectionOf(page, "What may happen"))[0]!;
    const told = rows.flatMap((row) => row["class"]!.match(/\w+/g) ?? []);
    expect([...new Set(told)].sort()).toEqual(classes.sort());
  });

  it.each([
    ["failure/breaker.ts", "FAILURES", 5, "After five failures"],
    ["failure/breaker.ts", "PROBE_MS", 200, "Every 200 ms"],
    ["failure/fallback.ts", "MOST_LOCAL", 10_000, "At most 10,000 identities"],
    ["stores/redis.ts", "MOST_WAITING", 1000, "a thousand batches wait"],
    ["stores/redis.ts", "DECIDED_MS", 2000, "two seconds beyond the deadline"],
    ["stores/redis.ts", "RENEW_MS", 1000, "at most once a second"],
  ])("%s: %s is %d, as it says", (file, name, number, words) => {
    const [, found] = new RegExp(`const ${name} = ([\\d_]+);`).exec(read(`packages/core/src/${file}`))!;
    expect(Number(found!.replaceAll("_", ""))).toBe(number);
    expect(page).toContain(words);
  });

  it("keeps a measurement of every limiter under every fault", () => {
    const [, made] =
      /<!-- made by: npm run bench -- --section faults -->([^]*?)<!-- end of what was made -->/.exec(page)!;
    const tables = tablesOf(made!);
    expect(tables).toHaveLength(faults.length);
    for (const rows of tables) expect(rows.map((row) => row[""])).toEqual(products.map(({ name }) => name));
    for (const { title } of faults) expect(made!.toLowerCase()).toContain(title.toLowerCase());
  });
});

const portOf = (server: Server): number => (server.address() as { port: number }).port;

/** A cell's rule, without what is said of it. */
const nameOf = (cell: string): string => /^`?([^`,]*)/.exec(cell)![1]!.trim();

/** The whole answer to one request, as bytes came. */
async function raw(port: number): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  let text = "";
  socket.on("data", (chunk) => (text += chunk));
  await once(socket, "close");
  return text;
}
