import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { live } from "../harness/live.ts";
import { freshPrefix } from "../harness/pair.ts";
import { type Crew, startCrew } from "../harness/processes.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { made, names, policyOf, type Recipe, recipes } from "./algorithms.ts";

let server: RedisServer;
let crew: Crew;
beforeAll(async () => {
  server = await startRedis();
  crew = startCrew(server.url, 4);
});
afterAll(async () => {
  crew.end();
  await server.stop();
});

describe("four processes at once, one identity", () => {
  it.each(names)("%s, limit 5, cost 1, 1,000 requests: exactly 5 admitted", async (name) => {
    const policies = { p: recipes[name]!(5) };
    const { admitted } = await crew.contest({ prefix: freshPrefix(), policies, times: 250 });
    expect(admitted).toBe(5);
  });

  it.each(names)(
    "%s, limit 10, cost 3, 400 requests: exactly 3 admitted, and one unit is left",
    async (name) => {
      const policies = { p: recipes[name]!(10) };
      const prefix = freshPrefix();
      const { admitted } = await crew.contest({ prefix, policies, times: 100, cost: 3 });
      expect(admitted).toBe(3);
      const { limiter } = await live(server, { policies: { p: policyOf(name, 10) }, prefix });
      expect((await limiter.peek({ identity: "somebody" })).verdicts[0]!.remaining).toBe(1);
      await limiter.close();
    },
  );
});

describe("four processes at once, three policies, three identities", () => {
  const trios = names.map((_, i) => [0, 1, 2].map((j) => names[(i + j) % names.length]!));

  it.each(trios)(
    "%s refuses, %s and %s are charged for the 4 admitted and not for the 396 refused",
    async (tight, second, third) => {
      const cost = { tight: 3, second: 5, third: 1 };
      const policies: Record<keyof typeof cost, Recipe> = {
        second: recipes[second!]!(1000),
        tight: recipes[tight!]!(14),
        third: recipes[third!]!(1000),
      };
      const contest = { prefix: freshPrefix(), identity: { second: "a", tight: "b", third: "c" }, cost };
      const { admitted } = await crew.contest({ ...contest, policies, times: 100 });
      expect(admitted).toBe(4);
      const looking = await live(server, {
        policies: Object.fromEntries(Object.entries(policies).map(([name, recipe]) => [name, made(recipe)])),
        prefix: contest.prefix,
      });
      const { verdicts } = await looking.limiter.peek({ identity: contest.identity });
      const used = verdicts.map(({ policy, limit, remaining }) => [policy, limit - remaining]);
      expect(Object.fromEntries(used)).toEqual({ second: 20, tight: 12, third: 4 });
      await looking.limiter.close();
    },
  );
});
