/** The page of `tidegate simulate --html`, opened by a real browser. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SimulateResult } from "../../packages/cli/src/simulate/result.ts";
import { CHROMIUM_OPTIONS, findChromium } from "../../scripts/chromium.js";
import { documentIn, tidegate } from "../cli/terminal.ts";

const path = findChromium();
const isDebian = existsSync("/etc/debian_version");

/** On Debian `npm test` installs it; elsewhere, its tests are skipped without it. */
it.runIf(isDebian)("Chromium is there", () => {
  expect(path, "npm test installs it").toBeDefined();
});

const POLICIES = `policies:
  perMinute: { algorithm: slidingWindow, limit: 30, window: 1m }
  burst: { algorithm: tokenBucket, capacity: 5, refillPerSecond: 0.5, mode: shadow }
  atOnce: { algorithm: concurrency, limit: 100 }
`;

/** An hour of 40 clients, the first of them ever faster, and one whose name is an attack on the page. */
function log(): string {
  const lines: string[] = [];
  for (let second = 0; second < 3600; second++) {
    for (let client = 0; client < 40; client++) {
      if ((second * 31 + client * 17) % (20 + client * 3) > 0 && !(client === 0 && second > 1800)) continue;
      lines.push(
        JSON.stringify({
          msec: 1_795_960_800 + second,
          remote_addr: `192.0.2.${client}`,
          request: "GET /a HTTP/1.1",
          status: 200,
          request_time: 0.05,
        }),
      );
    }
  }
  lines.push(
    "<script>alert(1)</script>",
    `{"msec":1795964400,"remote_addr":"192.0.2.99","remote_user":"</script><b>"}`,
  );
  return lines.join("\n");
}

const folder = mkdtempSync(join(tmpdir(), "tidegate-page-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let browser: Browser;
let url: string;
let result: SimulateResult;

beforeAll(async () => {
  if (!path) return;
  browser = await chromium.launch({ executablePath: path, args: CHROMIUM_OPTIONS, timeout: 60_000 });
}, 90_000);
afterAll(() => browser?.close());

/** What the browser did besides showing the page. */
interface Noise {
  readonly messages: string[];
  readonly requests: string[];
}

async function open(
  width: number,
  height: number,
  colorScheme: "light" | "dark",
): Promise<{ page: Page; noise: Noise }> {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme });
  const noise: Noise = { messages: [], requests: [] };
  page.on("console", (message) => noise.messages.push(message.text()));
  page.on("pageerror", (error) => noise.messages.push(String(error)));
  page.on("request", (request) => noise.requests.push(request.url()));
  await page.goto(url, { timeout: 60_000 });
  return { page, noise };
}

