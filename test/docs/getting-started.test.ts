/** docs/getting-started.md: its programs are run, its lines for the shell too, and what it shows of them comes so. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { Server } from "node:http";
import { join } from "node:path";
import express, { type Express } from "express";
import type { FastifyInstance } from "fastify";
import { register } from "prom-client";
import { afterAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { parse } from "yaml";
import { eventually } from "../harness/eventually.ts";
import { limiting, listening, useRedis } from "../harness/http.ts";
import { freePort } from "../harness/redis.ts";
import { blocksOf, read, root, sectionOf } from "./markdown.ts";
import { codeOf, cook } from "./recipes.ts";

const PAGE = "docs/getting-started.md";
const page = read(PAGE);
const redis = useRedis();

/** Places of the programs among the page's blocks of code. */
const [EXPRESS, METRICS, FASTIFY, KOA] = [0, 1, 2, 3] as const;

/** A program of the page, in the test's own time, until the test is over. */
async function started(place: number): Promise<number> {
  const port = await freePort();
  vi.stubEnv("PORT", String(port));
  const { app, server } = await cook(PAGE, place, { store: redis.store });
  onTestFinished(async () => {
    if (place === FASTIFY) return (app as FastifyInstance).close();
    (server as Server).closeAllConnections();
    (server as Server).close();
    return undefined;
  });
  return port;
}

/** What a line of the page says, with the port of the test. Not in step with this process, which has to answer it. */
async function shell(line: string, port: number): Promise<string> {
  const child = spawn("sh", ["-c", line.replaceAll("localhost:3000", `127.0.0.1:${port}`)]);
  let said = "";
  child.stdout.on("data", (chunk) => (said += chunk));
  const [code] = await once(child, "close");
  expect(code, line).toBe(0);
  return said.trim();
}

/** Lines for the shell, each with what the page shows below it, if anything. */
const lines = (heading: string) => {
  const blocks = blocksOf(sectionOf(page, heading));
  return blocks.flatMap(({ language, text }, i) => {
    const below = blocks[i + 1];
    const shown = below && ["text", "http"].includes(below.language) ? below.text.trim() : undefined;
    return language === "sh" ? [{ line: text.trim(), shown }] : [];
  });
};

it("a Redis that is there says what the page says", async () => {
  const { line, shown } = lines("A Redis").at(-1)!;
  expect(await shell(line.replace("redis-cli", `redis-cli -u ${redis.url}`), 0)).toBe(shown);
});

it("the burst, the refusal, the other key and the keys in Redis are as shown", async () => {
  const port = await started(EXPRESS);
  const [burst, refusal, other, keys] = lines("A burst");
  expect(await shell(burst!.line, port)).toBe(burst!.shown);

  const answer = (await shell(refusal!.line, port)).split("\r\n");
  const shown = refusal!.shown!.split("\n");
  expect([answer[0], answer.at(-1)]).toEqual([shown[0], shown.at(-1)]);
  expect(answer.filter((line) => shown.includes(line))).toEqual(expect.arrayContaining(shown));

  redis.clock.advance(1000);
  expect(await shell(refusal!.line, port)).toMatch(/^HTTP\/1\.1 200 OK/);
  expect(await shell(other!.line, port)).toBe(other!.shown);
  const found = await shell(keys!.line.replace("redis-cli", `redis-cli -u ${redis.url}`), 0);
  const ours = found.split("\n").filter((key) => !key.endsWith(":kept"));
  expect(ours.toSorted().map((key) => key.replace(/key:[\w-]{22}/, "key:…"))).toEqual([
    "rl:{ip:127.0.0.1}:perAddress:sw",
    "rl:{key:…}:perKey:tb",
    "rl:{key:…}:perKey:tb",
  ]);
  expect(ours).toContain(keys!.shown);
  expect(found).not.toMatch(/anna|bert/);
});

describe.each([
  ["Express", EXPRESS],
  ["Fastify", FASTIFY],
  ["Koa", KOA],
])("The program for %s", (_, place) => {
  it("lets ten of a key pass at once, and counts keys that nobody knows by address", async () => {
    const port = await started(place);
    const statuses = async (count: number, key: (i: number) => string) => {
      const seen: number[] = [];
      for (let i = 0; i < count; i++) {
        const response = await fetch(`http://127.0.0.1:${port}/`, { headers: { "x-api-key": key(i) } });
        await response.text();
        seen.push(response.status);
      }
      return seen;
    };
    expect(await statuses(12, () => "k-anna")).toEqual([...Array(10).fill(200), 429, 429]);
    expect(await statuses(1, () => "k-bert")).toEqual([200]);
    expect(await statuses(11, (i) => `invented-${i}`)).toEqual([...Array(10).fill(200), 429]);
  });
});

describe("A metric to be woken by", () => {
  it("counts what nobody limits while Redis is away, as shown, and the alert asks for it", async () => {
    onTestFinished(() => register.clear());
    const app = express();
    await cook(PAGE, METRICS, { values: { app } });
    app.use(limiting({ redis: `redis://127.0.0.1:${await freePort()}`, limit: 1, window: "1m" }));
    app.use((_req, res) => void res.send("hello"));
    const { port } = listening(app as Express).address() as { port: number };
    expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(200);
    const { line, shown } = lines("A metric to be woken by")[0]!;
    expect(await shell(line, port)).toBe(shown);

    const alert = parse(blocksOf(sectionOf(page, "A metric to be woken by")).find(isYaml)!.text);
    const [, metric] = /increase\((\w+)\[/.exec(alert.expr)!;
    expect(shown).toContain(metric);
    const [rule] = parse(read("docs/alerts/tidegate.rules.yml")).groups[0].rules;
    expect(alert).toEqual({ expr: rule.expr, for: rule.for });
  });
});

const isYaml = ({ language }: { language: string }) => language === "yaml";

describe("As a program of its own", () => {
  mkdirSync(join(root, ".cache"), { recursive: true });
  const folder = mkdtempSync(join(root, ".cache/getting-started-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("node app.mjs serves, counts in Redis, every key in it has an expiry, and SIGTERM ends it well", async () => {
    const file = join(folder, "app.mjs");
    writeFileSync(file, codeOf(PAGE)[EXPRESS]!.text);
    const port = await freePort();
    const child: ChildProcess = spawn(process.execPath, [file], {
      env: { ...process.env, REDIS_URL: redis.url, PORT: String(port) },
      stdio: "inherit",
    });
    const gone = once(child, "exit");
    onTestFinished(async () => {
      child.kill("SIGKILL");
      await gone;
    });
    const ask = () =>
      fetch(`http://127.0.0.1:${port}/`, { headers: { "x-api-key": "k-anna" } }).catch(() => null);
    await eventually("it answers", ask, 20_000);
    let keys: string[] = [];
    // A bucket that is full again has no key, so one more request, until both are seen at once.
    await eventually("both policies count", async () => {
      await ask();
      keys = await redis.client.keys("*");
      return keys.length === 2;
    });
    expect(keys.toSorted().map((key) => key.replace(/key:[\w-]{22}/, "key:…"))).toEqual([
      "rl:{ip:127.0.0.1}:perAddress:sw",
      "rl:{key:…}:perKey:tb",
    ]);
    for (const key of keys) expect(await redis.client.pttl(key), key).not.toBe(-1);
    child.kill("SIGTERM");
    expect(await gone).toEqual([0, null]);
  });
});
