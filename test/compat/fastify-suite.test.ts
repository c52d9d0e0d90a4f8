/**
 * The tests of @fastify/rate-limit themselves, as its package 11.2.0 (MIT) has them, with our store under the plugin:
 * those of its Redis store on a real Redis, all others in memory by the time they set.
 */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { startRedis } from "../harness/redis.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const here = fileURLToPath(new URL("fastify-suite", import.meta.url));
const manifest = createRequire(import.meta.url).resolve("@fastify/rate-limit/package.json");
const suite = join(manifest, "../test");

mkdirSync(join(root, ".cache"), { recursive: true });
const folder = mkdtempSync(join(root, ".cache/compat-suite-"));
const store = join(folder, "store.cjs");
beforeAll(() =>
  build({
    stdin: {
      contents: `export * from "@tidegate/compat/fastify-rate-limit"; export { memoryStore } from "@tidegate/core";`,
      resolveDir: root,
    },
    bundle: true,
    platform: "node",
    format: "cjs",
    outfile: store,
    conditions: ["@tidegate/source"],
    external: ["ioredis", "iovalkey", "redis"],
  }),
);
afterAll(() => rmSync(folder, { recursive: true }));

type Ended = Record<"pass" | "fail" | "skip", string[]>;

/** Runs files of the suite, and tells how each of their tests ended. */
async function run(files: readonly string[], redisPort = ""): Promise<Ended> {
  const args = ["--require", join(here, "preload.cjs"), "--test", "--test-concurrency=1"];
  const report = ["--test-reporter", join(here, "reporter.mjs"), "--test-reporter-destination", "stdout"];
  const child = spawn(process.execPath, [...args, ...report, ...files.map((file) => join(suite, file))], {
    cwd: root,
    env: { ...process.env, COMPAT_ROOT: root, COMPAT_STORE: store, COMPAT_REDIS_PORT: redisPort },
    stdio: ["ignore", "pipe", "ignore"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let said = "";
  for await (const chunk of child.stdout) said += String(chunk);
  const ended: Ended = { pass: [], fail: [], skip: [] };
  for (const line of said.trim().split("\n")) {
    const [how = "", file, name] = line.split("\t");
    ended[how as keyof Ended]?.push(`${file}: ${name}`);
  }
  return ended;
}

const REDIS = "redis-rate-limit.test.js";

describe("the tests of @fastify/rate-limit, on our store", () => {
  it("are those of the version that the exceptions below were read in", () => {
    expect((JSON.parse(readFileSync(manifest, "utf8")) as { version: string }).version).toBe("11.2.0");
  });

  it(
    "of its Redis store pass, but for those that quote an error of ioredis",
    { timeout: 180_000 },
    async () => {
      const redis = await startRedis();
      onTestFinished(() => redis.stop());
      const { pass, fail, skip } = await run([REDIS], String(redis.port));
      // They want status 500 and "Connection is closed."; our rule "closed" says 503.
      expect(fail).toEqual([
        `${REDIS}: Throw on redis error`,
        `${REDIS}: With { increment: false } it throws on redis error`,
        `${REDIS}: Throw on redis error`,
      ]);
      expect([pass.length, skip.length]).toEqual([13, 0]);
    },
  );

  it("of everything else pass, but for one of its memory store alone", { timeout: 180_000 }, async () => {
    const files = readdirSync(suite, { recursive: true, encoding: "utf8" });
    const others = files.filter((file) => file.endsWith(".test.js") && !file.endsWith(REDIS)).toSorted();
    const { pass, fail, skip } = await run(others);
    // Its Redis store tells the wait as it is, and so does ours; its memory store forgets what it has lengthened.
    expect(fail).toEqual([
      "create-rate-limit.test.js: With { increment: false } and exponentialBackoff the peek reports the base window without escalating it",
    ]);
    expect([pass.length, skip.length]).toEqual([96, 1]);
  });
});