describe.runIf(path).sequential("the page", () => {
  beforeAll(async () => {
    const [file, policy] = [join(folder, "report.html"), join(folder, "limits.yaml")];
    writeFileSync(policy, POLICIES);
    const words = ["simulate", "-", "--policy", policy, "--html", file, "--json"];
    result = documentIn(await tidegate(words, { input: log() }));
    url = pathToFileURL(file).href;
  });

  it.each([
    ["phone", 390, 844, "light"],
    ["phone", 390, 844, "dark"],
    ["narrow phone", 360, 640, "light"],
    ["desk", 1280, 800, "light"],
    ["desk", 1280, 800, "dark"],
  ] as const)(
    "on a %s, %i by %i, %s: asks for nothing, complains of nothing, is not wider than the screen",
    async (_, width, height, scheme) => {
      const { page, noise } = await open(width, height, scheme);
      for (const summary of await page.locator("summary").all()) await summary.click();
      expect(noise).toEqual({ messages: [], requests: [url] });
      const { scroll, client, text, background } = await page.evaluate(() => ({
        scroll: document.documentElement.scrollWidth,
        client: document.documentElement.clientWidth,
        text: getComputedStyle(document.body).color,
        background: getComputedStyle(document.body).backgroundColor,
      }));
      expect([scroll, client]).toEqual([width, width]);
      expect(contrast(text, background)).toBeGreaterThan(7);
      const [dark, light] = scheme === "dark" ? [background, text] : [text, background];
      expect(luminance(dark)).toBeLessThan(luminance(light));
      await page.close();
    },
  );

  it("says the numbers of the JSON, and holds that itself", async () => {
    const { page } = await open(1280, 800, "light");
    const whole = (value: number) => value.toLocaleString("en-US");
    for (const [id, value] of [
      ["admitted", result.admitted],
      ["refused", result.refused],
      ["identities", result.identities],
      ["identities-refused", result.identitiesRefused],
    ] as const)
      expect(await page.locator(`#${id}`).textContent()).toBe(whole(value));
    const held = JSON.parse((await page.locator("script#report").textContent())!);
    expect(held).toEqual(JSON.parse(JSON.stringify(result)));
    const told = await tableRows(page, "Requests over time");
    expect(told.map(([, admitted, refused]) => [admitted, refused])).toEqual(
      result.timeline.admitted.map((count, i) => [whole(count), whole(result.timeline.refused[i]!)]),
    );
    await page.close();
  });

  it("draws each plot, with as many shapes as there are numbers, as large as they are", async () => {
    const { page } = await open(1280, 800, "light");
    const refusing = result.policies.filter(({ refused }) => refused > 0);
    const curved = result.policies.filter(({ curve }) => curve);
    expect(refusing.length).toBe(2);
    // What is in flight depends on the limit itself: there is no curve of concurrency.
    expect(curved.length).toBe(2);
    expect(await page.locator(".plot svg").count()).toBe(1 + refusing.length + curved.length);
    expect(await page.locator("path.admitted").count()).toBe(1);
    expect(await page.locator("path.refused").count()).toBe(1 + refusing.length);
    expect(await page.locator("path.clients").count()).toBe(curved.length);
    expect(await page.locator("path.requests").count()).toBe(curved.length);
    expect(await page.locator("path.dot").count()).toBe(
      curved.reduce((sum, { suggestions }) => sum + suggestions!.length, 0),
    );
    const bars = result.policies[0]!.top.map(({ requests }) => requests);
    const drawn = await page
      .locator("section.policy >> nth=0")
      .locator(".bars svg")
      .evaluateAll((all) =>
        all.map((svg) =>
          [...svg.querySelectorAll("rect")].reduce((sum, rect) => sum + rect.width.baseVal.value, 0),
        ),
      );
    expect(drawn).toEqual(bars.map((requests) => expect.closeTo((requests / Math.max(...bars)) * 1000, 0)));
    for (const svg of await page.locator("svg").all()) {
      expect(await svg.getAttribute("role")).toBe("img");
      expect(await svg.locator("title").textContent()).not.toBe("");
      const box = (await svg.boundingBox())!;
      expect([box.width > 100, box.height > 5]).toEqual([true, true]);
    }
    await page.close();
  });

  it("shows the whole height of the busiest step, and nothing above the plot", async () => {
    const { page } = await open(390, 844, "light");
    const { plot, shapes } = await page
      .locator(".plot svg")
      .first()
      .evaluate((svg) => ({
        plot: svg.getBoundingClientRect().toJSON(),
        shapes: [...svg.querySelectorAll("path")].map((path) => path.getBoundingClientRect().toJSON()),
      }));
    for (const { top, bottom, left, right } of shapes) {
      expect(top).toBeGreaterThanOrEqual(plot.top - 1);
      expect(bottom).toBeLessThanOrEqual(plot.bottom + 1);
      expect(left).toBeGreaterThanOrEqual(plot.left - 1);
      expect(right).toBeLessThanOrEqual(plot.right + 1);
    }
    expect(Math.min(...shapes.map(({ top }) => top)) - plot.top).toBeLessThan(plot.height / 2);
    await page.close();
  });

  it("is text where a log would be markup", async () => {
    const { page } = await open(390, 844, "light");
    expect(await page.locator("script").count()).toBe(1);
    expect(await page.locator("main b").filter({ hasText: "<" }).count()).toBe(0);
    expect(await page.getByText("<script>alert(1)</script>").count()).toBe(1);
    await page.close();
  });
});

async function tableRows(page: Page, caption: string): Promise<string[][]> {
  const table = page
    .locator("table")
    .filter({ has: page.locator("caption", { hasText: caption }) })
    .first();
  return table
    .locator("tbody tr")
    .evaluateAll((rows) =>
      rows.map((row) => [...row.querySelectorAll("th,td")].map((cell) => cell.textContent ?? "")),
    );
}

/** source: WCAG 2.2, relative luminance and contrast ratio */
function luminance(colour: string): number {
  const [r = 0, g = 0, b = 0] = (colour.match(/[\d.]+/g) ?? []).map((part) => {
    const value = Number(part) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [light, dark] = [luminance(a), luminance(b)].toSorted((x, y) => y - x) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}
