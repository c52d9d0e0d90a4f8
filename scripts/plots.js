/**
 * The pictures of docs/algorithms.md: what each algorithm lets pass of the same traffic.
 * `node scripts/plots.js` writes them, from real runs of a limiter on a clock that is given, so a
 * second run writes the same bytes.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { setup } from "./setup.js";

/** @typedef {{ at: number, takes: number }} Call milliseconds: when it comes, how long its work takes */
/** @typedef {{ title: string, calls: Call[], lengthMs: number, lanes: string[] }} Traffic */
/** @typedef {Call & { allowed: boolean }} Answer */
/** @typedef {{ policy: string, answers: Answer[] }} Lane `policy`: as a reader would write it */

export const FOLDER = new URL("../docs/pictures/", import.meta.url);

/** 0 of every picture: a whole second, ms since 1970. */
const ZERO = 1_800_000_000_000;
const SECOND = 1000;

const RATES = [
  "tokenBucket({ capacity: 10, refillPerSecond: 10 })",
  'gcra({ limit: 10, window: "1s" })',
  'gcra({ limit: 10, window: "1s", burst: 1 })',
  'slidingWindow({ limit: 10, window: "1s" })',
  'slidingLog({ limit: 10, window: "1s" })',
  'fixedWindow({ limit: 10, window: "1s" })',
  'fixedWindow({ limit: 10, window: "1s", align: "clock" })',
];

/** @type {Record<string, Traffic>} */
const TRAFFIC = {
  steady: {
    title: "Steady: 20 calls a second for 4 seconds",
    calls: evenly(0, 4000, 50),
    lengthMs: 4000,
    lanes: RATES,
  },
  edge: {
    title: "The window's edge: one call at 0.2 s, then 50 calls from 0.85 s to 1.34 s",
    calls: [...evenly(200, 201, 1), ...evenly(850, 1350, 10)],
    lengthMs: 2000,
    lanes: RATES,
  },
  pause: {
    title: "A pause, then a burst: 5 a second, nothing for 2 s, 30 calls in 0.3 s, 20 a second",
    calls: [...evenly(0, 2000, 200), ...evenly(4000, 4300, 10), ...evenly(4300, 6000, 50)],
    lengthMs: 6000,
    lanes: RATES,
  },
  slow: {
    title: "A slow backend: 8 calls a second; they take 0.5 s, from 2 s to 4 s they take 3 s",
    calls: evenly(0, 8000, 125, (at) => (at >= 2000 && at < 4000 ? 3000 : 500)),
    lengthMs: 8000,
    lanes: ['slidingLog({ limit: 10, window: "1s" })', "concurrency({ limit: 10 })"],
  },
};

/**
 * @param {number} from ms
 * @param {number} to ms, not reached
 * @param {number} everyMs
 * @param {(at: number) => number} [takes]
 * @returns {Call[]}
 */
function evenly(from, to, everyMs, takes = () => 0) {
  return Array.from({ length: Math.ceil((to - from) / everyMs) }, (_, i) => {
    const at = from + i * everyMs;
    return { at, takes: takes(at) };
  });
}

/**
 * Every call of every traffic, decided by every algorithm.
 *
 * @returns {Promise<Record<string, Lane[]>>}
 */
export async function runs() {
  const core = await import("@tidegate/core");
  /** @type {Record<string, Lane[]>} */
  const runs = {};
  for (const [name, { calls, lanes }] of Object.entries(TRAFFIC)) {
    runs[name] = [];
    for (const policy of lanes) runs[name].push({ policy, answers: await run(core, policy, calls) });
  }
  return runs;
}

/**
 * @param {typeof import("@tidegate/core")} core
 * @param {string} text the policy
 * @param {Call[]} calls
 */
async function run(core, text, calls) {
  let now = ZERO;
  const limiter = core.createLimiter({
    store: core.memoryStore({ nowUs: () => now * 1000 }),
    policies: { policy: policyOf(core, text) },
  });
  /** @type {{ ends: number, decision: import("@tidegate/core").Decision }[]} */
  const working = [];
  /** @type {Answer[]} */
  const answers = [];
  for (const { at, takes } of calls) {
    while (working[0] && working[0].ends <= at) {
      now = ZERO + working[0].ends;
      await limiter.settle(working[0].decision, "keep");
      working.shift();
    }
    now = ZERO + at;
    const decision = await limiter.decide({ identity: "somebody" });
    answers.push({ at, takes, allowed: decision.allowed });
    if (decision.allowed && takes > 0) working.push({ ends: at + takes, decision });
    working.sort((a, b) => a.ends - b.ends);
  }
  await limiter.close();
  return answers;
}

/**
 * `maker({ option: value })` as a policy.
 *
 * @param {typeof import("@tidegate/core")} core
 * @param {string} text
 */
function policyOf(core, text) {
  const [, maker = "", options = ""] = /^(\w+)\((.*)\)$/.exec(text) ?? [];
  /** @type {Record<string, (options: any) => import("@tidegate/core").Policy>} */
  const makers = {
    concurrency: core.concurrency,
    fixedWindow: core.fixedWindow,
    gcra: core.gcra,
    slidingLog: core.slidingLog,
    slidingWindow: core.slidingWindow,
    tokenBucket: core.tokenBucket,
  };
  const make = makers[maker];
  if (!make) throw new Error(`there is no policy ${maker}`);
  return make(JSON.parse(options.replaceAll(/(\w+):/g, '"$1":')));
}

/**
 * How many passed, the most of them within any one second, and the most at work at once.
 *
 * @param {readonly Answer[]} answers
 */
