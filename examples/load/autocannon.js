/**
 * Load on an API whose limit is a token bucket. Says whether as much passed as must, and ends with 1 when not.
 *
 *     node autocannon.js [URL] [options]
 *
 *     --capacity 10     of the bucket
 *     --refill 5        what comes back into it per second
 *     --connections 20
 *     --rate 1          requests per second of each connection
 *     --seconds 30
 *     --key load-a      is sent as x-api-key; by default nothing is
 */
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import autocannon from "autocannon";

/** @typedef {{ capacity: number, refill: number }} Bucket */
/** @typedef {{ connections: number, rate: number, seconds: number }} Traffic */
/** @typedef {{ [name: string]: string }} Headers */
/** @typedef {{ status: number, tellsLimit: boolean, sentMs: number, answeredMs: number }} Answer */

/**
 * @param {string} url
 * @param {Traffic} traffic
 * @param {Headers} headers
 */
async function load(url, { connections, rate, seconds }, headers) {
  /** @type {Answer[]} */
  const answers = [];
  // A number of requests and not a duration: when it ends, none is under way.
  const requests = connections * rate * seconds;
  await autocannon({
    url,
    headers,
    connections,
    connectionRate: rate,
    amount: requests,
    sampleInt: 100, // It ends with one of these, milliseconds.
    requests: [
      {
        setupRequest(request, context) {
          Object.assign(context, { sentMs: performance.now() });
          return request;
        },
        onResponse(status, _body, context, fields) {
          const { sentMs } = /** @type {{ sentMs: number }} */ (context);
          answers.push({ status, tellsLimit: tellsLimit(fields), sentMs, answeredMs: performance.now() });
        },
      },
    ],
  });
  return { requests, answers };
}

/** @param {object} [fields] in the letters of the server, or of a proxy before it */
function tellsLimit(fields = {}) {
  return Object.keys(fields).some((name) => name.toLowerCase() === "ratelimit");
}

/**
 * The first request is slow, so it is none of those that count. The load begins when the bucket is full: what is
 * missing, the answer says.
 *
 * @param {string} url
 * @param {Bucket} bucket
 * @param {Headers} headers
 */
async function warmUp(url, { capacity, refill }, headers) {
  const answer = await fetch(url, { headers });
  await answer.arrayBuffer();
  const left = Number(/;r=(\d+)/.exec(answer.headers.get("RateLimit") ?? "")?.[1] ?? 0);
  await sleep(Math.max(0, (capacity - left) / refill) * 1000);
}

/**
 * How many passed, and how many have to. A request is decided somewhere between its sending and its answer, so slow
 * answers make the bounds wide.
 *
 * @param {{ requests: number, answers: Answer[] }} outcome
 * @param {Bucket} bucket
 */
export function judge({ requests, answers }, { capacity, refill }) {
  const sent = rangeOf(answers.map(({ sentMs }) => sentMs));
  const answered = rangeOf(answers.map(({ answeredMs }) => answeredMs));
  const passing = (/** @type {number} */ ms) =>
    Math.min(requests, Math.floor(capacity + (refill * Math.max(0, ms)) / 1000));
  const least = passing(sent.last - answered.first) - 1;
  const most = passing(answered.last - sent.first) + 1;

  const passed = answers.filter(({ status }) => status === 200).length;
  const refused = answers.filter(({ status }) => status === 429).length;
  const other = answers.length - passed - refused;
  const untold = answers.filter(({ tellsLimit }) => !tellsLimit).length;
  const unanswered = requests - answers.length;
  const holds = passed >= least && passed <= most && other + untold + unanswered === 0;
  return { holds, passed, refused, other, untold, unanswered, least, most, ms: sent.last - sent.first };
}

/** @param {number[]} moments as many as there may be: too many for the arguments of `Math.min` */
function rangeOf(moments) {
  const ordered = Float64Array.from(moments).sort();
  return { first: ordered[0] ?? 0, last: ordered.at(-1) ?? 0 };
}

/**
 * @param {ReturnType<typeof judge>} verdict
 * @param {Bucket} bucket
 */
function sentences(verdict, { capacity, refill }) {
  const { holds, passed, refused, other, untold, unanswered, least, most, ms } = verdict;
  const seconds = (ms / 1000).toFixed(1);
  return `200: ${passed}, 429: ${refused}, other: ${other}, without RateLimit: ${untold}, no answer: ${unanswered}
The limit ${holds ? "holds" : "does not hold"}: ${passed} passed, and ${capacity} + ${refill} × ${seconds} s lets ${least} to ${most} pass.`;
}

/** What the command line says. */
function readOptions() {
  const number = (/** @type {string} */ value) => ({ type: /** @type {const} */ ("string"), default: value });
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      capacity: number("10"),
      refill: number("5"),
      connections: number("20"),
      rate: number("1"),
      seconds: number("30"),
      key: { type: "string" },
    },
  });
  const numberOf = (/** @type {Exclude<keyof typeof values, "key">} */ name) => {
    if (Number(values[name]) > 0) return Number(values[name]);
    throw new RangeError(`--${name} must be a number above 0, got ${values[name]}.`);
  };
  return {
    url: positionals[0] ?? "http://127.0.0.1:8080/",
    headers: /** @type {Headers} */ (values.key === undefined ? {} : { "x-api-key": values.key }),
    bucket: { capacity: numberOf("capacity"), refill: numberOf("refill") },
    traffic: { connections: numberOf("connections"), rate: numberOf("rate"), seconds: numberOf("seconds") },
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url, headers, bucket, traffic } = readOptions();
  await warmUp(url, bucket, headers);
  const verdict = judge(await load(url, traffic, headers), bucket);
  console.log(sentences(verdict, bucket));
  process.exitCode = verdict.holds ? 0 : 1;
}
