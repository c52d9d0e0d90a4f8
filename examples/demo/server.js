/**
 * A small API behind a rate limit, and a burst of requests against it. `npm run demo` runs it, with
 * `-- --once` only until the burst is over.
 *
 *     REDIS_URL  a Redis to count in; without it, this process's memory
 *     PORT       a port; without it, a free one
 */
import { once } from "node:events";
import { createServer } from "node:http";
import { ipOf, rateLimit, tokenBucket } from "@tidegate/express";
import express from "express";

const BURST = 12;
const { REDIS_URL, PORT = "0" } = process.env;

/** @type {string | undefined} */
let trouble;
const limit = rateLimit({
  redis: REDIS_URL || undefined,
  prefix: "tidegate-demo",
  timeoutMs: 1000, // The default is 50. A machine that is busy with other things shall show the same table.
  policies: { burst: tokenBucket({ capacity: 10, refillPerSecond: 5 }) },
  onEvent: (event) => {
    if (event.type === "storeError") trouble = event.message;
  },
});

const app = express();
app.use(limit);
app.get("/", (_req, res) => {
  res.json({ hello: "world" });
});

const server = createServer(app);
server.listen(Number(PORT), "127.0.0.1");
await once(server, "listening");
const address = server.address();
const url = `http://127.0.0.1:${typeof address === "object" ? address?.port : PORT}/`;

for (const signal of ["SIGINT", "SIGTERM"])
  process.once(signal, () => void stop().then(() => process.exit()));

// A cost of 0 looks and takes nothing: it only finds out whether the store answers.
await limit.limiter.decide({ identity: ipOf("127.0.0.1"), cost: 0 });
console.log(`\nAn Express API on ${url}`);
console.log('Policy "burst": a bucket of 10 tokens, 5 come back per second');
console.log(`Store: ${storeName()}`);
if (trouble) console.log(`  degraded: ${trouble}. Requests pass uncounted (fail open).`);

const answers = await burst();
console.log(`\n${BURST} requests, one after another:\n`);
console.log(
  table([
    ["no.", "status", "RateLimit", "Retry-After"],
    ...answers.map(({ status, headers }, i) => [
      String(i + 1),
      String(status),
      headers.get("RateLimit") ?? "-",
      headers.get("Retry-After") ?? "-",
    ]),
  ]),
);
console.log(`\nRateLimit-Policy: ${answers[0]?.headers.get("RateLimit-Policy")}`);

if (process.argv.includes("--once")) await stop();
else console.log(`\nTry it by hand, Ctrl-C ends it:\n\n    curl -i ${url}\n`);

function storeName() {
  if (!REDIS_URL) return "this process's memory. REDIS_URL=redis://localhost:6379 counts in Redis";
  return `Redis at ${withoutPassword(REDIS_URL)}, keys begin with "tidegate-demo" and expire by themselves`;
}

async function burst() {
  const answers = [];
  for (let i = 0; i < BURST; i++) {
    const answer = await fetch(url);
    await answer.arrayBuffer();
    answers.push(answer);
  }
  return answers;
}

/** @param {string[][]} rows */
function table(rows) {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (/** @type {string[]} */ row) =>
    row.map((cell, i) => cell.padEnd(widths?.[i] ?? 0)).join("  ");
  return rows.map((row) => `  ${line(row)}`.trimEnd()).join("\n");
}

/** @param {string} text */
function withoutPassword(text) {
  return text.replace(/\/\/[^@/]*@/, "//…@");
}

/** Nothing is left open, so the process ends by itself, with 0. */
async function stop() {
  server.close();
  server.closeAllConnections();
  await limit.limiter.close();
}
