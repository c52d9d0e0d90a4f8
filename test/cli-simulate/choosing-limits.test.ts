/** docs/choosing-limits.md tells what a run of its own log says. */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LOG, NAMES, POLICIES, writeStory } from "../../scripts/simulate-pictures.js";
import { documentIn, tidegate } from "../cli/terminal.ts";
import { blocksOf, read, root } from "../docs/markdown.ts";

const page = read("docs/choosing-limits.md");
const blocks = blocksOf(page);
const folder = mkdtempSync(join(tmpdir(), "tidegate-choosing-"));
const log = join(folder, "access.log.gz");
const said: Record<string, string> = {};

beforeAll(async () => {
  writeStory(folder);
  for (const policy of Object.keys(POLICIES)) {
    const { out, code } = await tidegate(["simulate", log, "--policy", join(folder, policy)], {
      columns: 120,
    });
    expect(code).toBe(0);
    said[policy] = out.replaceAll(log, "access.log.gz");
  }
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("shows the policy files that were run", () => {
  const shown = blocks.filter(({ language }) => language === "yaml").map(({ text }) => text);
  expect(shown).toEqual(Object.values(POLICIES));
});

it("makes its log as the run does", () => {
  expect(page).toContain(
    `node scripts/make-log.js --lines ${LOG.lines} --seed ${LOG.seed} --format ${LOG.format} | gzip > access.log.gz`,
  );
});

describe("shows what the command prints", () => {
  const shown = blocks.filter(({ language }) => language === "text");

  it.each(shown.map(({ line, text }) => [line, text] as const))("in line %i", (line, text) => {
    const chosen = blocks.findLast((block) => block.language === "yaml" && block.line < line)!.text;
    const policy = Object.keys(POLICIES).find((name) => POLICIES[name as keyof typeof POLICIES] === chosen)!;
    expect(said[policy]).toContain(text.trimEnd());
  });

  it("in five places", () => expect(shown).toHaveLength(5));
});

it("tells its other numbers rightly", async () => {
  const words = ["simulate", log, "--policy", join(folder, "limits.yaml"), "--json"];
  const { policies } = documentIn(await tidegate(words));
  expect(policies[0].top.map(({ identity }: { identity: string }) => identity)).not.toContain(
    "ip:203.0.113.9",
  );
  expect(policies[0].top.some(({ identity }: { identity: string }) => identity.startsWith("user:"))).toBe(
    false,
  );
  expect(page).toContain(`The ${policies[0].identitiesRefused} whom it still refuses`);
});

it.each(NAMES)("shows the picture %s, which is not too large", (name) => {
  const { size } = statSync(join(root, "docs/pictures", name));
  expect(size).toBeGreaterThan(10_000);
  expect(size).toBeLessThan(200_000);
  expect(page).toContain(`](pictures/${name})`);
});
