/** The built command as a process of its own: what it takes to read what nobody should have written. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { createGzip } from "node:zlib";
import { Readable } from "node:stream";
import { expect, it } from "vitest";
import { linesOf } from "../../scripts/make-log.js";
import { fileWith } from "../cli/terminal.ts";

const main = fileURLToPath(new URL("../../packages/cli/dist/esm/main.js", import.meta.url));
/** Tells at the end how much memory the process ever had, kB. */
const watcher = `data:text/javascript,process.on("exit",()=>process.stderr.write("maxRSS="+process.resourceUsage().maxRSS))`;

const LINE = '192.0.2.1 - - [29/Nov/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 12 "-" "curl/8.5.0"\n';
const MB = 1 << 20;

async function simulated(input: AsyncIterable<Buffer> | Iterable<Buffer>, ...flags: string[]) {
  const policy = fileWith("limit: 1\nwindow: 1m\n");
  const words = ["--import", watcher, main, "simulate", "-", "--policy", policy, "--json", ...flags];
  const child = spawn(process.execPath, words, { stdio: "pipe" });
  let [out, err] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
  const ended = once(child, "close");
  // It may have read enough before the input ends.
  child.stdin.on("error", () => {});
  Readable.from(input, { highWaterMark: 1 }).pipe(child.stdin);
  const [code] = await ended;
  const maxRss = Number(/maxRSS=(\d+)/.exec(err)?.[1]) * 1024;
  return { code, report: JSON.parse(out), maxRss };
}

function* times(count: number, chunk: Buffer): Generator<Buffer> {
  for (let i = 0; i < count; i++) yield chunk;
}

it("reads past a line of 2 GB, with never more of it in memory than the beginning", async () => {
  function* input() {
    yield Buffer.from(LINE);
    yield* times(2048, Buffer.alloc(MB, "x"));
    yield Buffer.from(`\n${LINE}`);
  }
  const { code, report, maxRss } = await simulated(input());
  expect(report).toMatchObject({ lines: 3, requests: 2, refused: 1, broken: 1 });
  expect(report.files[0].firstBroken).toEqual([
    { line: 2, text: `${"x".repeat(119)}…`, why: "longer than 1 MB" },
  ]);
  expect(code).toBe(0);
  expect(maxRss).toBeLessThan(300 * MB);
}, 180_000);

it("stops at a gzip bomb, and says so", async () => {
  async function* input() {
    const gzip = Readable.from(times(512, Buffer.alloc(MB))).pipe(createGzip({ level: 1 }));
    yield* gzip as AsyncIterable<Buffer>;
  }
  const { code, report, maxRss } = await simulated(input(), "--max-ratio", "100");
  expect(report.files[0].problem).toBe(
    "it grows to more than 100 times its size, as no log does: --max-ratio allows more",
  );
  expect(report).toMatchObject({ requests: 0, lines: 1, broken: 1 });
  expect(code).toBe(0);
  expect(maxRss).toBeLessThan(300 * MB);
}, 120_000);

it("reads garbage of 20 MB to its end", async () => {
  let seed = 1;
  const garbage = Buffer.from(
    Uint8Array.from({ length: MB }, () => (seed = (seed * 48_271) % 2_147_483_647) & 255),
  );
  function* input() {
    yield Buffer.from(LINE);
    yield* times(20, garbage);
    yield Buffer.from(`\n${LINE}`);
  }
  const { code, report, maxRss } = await simulated(input());
  expect(report).toMatchObject({ requests: 2, refused: 1 });
  expect(report.broken).toBe(report.lines - 2);
  expect(report.broken).toBeGreaterThan(1000);
  expect(code).toBe(0);
  expect(maxRss).toBeLessThan(400 * MB);
}, 120_000);

it("replays a million lines of a hundred thousand clients, against two policies, in less than 500 MB", async () => {
  function* input() {
    let chunk: string[] = [];
    for (const line of linesOf({ lines: 1_000_000, seed: 1, format: "combined" })) {
      chunk.push(line);
      if (chunk.length < 1000) continue;
      yield Buffer.from(`${chunk.join("\n")}\n`);
      chunk = [];
    }
  }
  const policies = `policies:
  perMinute: { algorithm: slidingWindow, limit: 60, window: 1m }
  burst: { algorithm: tokenBucket, capacity: 20, refillPerSecond: 2 }
`;
  const { code, report, maxRss } = await simulated(input(), "--policy", fileWith(policies));
  expect(report).toMatchObject({ lines: 1_000_000, requests: 1_000_000, broken: 0, identities: 100_003 });
  expect(report.policies).toHaveLength(2);
  expect(code).toBe(0);
  expect(maxRss).toBeLessThan(500 * MB);
}, 240_000);
