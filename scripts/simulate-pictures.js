/**
 * The run that docs/choosing-limits.md tells, and its pictures: `node scripts/simulate-pictures.js` writes these. The log
 * is made by seed, so that every run has the same numbers; how a browser draws letters is its own affair.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { chromium } from "playwright-core";
import { CHROMIUM_OPTIONS, ensureChromium, findChromium } from "./chromium.js";
import { linesOf } from "./make-log.js";
import { setup } from "./setup.js";

export const FOLDER = new URL("../docs/pictures/", import.meta.url);

/** 50 minutes of 100 requests a second. */
export const LOG = { lines: 300_000, seed: 1, format: "nginx-json" };

/** The policy files of the walk, by what they are called there. */
export const POLICIES = {
  "first.yaml": `policies:
  perClient:
    algorithm: slidingWindow
    limit: 120
    window: 10m
`,
  "limits.yaml": `by:
  or: [user, ip]
policies:
  perClient:
    algorithm: slidingWindow
    limit: 50
    window: 10m
    mode: shadow
`,
};

/** What is on the pictures: a page at a width, or a part of it. */
const PICTURES = [
  { name: "simulate-desktop", policy: "first.yaml", width: 1280, height: 1230, scheme: "light" },
  { name: "simulate-phone", policy: "first.yaml", width: 390, height: 844, scheme: "light" },
  {
    name: "simulate-curve",
    policy: "first.yaml",
    width: 1280,
    height: 800,
    scheme: "light",
    part: ".two > div",
  },
  { name: "simulate-desktop-dark", policy: "limits.yaml", width: 1280, height: 1230, scheme: "dark" },
  { name: "simulate-phone-dark", policy: "limits.yaml", width: 390, height: 844, scheme: "dark" },
];

export const NAMES = PICTURES.map(({ name }) => `${name}.png`);

/**
 * Puts the log and the policy files into a folder.
 *
 * @param {string} folder
 */
export function writeStory(folder) {
  const log = [...linesOf(LOG), ""].join("\n");
  writeFileSync(join(folder, "access.log.gz"), gzipSync(log, { level: 1 }));
  for (const [name, text] of Object.entries(POLICIES)) writeFileSync(join(folder, name), text);
}

/**
 * @param {string} folder with the story; the page is written there, too
 * @param {string} policy
 */
async function pageOf(folder, policy) {
  const { run } = await import("@tidegate/cli");
  const page = join(folder, `${policy}.html`);
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  stdout.resume();
  // By their names alone, as somebody types them: they stand on the picture.
  process.chdir(folder);
  const words = ["simulate", "access.log.gz", "--policy", policy, "--html", page];
  const code = await run(["node", "tidegate", ...words], { stdin, stdout, stderr, env: {} });
  if (code !== 0) throw new Error(String(stderr.read()));
  return page;
}

/**
 * @param {string} folder
 * @param {string} path of Chromium
 */
async function draw(folder, path) {
  writeStory(folder);
  const browser = await chromium.launch({ executablePath: path, args: CHROMIUM_OPTIONS });
  /** @type {Record<string, string>} */
  const pages = {};
  for (const { name, policy, width, height, scheme, part } of PICTURES) {
    pages[policy] ??= await pageOf(folder, policy);
    const colorScheme = scheme === "dark" ? "dark" : "light";
    const page = await browser.newPage({
      viewport: { width, height },
      colorScheme,
      deviceScaleFactor: width < 500 || part ? 2 : 1,
    });
    await page.goto(pathToFileURL(pages[policy]).href);
    const picture = part ? page.locator(part).first() : page;
    await picture.screenshot({ path: fileURLToPath(new URL(`${name}.png`, FOLDER)) });
    await page.close();
  }
  await browser.close();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  setup();
  ensureChromium();
  const path = findChromium();
  if (!path) throw new Error("Chromium is not there: install it and try again.");
  const folder = mkdtempSync(join(tmpdir(), "tidegate-pictures-"));
  try {
    await draw(folder, path);
  } finally {
    process.chdir(tmpdir());
    rmSync(folder, { recursive: true, force: true });
  }
}
