/**
 * An access log that nobody wrote: for measuring, and for tests that know what has to come out.
 * `node scripts/make-log.js --lines 1000000 --seed 1 --format combined --out access.log`; without `--out`, to standard
 * output. The same lines and seed give the same bytes.
 *
 * 100 requests a second, of four kinds: 100,000 clients, of whom the k-th asks as often as 1/k says, and each at least
 * once where there are lines enough; a bot that asks every 200 ms; an office of 500 users behind one address, who
 * together ask every 100 ms; and, halfway through, one client that asks for 2 % of everything within five seconds.
 */
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { randomNumbers, zipfShares } from "../bench/lib/traffic.js";

/**
 * Times are whole milliseconds.
 *
 * @typedef {{ at: number, durationMs: number, method: string, url: string, address: string, user?: string, status: number, agent: string }} Request
 */

/** 2026-11-29T00:00:00Z, ms since 1970. */
export const START_MS = 1_795_910_400_000;

/** On average one request each. */
const PACE_MS = 10;

export const CLIENTS = 100_000;

export const BOT = { address: "198.51.100.7", everyMs: 200 };
export const NAT = { address: "203.0.113.9", everyMs: 100, users: 500 };
export const BURST = { address: "198.51.100.44", share: 0.02, lastsMs: 5000 };

const AGENTS = [
  "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
  "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/605.1.15",
  "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
  "okhttp/5.1.0",
];
const PATHS = [
  "/",
  "/products",
  "/products/17?ref=home",
  "/search?q=shoes",
  "/cart",
  "/api/v1/items",
  "/login",
];
const STATUSES = [200, 200, 200, 200, 200, 200, 204, 302, 304, 401, 404, 500];

/**
 * All requests, in the order in which they came.
 *
 * @param {{ lines: number, seed: number }} options
 * @returns {Generator<Request>}
 */
export function* requests({ lines, seed }) {
  const spanMs = lines * PACE_MS;
  const bot = evenly(Math.floor(spanMs / BOT.everyMs), BOT.everyMs, 0);
  const nat = evenly(Math.floor(spanMs / NAT.everyMs), NAT.everyMs, NAT.everyMs / 2);
  const ofBurst = Math.floor(lines * BURST.share);
  const ofClients = lines - bot.count - nat.count - ofBurst;
  const randomOf = (/** @type {number} */ kind) => randomNumbers(seed * 4 + kind);
  yield* inOrder([
    fromClients(ofClients, spanMs, randomOf(0)),
    fromBot(bot),
    fromNat(nat, randomOf(1)),
    fromBurst(ofBurst, spanMs / 2, randomOf(2)),
  ]);
}

/** @typedef {() => number} Random */
/** @typedef {{ count: number, at: (i: number) => number }} Evenly */

/**
 * @param {number} count
 * @param {number} everyMs
 * @param {number} firstMs
 * @returns {Evenly}
 */
const evenly = (count, everyMs, firstMs) => ({ count, at: (i) => START_MS + firstMs + i * everyMs });

/**
 * Moments by chance, in order, without holding them all: the least of those that are left, one after the other.
 *
 * @param {number} count
 * @param {number} fromMs
 * @param {number} spanMs
 * @param {Random} random
 */
function* byChance(count, fromMs, spanMs, random) {
  let passed = 0;
  for (let left = count; left > 0; left--) {
    passed += (1 - passed) * (1 - random() ** (1 / left));
    yield START_MS + fromMs + Math.floor(passed * spanMs);
  }
}

/**
 * @param {number} count
 * @param {number} spanMs
 * @param {Random} random
 * @returns {Generator<Request>}
 */
function* fromClients(count, spanMs, random) {
  const shares = zipfShares(CLIENTS);
  // By chance alone the rarest of them would not come at all.
  const turn = Math.floor(count / CLIENTS);
  let asked = 0;
  for (const at of byChance(count, 0, spanMs, random)) {
    const inTurn = turn > 0 && asked % turn === 0 && asked / turn < CLIENTS;
    const client = inTurn ? asked / turn : firstAbove(shares, random());
    asked++;
    const address = `10.${client >>> 16}.${(client >>> 8) & 255}.${client & 255}`;
    yield request(at, address, random, { agent: String(AGENTS[client % AGENTS.length]) });
  }
}

