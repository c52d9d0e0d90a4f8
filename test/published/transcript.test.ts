/** The page that shows a start from nothing, made again. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { PAGE, transcript } from "../../scripts/transcript.js";
import { type RedisServer, startRedis } from "../harness/redis.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

let redis: RedisServer;
beforeAll(async () => void (redis = await startRedis()));
afterAll(() => redis.stop());

it(
  "packed, installed by npm, started: three requests pass on each framework, the fourth is told when to come back",
  { timeout: 300_000 },
  async () => {
    const page = await transcript({ redisUrl: redis.url });
    expect(page).toBe(readFileSync(join(root, PAGE), "utf8"));
    expect(page.match(/^HTTP\/1\.1 \d+ .*$/gm)).toEqual(
      ["Express", "Fastify", "Koa"].flatMap(() => [
        ...Array<string>(3).fill("HTTP/1.1 200 OK"),
        "HTTP/1.1 429 Too Many Requests",
      ]),
    );
    const keys = ["express", "fastify", "koa"].map((prefix) => `${prefix}:{ip:127.0.0.1}:burst:sl`);
    expect((await redis.client.keys("*")).sort(), "what is shown was counted in Redis").toEqual(keys);
  },
);
