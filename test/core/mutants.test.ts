import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compose } from "../../lua/compose.js";
import { clockedScript } from "../harness/clock.ts";
import { pairOf, type Script, tell } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { stories } from "../harness/stories.ts";
import { play, several, steps } from "../harness/twins.ts";
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

/** The same histories for every mutant. */
const histories = fc.sample(fc.tuple(several, steps), { numRuns: 400, seed: 20261129 });

describe("every one-token fault in the Lua is noticed", () => {
  it("but the unharmed script passes", async () => {
    expect(await noticed(clockedScript)).toBeUndefined();
  });

  it.each(mutants)("$file: $from -> $to", async (mutant) => {
    expect(await noticed(harmed(mutant))).toBeDefined();
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
async function noticed(script: Script): Promise<unknown> {
  for (const [name, story] of stories) {
    const pair = pairOf(server, { story: story.of }, script);
    const told = await tell(story, pair, pair.redis);
    if (JSON.stringify(told) !== JSON.stringify(story.rows)) return name;
  }
  for (const [policies, history] of histories) {
    const disagreement = await play(server, policies, history, script);
    if (disagreement) return disagreement;
  }
  return undefined;
}

function harmed({ file, from, to }: Mutant): Script {
  const text = readFileSync(new URL(`../../lua/${file}.lua`, import.meta.url), "utf8");
  if (text.split(from).length !== 2)
    throw new Error(`${from} does not stand exactly once in lua/${file}.lua`);
  const harmedFile = join(folder, `${file.replace("/", "-")}.lua`);
  writeFileSync(
    harmedFile,
    text.replace(from, () => to),
  );
  const composed = compose("decide", {
    "shared/time": new URL("../harness/time.lua", import.meta.url),
    [file]: pathToFileURL(harmedFile),
  });
  return { sha: createHash("sha1").update(composed).digest("hex"), text: composed };
}