/**
 * @param {Evenly} moments
 * @returns {Generator<Request>}
 */
function* fromBot({ count, at }) {
  for (let i = 0; i < count; i++) {
    const url = `/products/${i % 5000}`;
    const agent = "Mozilla/5.0 (compatible; examplebot/2.1; +https://example.com/bot)";
    yield { at: at(i), durationMs: 5, method: "GET", url, address: BOT.address, status: 200, agent };
  }
}

/**
 * @param {Evenly} moments
 * @param {Random} random
 * @returns {Generator<Request>}
 */
function* fromNat({ count, at }, random) {
  for (let i = 0; i < count; i++) {
    const user = `user${String(Math.floor(random() * NAT.users)).padStart(3, "0")}`;
    yield request(at(i), NAT.address, random, { user });
  }
}

/**
 * @param {number} count
 * @param {number} fromMs
 * @param {Random} random
 * @returns {Generator<Request>}
 */
function* fromBurst(count, fromMs, random) {
  for (const at of byChance(count, fromMs, BURST.lastsMs, random))
    yield request(at, BURST.address, random, { url: "/search?q=%20", agent: "python-requests/2.32.5" });
}

/**
 * @param {number} at
 * @param {string} address
 * @param {Random} random
 * @param {Partial<Request>} known
 * @returns {Request}
 */
function request(at, address, random, known) {
  const method = random() < 0.9 ? "GET" : "POST";
  const durationMs = 1 + Math.floor(random() ** 4 * 2000);
  /** @template T @param {T[]} all */
  const one = (all) => /** @type {T} */ (all[Math.floor(random() * all.length)]);
  return {
    at,
    durationMs,
    method,
    url: one(PATHS),
    address,
    status: one(STATUSES),
    agent: one(AGENTS),
    ...known,
  };
}

/**
 * @param {Float64Array | number[]} numbers that grow
 * @param {number} value below the last number
 */
