/** Load by the example's own tools: what passes is what the arithmetic says. k6 itself is not here. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { memoryStore } from "@tidegate/express";
import { describe, expect, it, onTestFinished } from "vitest";
import { judge } from "../../examples/load/autocannon.js";
import { createApi } from "../../examples/load/server.js";
import { fakeClock } from "../harness/clock.ts";
import { ownRedis, PATIENT, visit, visits } from "../harness/http.ts";
import { freePort } from "../harness/redis.ts";

const folder = fileURLToPath(new URL("../../examples/load/", import.meta.url));
const read = (file: string): string => readFileSync(join(folder, file), "utf8");

/** The example's API on a port, until the test is over. */
async function serving(config: Parameters<typeof createApi>[0]): Promise<{ server: Server; url: string }> {
  const { app, close } = createApi({ ...PATIENT, ...config });
  const server = app.listen(0, "127.0.0.1");
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await close();
  });
  await once(server, "listening");
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` };
}

/** Runs Node to its end. */
async function run(args: string[], cwd = folder): Promise<{ code: number; said: string }> {
  const child = spawn(process.execPath, args, { cwd });
  onTestFinished(() => void child.kill("SIGKILL"));
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
  const [code] = await once(child, "close");
  return { code, said };
}

/** What the server itself saw: when each request came, and how it was answered. */
function watch(server: Server) {
  const seen: { ms: number; status: number; tellsLimit: boolean }[] = [];
  server.on("request", (_req, res) => {
    const ms = performance.now();
    res.on("finish", () => seen.push({ ms, status: res.statusCode, tellsLimit: res.hasHeader("RateLimit") }));
  });
  return seen;
}

describe("autocannon.js", () => {
  it("sees what the bucket holds and what flows in pass, on Redis, give or take one", async () => {
    const { server, url } = await serving({ redis: (await ownRedis()).url });
    const seen = watch(server);
    const { code, said } = await run(["autocannon.js", url, "--seconds", "5"]);

    const counted = seen.slice(1); // Before comes the one that warms up.
    const passed = counted.filter(({ status }) => status === 200).length;
    const refused = counted.filter(({ status }) => status === 429).length;
    const times = counted.map(({ ms }) => ms);
    const seconds = (Math.max(...times) - Math.min(...times)) / 1000;
    expect(passed + refused).toBe(100);
    expect(counted.filter(({ tellsLimit }) => !tellsLimit)).toEqual([]);
    expect(Math.abs(passed - Math.floor(10 + 5 * seconds))).toBeLessThanOrEqual(1);

    expect(said).toContain(`200: ${passed}, 429: ${refused}, other: 0, without RateLimit: 0, no answer: 0\n`);
    expect(said).toContain(`The limit holds: ${passed} passed, and 10 + 5 × `);
    expect(code).toBe(0);
  });

  it("ends with 1 when fewer pass than must", async () => {
    const { url } = await serving({});
    const larger = ["--capacity", "20", "--refill", "100"];
    const { code, said } = await run(["autocannon.js", url, "--seconds", "1", ...larger]);
    expect(said).toMatch(
      /^The limit does not hold: \d+ passed, and 20 \+ 100 × \d\.\d s lets 19 to 21 pass\.$/m,
    );
    expect(code).toBe(1);
  });

  it("refuses a number that is none", async () => {
    const { code, said } = await run(["autocannon.js", "http://127.0.0.1:1/", "--seconds", "soon"]);
    expect(said).toContain("--seconds must be a number above 0, got soon.");
    expect(code).toBe(1);
  });
});

/** Requests one after the other, `everyMs` apart, each answered after `delayMs`; the first of them pass. */
const traffic = (count: number, everyMs: number, passed: number, delayMs = 0) =>
  Array.from({ length: count }, (_, i) => ({
    status: i < passed ? 200 : 429,
    tellsLimit: true,
    sentMs: 1000 + i * everyMs,
    answeredMs: 1000 + i * everyMs + delayMs,
  }));

describe("The judgement on a bucket of 10, 5 per second", () => {
  const bucket = { capacity: 10, refill: 5 };

  // 599 × 50 ms are 29.95 s, and 10 + 5 × 29.95 = 159.75.
  it.each([
    [157, false],
    [158, true],
    [160, true],
    [161, false],
  ])("600 requests, one every 50 ms, of which %i pass: %s", (passed, holds) => {
    const verdict = judge({ requests: 600, answers: traffic(600, 50, passed) }, bucket);
    expect(verdict).toMatchObject({
      holds,
      passed,
      refused: 600 - passed,
      least: 158,
      most: 160,
      ms: 29_950,
    });
  });

  it("asks no more to pass than came", () => {
    expect(judge({ requests: 8, answers: traffic(8, 0, 8) }, bucket)).toMatchObject({
      holds: true,
      least: 7,
    });
  });

  it("allows for not knowing when a slow answer was decided", () => {
    const answers = traffic(100, 50, 30, 400);
    expect(judge({ requests: 100, answers }, bucket)).toMatchObject({ least: 31, most: 37 });
  });

  const [first, ...rest] = traffic(20, 0, 10) as [ReturnType<typeof traffic>[0]];
  it.each([
    ["other", [{ ...first, status: 503 }, ...rest]],
    ["untold", [{ ...first, tellsLimit: false }, ...rest]],
    ["unanswered", rest],
  ])("finds one that is %s", (fault, answers) => {
    expect(judge({ requests: 20, answers: traffic(20, 0, 10) }, bucket).holds).toBe(true);
    expect(judge({ requests: 20, answers }, bucket)).toMatchObject({ holds: false, [fault]: 1 });
  });

  it("does not hold when nothing is answered", () => {
    expect(judge({ requests: 20, answers: [] }, bucket)).toMatchObject({ holds: false, unanswered: 20 });
  });
});

describe("server.js", () => {
  it("counts a key for itself, and one that nobody knows by address", async () => {
    const { server } = await serving({ store: memoryStore({ nowUs: fakeClock().now }) });
    const full = [...Array(10).fill(200), 429];
    const statuses = async (key: string) =>
      (await visits(11, server, { "x-api-key": key })).map(({ status }) => status);
    expect(await statuses("load-a")).toEqual(full);
    expect(await statuses("load-b")).toEqual(full);
    expect(await statuses("invented")).toEqual(full);
    expect((await visit(server)).status).toBe(429);
  });

  it("stands as a program until SIGTERM, and ends with 0", async () => {
    const port = await freePort();
    const child = spawn(process.execPath, ["server.js"], {
      cwd: folder,
      env: { ...process.env, REDIS_URL: "", PORT: String(port) },
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const ended = once(child, "exit");
    await once(child.stdout, "data");
    const answer = await fetch(`http://127.0.0.1:${port}/`);
    expect(answer.headers.get("RateLimit-Policy")).toBe('"burst";q=10;w=2');
    child.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
  });
});

