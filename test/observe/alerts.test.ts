/** The alert rules that we ship, as Prometheus itself reads them. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { prometheusMetrics } from "@tidegate/core/prometheus";
import { Registry } from "prom-client";
import { expect, it, onTestFinished, type TestContext } from "vitest";
import { findPromtool } from "../../scripts/promtool.js";
import { read, root, sectionOf } from "../docs/markdown.ts";

const FOLDER = join(root, "docs/alerts");
const rules = read("docs/alerts/tidegate.rules.yml");
const alerts = [...rules.matchAll(/- alert: (\w+)/g)].map(([, name]) => name!);

/** Without promtool its tests are skipped, and the reason stands in the report. On Debian `npm test` installs it. */
function promtool({ skip }: TestContext, ...args: string[]): { status: number | null; output: string } {
  const path = findPromtool();
  const reason = "promtool is not installed";
  if (!path && existsSync("/etc/debian_version")) throw new Error(`${reason}: npm test does that`);
  if (!path) return skip(reason);
  const { status, stdout, stderr } = spawnSync(path, args, { cwd: FOLDER, encoding: "utf8" });
  return { status, output: `${stdout}${stderr}` };
}

it("promtool accepts the three rules", (context) => {
  const { status, output } = promtool(context, "check", "rules", "tidegate.rules.yml");
  expect(output).toContain("SUCCESS: 3 rules found");
  expect(status).toBe(0);
});

it("each alert fires when it should, and keeps quiet when it should", (context) => {
  const { status, output } = promtool(context, "test", "rules", "tidegate.rules.test.yml");
  expect(output).toContain("SUCCESS");
  expect([status, output]).not.toContain("FAILED");
  expect(status).toBe(0);
});

it("they ask for metrics and labels that the exporter writes", () => {
  const registry = new Registry();
  onTestFinished(prometheusMetrics(registry));
  const written = registry.getMetricsAsArray() as unknown as { name: string; labelNames: string[] }[];
  const asked = [...rules.matchAll(/(tidegate_\w+?)(?:_bucket)?(?:\{(\w+)=~?"[^"]*"\}|\b)/g)];
  expect(asked.length).toBeGreaterThan(4);
  for (const [, name, label] of asked) {
    const metric = written.find((one) => one.name === name);
    expect([name, metric?.labelNames]).toEqual([
      name,
      label === undefined ? expect.anything() : expect.arrayContaining([label]),
    ]);
  }
});

it("each is explained to whoever it wakes", () => {
  const section = sectionOf(read("docs/operations.md"), "Alerts");
  expect(alerts).toHaveLength(3);
  expect(alerts.filter((name) => !section.includes(`\`${name}\``))).toEqual([]);
});