function firstAbove(numbers, value) {
  let low = 0;
  let high = numbers.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (Number(numbers[middle]) > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * Puts sources together that are in order each; of one moment, the first source goes first.
 *
 * @param {Generator<Request>[]} sources
 */
function* inOrder(sources) {
  const next = sources.map((source) => source.next().value);
  for (;;) {
    let first = -1;
    for (let i = 0; i < next.length; i++)
      if (next[i] && (first < 0 || next[i].at < next[first].at)) first = i;
    if (first < 0) return;
    yield next[first];
    next[first] = sources[first]?.next().value;
  }
}

/**
 * Web servers write a request when it has ended, and so in the order of ends.
 *
 * @param {Iterable<Request>} requests
 */
function* byEnd(requests) {
  /** @type {Request[]} those under way, the last to end first */
  const underWay = [];
  for (const request of requests) {
    while (underWay.length > 0 && endOf(/** @type {Request} */ (underWay.at(-1))) <= request.at)
      yield /** @type {Request} */ (underWay.pop());
    const place = underWay.findLastIndex((other) => endOf(other) > endOf(request));
    underWay.splice(place + 1, 0, request);
  }
  while (underWay.length > 0) yield /** @type {Request} */ (underWay.pop());
}

/** @param {Request} request */
const endOf = ({ at, durationMs }) => at + durationMs;

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** `29/Nov/2026:00:00:00 +0000`, in whole seconds. @param {number} ms */
function clfTime(ms) {
  const [date = "", time = ""] = new Date(ms).toISOString().split("T");
  const [year, month, day] = date.split("-");
  return `${day}/${MONTHS[Number(month) - 1]}/${year}:${time.slice(0, 8)} +0000`;
}

/** @param {Request} request */
const common = (request) =>
  `${request.address} - ${request.user ?? "-"} [${clfTime(endOf(request))}] "${request.method} ${request.url} HTTP/1.1" ${request.status} ${bytesOf(request)}`;

/** @param {Request} request */
const bytesOf = ({ url, status }) => (status === 204 || status === 304 ? 0 : 200 + url.length * 17);

/** @param {Request} request */
const nginxJson = (request) =>
  JSON.stringify({
    msec: endOf(request) / 1000,
    remote_addr: request.address,
    remote_user: request.user ?? "",
    request_method: request.method,
    request_uri: request.url,
    status: request.status,
    body_bytes_sent: bytesOf(request),
    request_time: request.durationMs / 1000,
    http_user_agent: request.agent,
  });

/** @param {Request} request */
const caddyJson = (request) =>
  JSON.stringify({
    level: "info",
    ts: endOf(request) / 1000,
    logger: "http.log.access",
    msg: "handled request",
    request: {
      remote_ip: request.address,
      remote_port: "40000",
      client_ip: request.address,
      proto: "HTTP/2.0",
      method: request.method,
      host: "shop.example",
      uri: request.url,
      headers: { "User-Agent": [request.agent] },
    },
    bytes_read: 0,
    user_id: request.user ?? "",
    duration: request.durationMs / 1000,
    size: bytesOf(request),
    status: request.status,
    resp_headers: {},
  });

/** @param {Request} request */
const csv = ({ at, address, method, url, status, durationMs, user = "" }) =>
  `${new Date(at).toISOString()},${address},${method},${url},${status},${durationMs},${user}`;

const CSV_HEAD = "time,address,method,url,status,duration_ms,user";

/** @type {Record<string, { head?: string, ordered: (requests: Iterable<Request>) => Iterable<Request>, line: (request: Request) => string }>} */
export const FORMATS = {
  common: { ordered: byEnd, line: common },
  combined: { ordered: byEnd, line: (request) => `${common(request)} "-" "${request.agent}"` },
  "nginx-json": { ordered: byEnd, line: nginxJson },
  "caddy-json": { ordered: byEnd, line: caddyJson },
  // Written by somebody's own hand, when requests come.
  csv: { head: CSV_HEAD, ordered: (requests) => requests, line: csv },
};

/**
 * @param {{ lines: number, seed: number, format: string }} options
 * @returns {Generator<string>} lines without their ends
 */
export function* linesOf({ format, ...options }) {
  const { head, ordered, line } = /** @type {(typeof FORMATS)[string]} */ (FORMATS[format]);
  if (head !== undefined) yield head;
  for (const request of ordered(requests(options))) yield line(request);
}

const CHUNK = 64 * 1024;

/**
 * @param {Iterable<string>} lines
 * @param {NodeJS.WritableStream} stream
 */
async function write(lines, stream) {
  let chunk = "";
  for (const line of lines) {
    chunk += `${line}\n`;
    if (chunk.length < CHUNK) continue;
    if (!stream.write(chunk)) await once(stream, "drain");
    chunk = "";
  }
  stream.write(chunk);
}

/**
 * @param {string} name
 * @param {string} text
 */
function wholeNumber(name, text) {
  if (/^\d{1,10}$/.test(text)) return Number(text);
  throw new Error(`--${name}: give a whole number from 0, got ${text}.`);
}

const USAGE = `node scripts/make-log.js [options]: writes an access log that nobody wrote

  --lines N     requests, ${PACE_MS} ms apart on average; 1000000
  --seed N      the same lines and seed give the same bytes; 1
  --format F    ${Object.keys(FORMATS).join(", ")}; combined
  --out FILE    instead of standard output
  -h, --help    write this`;

async function main() {
  const { values } = parseArgs({
    options: {
      help: { type: "boolean", short: "h", default: false },
      lines: { type: "string", default: "1000000" },
      seed: { type: "string", default: "1" },
      format: { type: "string", default: "combined" },
      out: { type: "string" },
    },
  });
  if (values.help) {
    console.log(USAGE);
    return;
  }
  const { format, out } = values;
  if (!Object.hasOwn(FORMATS, format))
    throw new Error(`--format: give ${Object.keys(FORMATS).join(", ")}, got ${format}.`);
  const options = {
    format,
    lines: wholeNumber("lines", values.lines),
    seed: wholeNumber("seed", values.seed),
  };
  const stream = out === undefined ? process.stdout : createWriteStream(out);
  // Whoever reads may have enough, as `head` does.
  stream.on("error", (/** @type {NodeJS.ErrnoException} */ error) => {
    if (error.code !== "EPIPE") console.error(error.message);
    process.exit(error.code === "EPIPE" ? 0 : 1);
  });
  await write(linesOf(options), stream);
  if (out !== undefined) stream.end();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  main().catch((/** @type {Error} */ error) => {
    console.error(error.message);
    process.exitCode = 2;
  });
}
