/** docs/cluster.md: its commands are run on a real Cluster, and its tables are held to what happens there. */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { createLimiter, type Decision, fixedWindow, type Identity, type Limiter, user } from "@tidegate/core";
import { Cluster } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { startClusterOf, type TestCluster } from "../harness/cluster.ts";
import { callsOf } from "../harness/live.ts";
import { freshPrefix } from "../harness/pair.ts";
import { type Block, blocksOf, read, root, sectionOf, tablesOf } from "./markdown.ts";

const page = read("docs/cluster.md");

let cluster: TestCluster;
let bin: string;
beforeAll(async () => {
  cluster = await startClusterOf();
  // The lines are run as they stand. A redis-cli of this name, first on PATH, knows the test's port.
  bin = mkdtempSync(join(tmpdir(), "tidegate-bin-"));
  const real = spawnSync("sh", ["-c", "command -v redis-cli"], { encoding: "utf8" }).stdout.trim();
  writeFileSync(join(bin, "redis-cli"), `#!/bin/sh\nexec ${real} -p ${cluster.nodes[0]!.port} "$@"\n`);
  chmodSync(join(bin, "redis-cli"), 0o755);
});
afterAll(async () => {
  rmSync(bin, { recursive: true, force: true });
  await cluster.stop();
});

function run(lines: string): string {
  const env = { ...process.env, PATH: `${bin}${delimiter}${process.env["PATH"]}` };
  const { stdout, stderr, status } = spawnSync("sh", ["-ec", lines], { cwd: root, env, encoding: "utf8" });
  expect(status, stderr).toBe(0);
  return stdout.trim();
}

describe("One identity, one slot", () => {
  const blocks = blocksOf(sectionOf(page, "One identity, one slot"));
  const shown = blocks.flatMap(({ language, text }, i): [string, string][] =>
    language === "sh" ? [[text.trim(), blocks[i + 1]!.text.trim()]] : [],
  );

  it("shows four answers, each below its commands", () => {
    expect(blocks.map(({ language }) => language)).toEqual(Array(4).fill(["sh", "text"]).flat());
  });

  it.each(shown)("%s", (commands, answer) => {
    const given = run(commands);
    const [before = "", ...cut] = answer.split(" …");
    if (cut.length === 0) expect(given).toBe(answer);
    else expect(given.startsWith(before)).toBe(true);
  });
});

/** Identities of three servers, as three policies count them. */
async function inThreeSlots(): Promise<Record<"a" | "b" | "c", Identity>> {
  const owners = new Map<string, Identity>();
  for (let i = 0; owners.size < 3; i++) owners.set((await cluster.primaryOf(`{user:${i}}`)).id, user(i));
  const [a, b, c] = [...owners.values()];
  return { a: a!, b: b!, c: c! };
}

describe("Several identities", () => {
  const rows = tablesOf(sectionOf(page, "Several identities"))[0]!;
  const shown = Object.fromEntries(rows.map((row) => [row["decision"]!, Number(row["runs of a script"])]));

  it("take as many runs of a script as the table says", async () => {
    const client = new Cluster([...cluster.startupNodes]);
    onTestFinished(() => client.disconnect());
    const policy = () => fixedWindow({ limit: 1, window: "1h" });
    const limiter = createLimiter({
      redis: client,
      prefix: freshPrefix(),
      policies: { a: policy(), b: policy(), c: policy() },
      timeoutMs: 10_000,
    });
    onTestFinished(() => limiter.close());
    const identity = await inThreeSlots();
    let decision: Decision = await limiter.peek({ identity });
    // What it takes to load the other script is not what a settlement takes.
    await limiter.settle(await limiter.decide({ identity }), "giveBack");

    const runs = async (act: () => Promise<unknown>) => {
      const before = await scripts();
      await act();
      return (await scripts()) - before;
    };
    const decide = async (who: Parameters<Limiter["decide"]>[0]["identity"]) =>
      void (decision = await limiter.decide({ identity: who }));
    expect({
      "of one identity": await runs(() => decide(user("somebody"))),
      "of identities in 3 slots, allowed": await runs(() => decide(identity)),
      "settling what was in 3 slots": await runs(() => limiter.settle(decision, "giveBack")),
      "of identities in 3 slots, refused": await runs(() => decide({ ...identity, a: user("somebody") })),
    }).toEqual(shown);
    expect(decision.allowed).toBe(false);
  });

  const scripts = async (): Promise<number> => {
    const calls = await cluster.eachPrimary(async (node) => [
      await callsOf(node, "evalsha"),
      await callsOf(node, "eval"),
    ]);
    return calls.flat().reduce((sum, count) => sum + count, 0);
  };
});

/** A block as it stands, with what it leaves open. Gives what it has made. */
async function runBlock({ text }: Block, given: Record<string, unknown>): Promise<Record<string, any>> {
  mkdirSync(join(root, ".cache"), { recursive: true });
  const folder = mkdtempSync(join(root, ".cache/cluster-page-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const names = [...text.matchAll(/^const (\w+)/gm)].map(([, name]) => name);
  Object.assign(globalThis, { [GIVEN]: given });
  const from = `(globalThis as any)[Symbol.for("tidegate.docs.cluster")]`;
  const file = join(folder, "block.ts");
  const opening = `const { ${Object.keys(given).join(", ")} } = ${from};`;
  writeFileSync(file, `${opening}\n${text}\nexport const made = { ${names.join(", ")} };\n`);
  return ((await import(/* @vite-ignore */ file)) as { made: Record<string, any> }).made;
}

const GIVEN = Symbol.for("tidegate.docs.cluster");

it("the first example decides", async () => {
  const first = blocksOf(page).find(({ language }) => language === "ts")!;
  const { limiter, redis, decision } = await runBlock(first, { nodes: cluster.urls });
  onTestFinished(async () => {
    await (limiter as Limiter).close();
    (redis as Cluster).disconnect();
  });
  // Its deadline is the usual one, and this machine may be busy.
  const again = decision.degraded ? await (limiter as Limiter).decide({ identity: user("42") }) : decision;
  expect(again).toMatchObject({
    allowed: true,
    degraded: undefined,
    verdicts: [{ policy: "burst" }, { policy: "day" }, { policy: "everybody" }],
  });
});

describe("Your client, and ours", () => {
  const source =
    read("packages/core/src/clients/ioredis-cluster.ts") + read("packages/core/src/clients/ioredis-shape.ts");
  const table = sectionOf(page, "Your client, and ours");

  it.each([
    ["maxRedirections", "4", "4, 10 ms"],
    ["retryDelayOnTryAgain", "10", "4, 10 ms"],
    ["retryDelayOnFailover", "0", "| 0. "],
    ["retryDelayOnClusterDown", "0", "| 0. "],
    ["slotsRefreshInterval", "1000", "| 1 s. "],
    ["scaleReads", '"master"', '`"master"`'],
    ["enableAutoPipelining", "false", "| off. "],
    ["maxRetriesPerRequest", "0", "0, none, 0.5 s, 1.5 s"],
    ["commandTimeout", "undefined", "0, none, 0.5 s, 1.5 s"],
    ["connectTimeout", "500", "0, none, 0.5 s, 1.5 s"],
    ["socketTimeout", "1500", "0, none, 0.5 s, 1.5 s"],
  ])("%s is %s, as it says", (name, value, words) => {
    expect(source).toContain(`${name}: ${value},`);
    const row = table.split("\n").find((line) => line.startsWith("|") && line.includes(`\`${name}\``));
    expect(row).toContain(words);
  });
});
