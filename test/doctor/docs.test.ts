/** docs/doctor.md tells of every finding, and of none that there is not. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { blocksOf, read, root, sectionOf, tablesOf } from "../docs/markdown.ts";
import { startRedis } from "../harness/redis.ts";
import { deciding, managing } from "../harness/rights.ts";
import { examine, of, onLevel, the, userOf } from "./asking.ts";

const page = read("docs/doctor.md");
const rows = tablesOf(sectionOf(page, "What it finds")).flat();

/** The levels with which each code is found, as the sources write it; `ok` is a matter of course. */
function levelsInSources(): Record<string, string[]> {
  const folder = "packages/core/src/doctor/checks";
  const levels: Record<string, string[]> = {};
  for (const file of readdirSync(join(root, folder)))
    for (const [, subject, level] of read(join(folder, file)).matchAll(/\bfound\(\s*"(\w+)",\s*"(\w+)"/g))
      levels[`TIDEGATE_DOCTOR_${subject}`] = [...(levels[`TIDEGATE_DOCTOR_${subject}`] ?? []), level!];
  return Object.fromEntries(
    Object.entries(levels).map(([code, all]) => [code, [...new Set(all)].toSorted()]),
  );
}

describe("docs/doctor.md", () => {
  it("has one row for every code of a finding, and none for another", () => {
    const [, union] = /export type Subject =([^;]*);/.exec(read("packages/core/src/doctor/finding.ts"))!;
    const subjects = [...union!.matchAll(/"(\w+)"/g)].map(([, name]) => `TIDEGATE_DOCTOR_${name}`);
    expect(subjects.length).toBeGreaterThan(20);
    expect(rows.map((row) => row["code"]!).toSorted()).toEqual(subjects.toSorted());
  });

  it("says with which levels each is found", () => {
    const told = rows.map((row) => [row["code"], row["level"]!.split(" or ").toSorted()]);
    expect(Object.fromEntries(told)).toEqual(levelsInSources());
  });

  it("says of each why it comes and what to do", () => {
    for (const row of rows) {
      expect([row["code"], row["cause"]]).toEqual([row["code"], expect.stringMatching(/\.$/)]);
      expect([row["code"], row["what to do"]]).toEqual([row["code"], expect.stringMatching(/\.$/)]);
    }
  });

  const [, example = "", rights = ""] = blocksOf(page).map(({ text }) => text);

  it("shows a report as it is", async () => {
    const server = await startRedis({
      args: ["--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"],
    });
    onTestFinished(() => server.stop());
    const may = [...deciding, ...managing].filter((right) => right !== "hset").map((right) => `+${right}`);
    const redis = await userOf(server, "tidegate", "~rl:*", ...may, "+acl|whoami", "+config|get", "+type");
    const { findings } = await examine({ redis });
    const lines = findings
      .filter(({ level }) => level === "must" || level === "warning")
      .map(({ level, message, advice }) => `${level} (localhost:6379): ${message} ${advice}\n`);
    expect(example).toBe(lines.join(""));
  });

  it("names the rights for a whole look", async () => {
    const [, user, more] = /^ACL SETUSER (\w+) (.*)\n$/.exec(rights)!;
    const server = await startRedis();
    onTestFinished(() => server.stop());
    const may = [...deciding, ...managing].map((right) => `+${right}`);
    const redis = await userOf(server, user!, "~rl:*", ...may);
    await server.client.set("rl:{id:x}:p:fw", "1", "PX", 60_000);
    const before = the(await examine({ redis }), "LOOK").value;
    expect(before).toEqual({ missing: ["config|get", "script|exists", "scan"] });
    await server.client.call("ACL", "SETUSER", user!, ...more!.split(" "));
    const report = await examine({ redis });
    expect([of(report, "LOOK"), onLevel(report, "must", "warning")]).toEqual([[], []]);
    for (const right of more!.split(" ").filter((right) => !/whoami|cluster/.test(right))) {
      await server.client.call("ACL", "SETUSER", user!, right.replace("+", "-"));
      expect([right, the(await examine({ redis }), "LOOK").value]).toEqual([
        right,
        { missing: [right.slice(1)] },
      ]);
      await server.client.call("ACL", "SETUSER", user!, right);
    }
  });
});
