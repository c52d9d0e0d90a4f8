/** What docs/simulate-in-ci.md shows, run as a team would run it. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { ip, slidingWindow, tokenBucket } from "@tidegate/core";
import { type PastRequest, simulate } from "@tidegate/core/simulate";
import { build } from "esbuild";
import { describe, expect, it, onTestFinished } from "vitest";
import { blocksOf, read, root } from "../docs/markdown.ts";
import { eventually } from "../harness/eventually.ts";
import { EPOCH_MS } from "../harness/pair.ts";

const page = read("docs/simulate-in-ci.md");
const [theTest, recorder, express] = blocksOf(page).filter(({ language }) => language === "ts");
const [shown] = blocksOf(page).filter(({ language }) => language === "text");

/** A folder within the repository, so that packages are found. */
function folder(): string {
  mkdirSync(join(root, ".cache"), { recursive: true });
  const made = mkdtempSync(join(root, ".cache/in-ci-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** TypeScript as a program that Node runs, our packages from source. */
async function program(text: string, outfile: string): Promise<void> {
  await build({
    stdin: { contents: text, loader: "ts", resolveDir: root },
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    conditions: ["@tidegate/source"],
    external: ["ioredis", "iovalkey", "redis", "express"],
    banner: {
      js: 'import { createRequire as requireFor } from "node:module"; const require = requireFor(import.meta.url);',
    },
    logLevel: "error",
  });
}

/** 38 clients that ask once, and two that ask 20 times and 11 times at once. */
const traffic: PastRequest[] = [
  ...Array.from({ length: 38 }, (_, i) => ({ at: EPOCH_MS + i, address: `192.0.2.${i}` })),
  ...Array.from({ length: 20 }, () => ({ at: EPOCH_MS + 5, address: "198.51.100.7" })),
  ...Array.from({ length: 11 }, () => ({ at: EPOCH_MS + 7, address: "198.51.100.8" })),
];

describe("docs/simulate-in-ci.md", () => {
  it.each([
    [20, 0, undefined],
    [8, 1, shown!.text.trim()],
  ])(
    "the test, with a bucket of %i: ends with %i",
    { timeout: 60_000 },
    async (capacity, status, message) => {
      const cwd = folder();
      const limits = `import { ip, tokenBucket } from "@tidegate/core";
      const limits = { by: ip(), policies: { burst: tokenBucket({ capacity: ${capacity}, refillPerSecond: 1 }) } };`;
      await program(`${limits}\n${theTest!.text}`, join(cwd, "limits.test.mjs"));
      writeFileSync(join(cwd, "traffic.ndjson"), traffic.map((line) => `${JSON.stringify(line)}\n`).join(""));
      const { NODE_TEST_CONTEXT: _, ...env } = process.env;
      const ran = spawnSync(process.execPath, ["--test", "limits.test.mjs"], { cwd, env, encoding: "utf8" });
      expect([ran.status, ran.stderr]).toEqual([status, ""]);
      if (message !== undefined) expect(ran.stdout).toContain(message);
    },
  );

  it(
    "the recorder: what it writes is traffic that can be simulated, and names nobody",
    { timeout: 60_000 },
    async () => {
      const cwd = folder();
      const app = `import express from "express";
      const secret = "s";
      const app = express();
      app.set("trust proxy", 1);
      ${recorder!.text}
      app.get("/gone", (req) => void req.socket.destroy());
      app.use((_req, res) => void res.status(201).end("hello"));
      export { app };`;
      await program(app, join(cwd, "app.mjs"));
      const before = process.cwd();
      process.chdir(cwd);
      onTestFinished(() => process.chdir(before));
      const server = createServer((await import(/* @vite-ignore */ join(cwd, "app.mjs"))).app).listen(0);
      onTestFinished(() => void server.close());
      const url = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
      const from = (address: string) => ({ headers: { "x-forwarded-for": address } });
      await fetch(`${url}/a?b=1`, { method: "POST", ...from("203.0.113.9") });
      await fetch(`${url}/c`, from("203.0.113.9"));
      await fetch(`${url}/gone`, from("2001:db8::7")).catch(() => {});

      const file = join(cwd, "traffic.ndjson");
      const written = () => (existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n") : []);
      await eventually("three lines are written", () => written().length === 3, 20_000);
      const log = written().map((line): PastRequest => JSON.parse(line));
      const told = log.map(({ method, url, status }) => `${url} ${method} ${status}`);
      // A line is written when its connection has let go of the response: not always in the order of requests.
      expect(told.toSorted()).toEqual(["/a?b=1 POST 201", "/c GET 201", "/gone GET 499"]);
      expect(written().join()).not.toMatch(/203\.0\.113|2001:db8/);
      const policies = { burst: tokenBucket({ capacity: 1, refillPerSecond: 0.001, by: ip() }) };
      const report = await simulate({ policies }, log);
      expect(report).toMatchObject({ identities: 2, identitiesRefused: 1, refused: 1, warnings: [] });
    },
  );

  it("patterns of Express: routes are told apart by them", { timeout: 60_000 }, async () => {
    const cwd = folder();
    await program(express!.text, join(cwd, "pattern.mjs"));
    const { pattern } = (await import(/* @vite-ignore */ join(cwd, "pattern.mjs"))) as {
      pattern: (text: string) => (path: string) => boolean;
    };
    const urls = ["/users/7", "/users/7/posts", "/users/8?x=1", "/"];
    const log = urls.map((url) => ({ at: EPOCH_MS, url, address: "192.0.2.1" }));
    const minute = slidingWindow({ limit: 1, window: "1m" });
    const routes = { "GET /users/:id": { policies: { own: minute } }, "/": false as const };
    const report = await simulate({ policies: { minute }, routes }, log, { pattern });
    expect(report.policies.map(({ name, requests }) => [name, requests])).toEqual([
      ["minute", 1],
      ["own", 2],
    ]);
    expect(report.notLimited).toBe(1);
  });
});
