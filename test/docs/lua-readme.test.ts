import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import {
  concurrency,
  createLimiter,
  fixedWindow,
  gcra,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { entries } from "../../lua/build.js";
import { compose } from "../../lua/compose.js";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { blockOf, read, root, sectionOf, tablesOf } from "./markdown.ts";

const readme = read("lua/README.md");

describe("lua/README.md", () => {
  let redis: RedisServer;
  let bin: string;

  // The lines are run as they stand. A redis-cli of this name, first on PATH, knows the test's port.
  beforeAll(async () => {
    redis = await startRedis();
    bin = mkdtempSync(join(tmpdir(), "tidegate-bin-"));
    const real = spawnSync("sh", ["-c", "command -v redis-cli"], { encoding: "utf8" }).stdout.trim();
    writeFileSync(join(bin, "redis-cli"), `#!/bin/sh\nexec ${real} -p ${redis.port} "$@"\n`);
    chmodSync(join(bin, "redis-cli"), 0o755);
  });
  afterAll(async () => {
    rmSync(bin, { recursive: true, force: true });
    await redis.stop();
  });

  function run(lines: string): string[] {
    const env = { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` };
    const { stdout, stderr, status } = spawnSync("sh", ["-ec", lines], { cwd: root, env, encoding: "utf8" });
    expect(status, stderr).toBe(0);
    return stdout.trim().split("\n");
  }

  it("shows a line for redis-cli that answers what the table explains", async () => {
    const tryIt = sectionOf(readme, "Try it");
    const lines = blockOf(tryIt, "sh");
    const explained = tablesOf(tryIt)[1]!.map((row) => row.integer);
    expect(explained).toEqual(["1", "now", "1", "4000000", "now"]);

    const before = (await redis.client.time()).map(Number);
    const [version, now, granted, micro, ts] = run(lines).map(Number);
    expect([version, granted, micro]).toEqual([1, 1, 4_000_000]);
    expect(ts).toBe(now);
    expect(now).toBeGreaterThan(before[0]! * 1_000_000 + before[1]!);
    expect(await redis.client.hgetall("rl:{user:42}:burst:tb")).toEqual({
      tokens: "4",
      ts: String(now),
    });
  });

  it("says rightly that the sixth reply is refused, with the integers of the fifth", async () => {
    await redis.client.del("rl:{user:42}:burst:tb");
    const once = blockOf(sectionOf(readme, "Try it"), "sh").trim().split("\n")[1]!;
    const printed = run(Array<string>(6).fill(once).join("\n")).map(Number);
    const replies = Array.from({ length: 6 }, (_, i) => printed.slice(i * 5, i * 5 + 5));
    // Half a second would bring a token. A machine that slow proves nothing.
    if (replies[5]![1]! - replies[0]![1]! >= 500_000) return;
    expect(replies.map(([, , status]) => status)).toEqual([1, 1, 1, 1, 1, 0]);
    expect(replies[5]!.slice(3)).toEqual(replies[4]!.slice(3));
  });

  it("lists every status that the script knows", () => {
    const reply = readFileSync(join(root, "lua/shared/reply.lua"), "utf8");
    const [, names, numbers] = /^local (.*) = (.*)$/m.exec(reply)!;
    const listed = tablesOf(sectionOf(readme, "Status"))[0]!;
    const statuses = new Map(listed.map(({ status, name }) => [status, name]));
    names!.split(", ").forEach((name, i) => {
      expect(statuses.get(numbers!.split(", ")[i]!)).toContain(name.toLowerCase());
    });
  });

  it("lists every error of the whole script, and every algorithm", () => {
    const errors = entries.flatMap((entry) =>
      [...read(`lua/${entry}.lua`).matchAll(/error_reply\('(\w+)/g)].map(([, word]) => word!),
    );
    const listed = tablesOf(sectionOf(readme, "Errors of the whole script"))[0]!;
    expect(listed.map((row) => row["first word"]!).toSorted()).toEqual([...new Set(errors)].toSorted());
    const tags = [...read("lua/shared/algorithms.lua").matchAll(/tag == '(\w+)'/g)].map(([, tag]) => tag);
    expect(tags).toHaveLength(6);
    for (const tag of tags) expect(sectionOf(readme, "Algorithms")).toContain(`**\`${tag}\``);
  });

  it("lists every flag of a check, and every op of settle.lua and manage.lua", () => {
    const [, flags] = /\[\^(\w+)\]/.exec(read("lua/decide.lua"))!;
    const shown = tablesOf(sectionOf(readme, "ARGV")).flatMap((rows) => rows.map(({ flag }) => flag));
    expect(shown.filter(Boolean)).toEqual([...flags!]);
    for (const [entry, pattern, count] of [
      ["settle", /op == '(\w)'/g, 3],
      ["manage", /ARGV\[2\] == '(\w+)'/g, 4],
    ] as const) {
      const ops = [...read(`lua/${entry}.lua`).matchAll(pattern)].map(([, op]) => op!);
      expect(ops).toHaveLength(count);
      for (const op of ops) expect(sectionOf(readme, `${entry}.lua`)).toContain(`\`${op}\``);
    }
  });

  const listedCommands = /commands on keys under the prefix: `(.*?)`/.exec(readme)![1]!.split(" ");

  it("lists the commands that the scripts call, and no others", () => {
    const called = entries
      .map((entry) => compose(entry))
      .flatMap((text) => [...text.matchAll(/redis\.p?call\('(\w+)'/g)].map(([, name]) => name!));
    const sent = ["EVALSHA", "EVAL", "SCRIPT|LOAD", "INFO"];
    expect(listedCommands.toSorted()).toEqual([...new Set([...sent, ...called])].toSorted());
  });

  it("lists every command that the scripts and the store send", async () => {
    const rules = listedCommands.map((command) => `+${command.toLowerCase()}`);
    await redis.client.call("acl", "setuser", "limiter", "on", ">secret", "~rl:*", "-@all", ...rules);
    const windowed = { limit: 2, window: "1m" };
    const common = { redis: redis.url.replace("//", "//limiter:secret@"), timeoutMs: 5000, blocking: true };
    // Whoever takes a slot in flight is never given an earlier grant.
    const slots = createLimiter({ ...common, policies: { cc: concurrency({ limit: 2 }) } });
    await slots.settle(await slots.decide({ identity: "somebody" }), "keep");
    await slots.close();
    const limiter = createLimiter({
      ...common,
      policies: {
        tb: tokenBucket({ capacity: 2, refillPerSecond: 0.01 }),
        gc: gcra(windowed),
        sw: slidingWindow(windowed),
        fw: fixedWindow(windowed),
        sl: slidingLog(windowed),
      },
    });
    const ask = { identity: "somebody", idempotencyKey: "first" };
    const decisions = [await limiter.decide(ask), await limiter.decide(ask)];
    for (let i = 0; i < 2; i++) decisions.push(await limiter.decide({ identity: "somebody" }));
    expect(decisions.map(({ allowed, replayed, degraded }) => [allowed, replayed, degraded])).toEqual([
      [true, false, undefined],
      [true, true, undefined],
      [true, false, undefined],
      [false, false, undefined],
    ]);
    await limiter.settle(decisions[0]!, "giveBack");
    await limiter.settle(decisions[2]!, 2);
    await limiter.block("somebody", 60_000);
    expect((await limiter.peek({ identity: "somebody" })).blocked).toBe(true);
    await limiter.unblock("somebody");
    await limiter.reset("somebody");
    expect((await limiter.peek({ identity: "somebody" })).verdicts.map(({ fullMs }) => fullMs)).toEqual(
      Array(5).fill(0),
    );
    await limiter.close();
  });
});
