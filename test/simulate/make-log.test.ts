/** The log that scripts/make-log.js writes, and what limits have to make of its bot and of its office. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import {
  fixedWindow,
  gcra,
  ip,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
  user,
} from "@tidegate/core";
import { simulate } from "@tidegate/core/simulate";
import { describe, expect, it } from "vitest";
import { BOT, BURST, CLIENTS, linesOf, NAT, requests, START_MS } from "../../scripts/make-log.js";
import { root } from "../docs/markdown.ts";

const LINES = 20_000;
/** 100 lines a second. */
const SECONDS = 200;
const log = [...requests({ lines: LINES, seed: 1 })];

const FORMAT_NAMES = ["common", "combined", "nginx-json", "caddy-json", "csv"];

const run = (...args: string[]) =>
  spawnSync(process.execPath, [join(root, "scripts/make-log.js"), ...args], { encoding: "utf8" });

describe("the log", () => {
  it("is in order, over as many seconds as it says", () => {
    expect(log.length).toBe(LINES);
    expect(log.map(({ at }) => at)).toEqual(log.map(({ at }) => at).toSorted((a, b) => a - b));
    expect(log[0]!.at).toBe(START_MS);
    expect(log.at(-1)!.at).toBeLessThan(START_MS + SECONDS * 1000);
  });

  it("has as many of the bot, the office and the burst as it says", () => {
    const of = (address: string) => log.filter((request) => request.address === address);
    expect(of(BOT.address).map(({ at }) => at)).toEqual(
      Array.from({ length: 1000 }, (_, i) => START_MS + i * 200),
    );
    expect(of(NAT.address).map(({ at }) => at)).toEqual(
      Array.from({ length: 2000 }, (_, i) => START_MS + 50 + i * 100),
    );
    expect(new Set(of(NAT.address).map(({ user }) => user)).size).toBeGreaterThan(NAT.users * 0.9);
    const burst = of(BURST.address).map(({ at }) => at - START_MS);
    expect(burst.length).toBe(400);
    expect([burst[0]! >= 100_000, burst.at(-1)! < 105_000]).toEqual([true, true]);
  });

  it("has every client in it where there are lines enough, and the first of them most", () => {
    const clients = new Map<string, number>();
    for (const { address } of requests({ lines: 130_000, seed: 2 }))
      clients.set(address, (clients.get(address) ?? 0) + 1);
    expect(clients.size).toBe(CLIENTS + 3);
    const first = Array.from({ length: 4 }, (_, i) => clients.get(`10.0.0.${i}`)!);
    expect(first).toEqual(first.toSorted((a, b) => b - a));
  });

  it.each(FORMAT_NAMES)("%s: the same lines and seed give the same bytes, another seed others", (format) => {
    const bytes = (seed: number) =>
      [...linesOf({ lines: 300, seed, format })].map((line) => `${line}\n`).join("");
    const { status, stdout, stderr } = run("--lines", "300", "--seed", "7", "--format", format);
    expect([status, stderr]).toEqual([0, ""]);
    expect(stdout.trimEnd().split("\n").length).toBe(format === "csv" ? 301 : 300);
    expect(stdout).toBe(bytes(7));
    expect(stdout).not.toBe(bytes(8));
  });

  it("says what to give instead of a format that there is not", () => {
    expect(run("--format", "xml")).toMatchObject({
      status: 2,
      stderr: "--format: give common, combined, nginx-json, caddy-json, csv, got xml.\n",
    });
  });
});

it("makes no log for whoever asks how it is used", () => {
  for (const flag of ["--help", "-h"]) {
    const { status, stdout, stderr } = run(flag);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout.split("\n").length).toBeLessThan(15);
    for (const option of ["--lines", "--seed", "--format", "--out", ...FORMAT_NAMES])
      expect(stdout).toContain(option);
  }
});

/** How many requests of the bot and of the office are refused. */
async function refusedBy(only: Policy): Promise<{ bot: number; office: number }> {
  const { policies } = await simulate({ policies: { only } }, log, { top: 10_000, curve: false });
  const of = (address: string) =>
    policies[0]!.top.find(({ identity }) => identity === `ip:${address}`)!.refused;
  return { bot: of(BOT.address), office: of(NAT.address) };
}

describe("known answers", () => {
  // The bot asks 5 times a second, 50 times in 10 seconds; the office 100 times.
  const windows = SECONDS / 10;

  it.each([
    ["fixedWindow", fixedWindow({ limit: 30, window: "10s" }), windows * (50 - 30), windows * (100 - 30)],
    [
      "fixedWindow by the clock",
      fixedWindow({ limit: 30, window: "10s", align: "clock" }),
      windows * (50 - 30),
      windows * (100 - 30),
    ],
    ["slidingLog", slidingLog({ limit: 30, window: "10s" }), windows * (50 - 30), windows * (100 - 30)],
    // A full bucket, and what flows in until the last request: the bot's at 199.8 s, the office's 199.9 s after its first.
    [
      "tokenBucket",
      tokenBucket({ capacity: 10, refillPerSecond: 2 }),
      1000 - Math.floor(10 + 2 * 199.8),
      2000 - Math.floor(10 + 2 * 199.9),
    ],
    [
      "gcra",
      gcra({ limit: 20, window: "10s" }),
      1000 - Math.floor(20 + 2 * 199.8),
      2000 - Math.floor(20 + 2 * 199.9),
    ],
  ])("%s: the bot and the office are refused as arithmetic says", async (_, policy, bot, office) => {
    expect(await refusedBy(policy)).toEqual({ bot, office });
  });

  it("slidingWindow: the bot is let in about as often as it may", async () => {
    const { bot } = await refusedBy(slidingWindow({ limit: 30, window: "10s" }));
    const letIn = 1000 - bot;
    expect(letIn).toBeGreaterThanOrEqual(windows * 30 * 0.9);
    expect(letIn).toBeLessThanOrEqual(windows * 30 * 1.05);
  });

  it("the most that one address asked within a window, and who: the burst", async () => {
    const policies = { only: fixedWindow({ limit: 30, window: "10s" }) };
    const { peak, top } = (await simulate({ policies }, log)).policies[0]!;
    expect(peak).toMatchObject({ units: 400, identity: `ip:${BURST.address}` });
    expect(peak!.at).toBe(log.findLast(({ address }) => address === BURST.address)!.at);
    const most = Object.fromEntries(top.map(({ identity, peak }) => [identity, peak]));
    expect(most[`ip:${BOT.address}`]).toBe(50);
    expect(most[`ip:${NAT.address}`]).toBe(100);
  });

  it("an office that is refused by its address is let in by its users", async () => {
    const policies = { only: fixedWindow({ limit: 30, window: "10s", by: user().or(ip()) }) };
    const { top } = (await simulate({ policies }, log, { top: 10_000, curve: false })).policies[0]!;
    const users = top.filter(({ identity }) => identity.startsWith("user:"));
    expect(users.length).toBeGreaterThan(NAT.users * 0.9);
    expect(users.filter(({ refused }) => refused > 0)).toEqual([]);
    expect(top.find(({ identity }) => identity === `ip:${BOT.address}`)!.refused).toBe(windows * 20);
  });
});
