import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pairOf, tell } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { stories } from "../harness/stories.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

describe.each(stories)("%s", (_, story) => {
  it.each(["memory", "redis"] as const)("comes out row by row in %s", async (store) => {
    const pair = pairOf(server, { story: story.of });
    expect(await tell(story, pair, pair[store])).toEqual(story.rows);
  });
});
