import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compose } from "../../lua/compose.js";
import { clockedScripts } from "../harness/clock.ts";
import { pairOf, type Scripts, tell } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { stories } from "../harness/stories.ts";
import { only, type Plan, play, several, type Step, steps, type Tag } from "../harness/twins.ts";
import { type Mutant, mutants } from "./mutants.ts";

let server: RedisServer;
let folder: string;
beforeAll(async () => {
  server = await startRedis();
  folder = mkdtempSync(join(tmpdir(), "tidegate-mutants-"));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await server.stop();
});

/** The same histories for every mutant of a file: of the algorithm alone, and of all of them mixed. */
function historiesFor(file: string): [Plan, Step[]][] {
  const tags = TAGS[file] ?? [];
  const plans = [...tags.map(only), several];
  return plans.flatMap((plan) => fc.sample(fc.tuple(plan, steps), { numRuns: 300, seed: 20261129 }));
}

const TAGS: Record<string, Tag[]> = {
  "algorithms/token-bucket": ["tb"],
  "algorithms/sliding-window": ["sw"],
  "algorithms/sliding-log": ["sl"],
  "algorithms/fixed-window": ["fw", "fk", "fd"],
  "algorithms/gcra": ["gc"],
  "algorithms/concurrency": ["cc"],
};

describe("every one-token fault in the Lua is noticed", () => {
  it("but the unharmed script passes", async () => {
    for (const file of Object.keys(TAGS)) expect(await noticed(clockedScripts, file)).toBeUndefined();
  });

  it.each(mutants)("$file: $from -> $to", async (mutant) => {
    expect(await noticed(harmed(mutant), mutant.file)).toBeDefined();
  });

  it("five or more for each algorithm", () => {
    const algorithms = readdirSync(new URL("../../lua/algorithms", import.meta.url));
    for (const algorithm of algorithms) {
      const file = `algorithms/${algorithm.replace(".lua", "")}`;
      expect(mutants.filter((mutant) => mutant.file === file).length, file).toBeGreaterThanOrEqual(5);
    }
  });
});

/** What first gave a script away. */
async function noticed(scripts: Scripts, file: string): Promise<unknown> {
  for (const [name, story] of stories) {
    const pair = pairOf(server, { story: story.of }, scripts);
    const told = await tell(story, pair, pair.redis);
    if (JSON.stringify(told) !== JSON.stringify(story.rows)) return name;
  }
  for (const [policies, history] of historiesFor(file)) {
    const disagreement = await play(server, policies, history, scripts);
    if (disagreement) return disagreement;
  }
  return undefined;
}

function harmed({ file, from, to }: Mutant): Scripts {
  const text = readFileSync(new URL(`../../lua/${file}.lua`, import.meta.url), "utf8");
  if (text.split(from).length !== 2)
    throw new Error(`${from} does not stand exactly once in lua/${file}.lua`);
  const harmedFile = join(folder, `${file.replace("/", "-")}.lua`);
  writeFileSync(
    harmedFile,
    text.replace(from, () => to),
  );
  const swap = {
    "shared/time": new URL("../harness/time.lua", import.meta.url),
    [file]: pathToFileURL(harmedFile),
  };
  return {
    decide: composed("decide", swap),
    settle: composed("settle", swap),
    manage: composed("manage", swap),
  };
}

function composed(entry: string, swap: Record<string, URL>) {
  const text = compose(entry, swap);
  return { sha: createHash("sha1").update(text).digest("hex"), text };
}
