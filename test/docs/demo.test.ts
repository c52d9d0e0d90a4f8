import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort, type RedisServer, startRedis } from "../harness/redis.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

interface Run {
  child: ChildProcess;
  said: () => string;
  code: Promise<number | null>;
}

function demo(args: string[], env: Record<string, string> = {}): Run {
  const { REDIS_URL: _, PORT: __, ...rest } = process.env;
  const child = spawn(process.execPath, ["examples/demo/server.js", ...args], {
    cwd: root,
    env: { ...rest, ...env },
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
  // "close" and not "exit": everything has been said by then.
  const code = once(child, "close").then(([code]) => code as number | null);
  return { child, said: () => said, code };
}

/** The table's rows: number, status, RateLimit, Retry-After. */
const rowsOf = (said: string): string[][] =>
  said
    .split("\n")
    .filter((line) => /^ {2}\d/.test(line))
    .map((line) => line.trim().split(/ {2,}/));

/** The first ten only: on a real clock a token may be back before the last two. */
const FIRST_TEN = [2, 2, 2, 2, 1, 1, 1, 1, 1, 1].map((t, i) => [
  String(i + 1),
  "200",
  `"burst";r=${9 - i};t=${t}`,
  "-",
]);

describe("npm run demo", () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis.stop());

  it("shows a burst against the store in memory", async () => {
    const { said, code } = demo(["--once"]);
    expect(await code, said()).toBe(0);
    expect(said()).toContain("Store: this process's memory");
    expect(said()).toContain('RateLimit-Policy: "burst";q=10;w=2');
    const rows = rowsOf(said());
    expect(rows).toHaveLength(12);
    expect(rows.slice(0, 10)).toEqual(FIRST_TEN);
    for (const row of rows.slice(10)) expect(["200", "429"]).toContain(row[1]);
  });

  it("shows a burst against Redis, under keys of its own that expire", async () => {
    const { said, code } = demo(["--once"], { REDIS_URL: redis.url });
    expect(await code, said()).toBe(0);
    expect(said()).toContain(`Store: Redis at ${redis.url}`);
    expect(rowsOf(said()).slice(0, 10)).toEqual(FIRST_TEN);
    expect(await redis.client.keys("*")).toEqual(["tidegate-demo:{ip:127.0.0.1}:burst:tb"]);
    const left = await redis.client.pttl("tidegate-demo:{ip:127.0.0.1}:burst:tb");
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(2000);
  });

  it("says so when Redis is not there, and lets every request pass", async () => {
    const { said, code } = demo(["--once"], { REDIS_URL: `redis://:secret@127.0.0.1:${await freePort()}` });
    expect(await code, said()).toBe(0);
    expect(said()).toContain("degraded: there is no connection to Redis");
    expect(said()).not.toContain("secret");
    expect(rowsOf(said()).map(([, status]) => status)).toEqual(Array(12).fill("200"));
  });

  it.each(["SIGINT", "SIGTERM"] as const)("serves until %s, and ends with 0", async (signal) => {
    const port = await freePort();
    const { child, said, code } = demo([], { PORT: String(port) });
    while (!said().includes(`curl -i http://127.0.0.1:${port}/`)) await once(child.stdout!, "data");
    expect((await fetch(`http://127.0.0.1:${port}/`)).headers.get("RateLimit-Policy")).toBe(
      '"burst";q=10;w=2',
    );
    child.kill(signal);
    expect(await code, said()).toBe(0);
  });
});