/** What stands for k6's modules: they keep what they are given, and every response has the fields of `told`. */
const K6 = `
  export const told = { urls: [], checks: [] };
  export const check = (value, checks) =>
    told.checks.push(...Object.entries(checks).map(([name, holds]) => [name, holds(value)]));
`;
const K6_HTTP = `
  import { told } from "k6";
  export default {
    expectedStatuses: (...statuses) => statuses,
    setResponseCallback: (expected) => (told.expected = expected),
    get: (url) => (told.urls.push(url), { headers: told.fields }),
  };
`;
/** Two iterations. k6 spells the names of fields as Go does. */
const K6_RUN = `
  globalThis.__ENV = {};
  const { told } = await import("k6");
  const { default: iterate, options } = await import("./k6.js");
  told.fields = { Ratelimit: "x" };
  iterate();
  __ENV.URL = "http://elsewhere.example/";
  told.fields = { "Ratelimit-Policy": "x" };
  iterate();
  console.log(JSON.stringify({ ...told, options }));
`;

async function runK6Script() {
  const dir = mkdtempSync(join(tmpdir(), "tidegate-k6-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const modules = join(dir, "node_modules/k6");
  mkdirSync(modules, { recursive: true });
  const exports = { ".": "./index.js", "./http": "./http.js" };
  cpSync(new URL("../../examples/load/k6.js", import.meta.url), join(dir, "k6.js"));
  writeFileSync(join(dir, "package.json"), JSON.stringify({ type: "module" }));
  writeFileSync(join(modules, "package.json"), JSON.stringify({ type: "module", exports }));
  writeFileSync(join(modules, "index.js"), K6);
  writeFileSync(join(modules, "http.js"), K6_HTTP);
  return JSON.parse((await run(["--input-type=module", "--eval", K6_RUN], dir)).said);
}

it("k6.js sends 20 requests a second for 30 s, and fails on other statuses, a missing RateLimit or a wrong count", async () => {
  // 600 requests are 29.95 s, 601 are 30 s: one less than the fewer, one more than the more.
  const [least, most] = [Math.floor(10 + 5 * 29.95) - 1, Math.floor(10 + 5 * 30) + 1];
  expect(await runK6Script()).toEqual({
    options: {
      scenarios: {
        even: {
          executor: "constant-arrival-rate",
          rate: 20,
          timeUnit: "1s",
          duration: "30s",
          preAllocatedVUs: 20,
          maxVUs: 50,
        },
      },
      thresholds: {
        http_req_failed: ["rate<0.01"],
        checks: ["rate==1"],
        "http_reqs{status:200}": [`count>=${least}`, `count<=${most}`],
      },
    },
    expected: [200, 429],
    urls: ["http://127.0.0.1:8080/", "http://elsewhere.example/"],
    checks: [
      ["carries RateLimit", true],
      ["carries RateLimit", false],
    ],
    fields: { "Ratelimit-Policy": "x" },
  });
});

describe("README.md", () => {
  const readme = read("README.md");

  it("adds up", () => {
    const sums = [...readme.matchAll(/⌊(\d+) \+ (\d+) × ([\d.]+)⌋ = (\d+)/g)].map((sum) =>
      sum.slice(1).map(Number),
    );
    expect(sums.length).toBeGreaterThanOrEqual(4);
    for (const [burst, rate, seconds, passed] of sums)
      expect(Math.floor(burst! + rate! * seconds!)).toBe(passed);
  });

  it("names the command that hey.sh runs", () => {
    expect(read("hey.sh")).toContain("\nexec hey -z 30s -c 20 -q 1 ");
    expect(readme).toContain("hey -z 30s -c 20 -q 1 http://127.0.0.1:8080/\n");
  });
});