export function countsOf(answers) {
  const passed = answers.filter(({ allowed }) => allowed);
  /** @type {(counts: (call: Call, now: number) => boolean) => number} */
  const most = (counts) =>
    Math.max(0, ...passed.map(({ at: now }) => passed.filter((call) => counts(call, now)).length));
  return {
    calls: answers.length,
    passed: passed.length,
    inOneSecond: most(({ at }, now) => at > now - SECOND && at <= now),
    atWork: most(({ at, takes }, now) => at <= now && now < at + takes),
  };
}

const LABELS = 176;
const PLOT = 430;
const COUNTS = 154;
const LANE = 34;
const TOP = 64;
/** Where the two columns of numbers end. */
const PASSED = LABELS + PLOT + 58;
const MOST = LABELS + PLOT + COUNTS - 8;

const STYLE = `
text{font:12px system-ui,sans-serif;fill:#1f2328}
.t{font-size:14px;font-weight:600}
.m{fill:#59636e}
.c{font-family:ui-monospace,monospace;font-size:11px}
.b{fill:#fff}
.g{stroke:#d1d9e0}
.y{stroke:#0969da;stroke-width:2}
.n{stroke:#a3acb5;stroke-width:1.5}
.o{font-weight:600}
@media(prefers-color-scheme:dark){
text{fill:#f0f6fc}
.m{fill:#9198a1}
.b{fill:#0d1117}
.g{stroke:#3d444d}
.y{stroke:#4493f8}
.n{stroke:#6e7681}
}`;

/**
 * One traffic as SVG: a lane for each algorithm, a mark for each call.
 *
 * @param {Traffic} traffic
 * @param {readonly Lane[]} lanes
 */
function picture({ title, calls, lengthMs }, lanes) {
  const working = calls.some(({ takes }) => takes > 0);
  const width = LABELS + PLOT + COUNTS;
  const bottom = TOP + lanes.length * LANE;
  const x = (/** @type {number} */ ms) => Math.round((LABELS + (ms / lengthMs) * PLOT) * 10) / 10;
  const step = lengthMs > 2000 ? SECOND : SECOND / 2;
  const grid = Array.from({ length: lengthMs / step + 1 }, (_, i) => i * step);
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${bottom + 32}" role="img">`,
    `<title>${title}</title>`,
    `<style>${STYLE}</style>`,
    `<rect class="b" width="100%" height="100%"/>`,
    `<text class="t" x="12" y="24">${title}</text>`,
    legend(),
    `<text class="m" x="${PASSED}" y="${TOP - 12}" text-anchor="end">passed</text>`,
    `<text class="m" x="${MOST}" y="${TOP - 12}" text-anchor="end">${working ? "most at work" : "most in 1 s"}</text>`,
    `<path class="g" d="${grid.map((ms) => `M${x(ms)} ${TOP}V${bottom}`).join("")}"/>`,
    ...grid.map(
      (ms) => `<text class="m" x="${x(ms)}" y="${bottom + 18}" text-anchor="middle">${ms / SECOND} s</text>`,
    ),
    ...lanes.flatMap((lane, i) => laneLines(lane, TOP + (i + 1) * LANE, x, working)),
    `</svg>`,
  ];
  return `${lines.join("\n")}\n`;
}

/** Marks differ in height too, for those to whom the colours look alike. */
function legend() {
  return [
    `<path class="y" d="M13 46v-12"/><text class="m" x="20" y="45">passed</text>`,
    `<path class="n" d="M75 46v-6"/><text class="m" x="82" y="45">refused</text>`,
  ].join("");
}

/**
 * @param {Lane} lane
 * @param {number} base its bottom
 * @param {(ms: number) => number} x
 * @param {boolean} working whether to tell how many were at work at once
 */
function laneLines({ policy, answers }, base, x, working) {
  const { passed, inOneSecond, atWork } = countsOf(answers);
  const most = working ? atWork : inOneSecond;
  /** @type {(allowed: boolean, height: number) => string} */
  const marks = (allowed, height) =>
    answers
      .filter((answer) => answer.allowed === allowed)
      .map(({ at }) => `M${x(at)} ${base - 1}v-${height}`)
      .join("");
  return [
    `<path class="g" d="M${LABELS} ${base}h${PLOT}"/>`,
    `<text class="c" x="12" y="${base - 8}">${labelOf(policy)}</text>`,
    `<path class="n" d="${marks(false, 8)}"/>`,
    `<path class="y" d="${marks(true, 22)}"/>`,
    `<text x="${PASSED}" y="${base - 8}" text-anchor="end">${passed}</text>`,
    `<text${most > 10 ? ' class="o"' : ""} x="${MOST}" y="${base - 8}" text-anchor="end">${most}</text>`,
  ];
}

/**
 * The maker, and the options that are not the same in every lane.
 *
 * @param {string} policy
 */
function labelOf(policy) {
  const maker = policy.split("(")[0];
  const more = /burst: \d+|align: "\w+"/.exec(policy);
  return more ? `${maker}, ${more[0].replaceAll('"', "")}` : maker;
}

/**
 * The pictures by their file's name.
 *
 * @returns {Promise<Record<string, string>>}
 */
export async function pictures() {
  const lanes = await runs();
  return Object.fromEntries(
    Object.entries(TRAFFIC).map(([name, traffic]) => [`${name}.svg`, picture(traffic, lanes[name] ?? [])]),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  setup();
  mkdirSync(FOLDER, { recursive: true });
  for (const [name, svg] of Object.entries(await pictures())) writeFileSync(new URL(name, FOLDER), svg);
  for (const [name, lanes] of Object.entries(await runs())) {
    for (const { policy, answers } of lanes) {
      const { calls, passed, inOneSecond, atWork } = countsOf(answers);
      console.log(
        `${name}: ${policy}: ${passed} of ${calls} passed, at most ${inOneSecond} in 1 s, ${atWork} at work`,
      );
    }
  }
}
