/** A log of which it is known beforehand what a limit refuses: the bot and the office of scripts/make-log.js. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { BOT, BURST, linesOf, NAT, START_MS } from "../../scripts/make-log.js";
import { documentIn, fileWith, tidegate } from "../cli/terminal.ts";

const folder = mkdtempSync(join(tmpdir(), "tidegate-known-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** 100 a second, so that they last ten minutes. */
const LINES = 60_000;
const MINUTES = 10;

function log(format: string): string {
  const file = join(folder, `${format}.log`);
  writeFileSync(file, [...linesOf({ lines: LINES, seed: 1, format }), ""].join("\n"));
  return file;
}

async function reportOf(format: string, policy: string) {
  return documentIn(
    await tidegate(["simulate", log(format), "--policy", fileWith(policy), "--json", "--top", "20"]),
  );
}

const FIXED = "policies:\n  perMinute: { algorithm: fixedWindow, limit: 100, window: 1m }\n";

describe.each(["nginx-json", "caddy-json", "csv", "combined"])("of %s", (format) => {
  it("the bot, the office and the burst are refused as often as they must be", async () => {
    const report = await reportOf(format, FIXED);
    expect(report).toMatchObject({ format, lines: LINES, requests: LINES, broken: 0, outOfOrder: 0 });
    const { top } = report.policies[0];
    const of = (address: string) =>
      top.find(({ identity }: { identity: string }) => identity === `ip:${address}`);
    // Its window begins with its first request, and again every minute: 300 come within each, and 100 pass.
    expect(of(BOT.address)).toMatchObject({ requests: 300 * MINUTES, refused: 200 * MINUTES });
    // All within five seconds: one window.
    const ofBurst = LINES * BURST.share;
    expect(of(BURST.address)).toMatchObject({ requests: ofBurst, refused: ofBurst - 100 });
    if (format !== "combined") {
      expect(of(BOT.address)).toMatchObject({ peak: 300, firstRefusedAt: START_MS + 100 * BOT.everyMs });
      expect(of(NAT.address)).toMatchObject({ requests: 600 * MINUTES, refused: 500 * MINUTES, peak: 600 });
    }
  });
});

it("an office that is counted by its users is not refused at all", async () => {
  const report = await reportOf("nginx-json", `by: { or: [user, ip] }\n${FIXED}`);
  const identities = report.policies[0].top.filter(({ refused }: { refused: number }) => refused > 0);
  expect(identities.map(({ identity }: { identity: string }) => identity)).not.toContain(`ip:${NAT.address}`);
  expect(identities.every(({ identity }: { identity: string }) => identity.startsWith("ip:"))).toBe(true);
});

it("formats that tell as much give the same report", async () => {
  const [first, ...others] = await Promise.all(
    ["nginx-json", "caddy-json", "csv"].map((format) => reportOf(format, FIXED)),
  );
  const { format: _, files: __, ...report } = first;
  for (const other of others) expect(other).toMatchObject(report);
});
