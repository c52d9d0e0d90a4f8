/** A busy machine: time passes between a script's look at the clock and its look at a key. Nothing may be lost by it. */
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { ioredisClient, redisStore, type Store } from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compose } from "../../lua/compose.js";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { admitted, everything, limiterOf, used } from "./asking.ts";

const dir = mkdtempSync(join(tmpdir(), "tidegate-slow-"));
afterAll(() => rmSync(dir, { recursive: true }));

/** The shipped functions of time, and 5 ms that pass before each look at what is left of a key's life. */
function slowTime(): URL {
  const shipped = readFileSync(new URL("../../lua/shared/time.lua", import.meta.url), "utf8");
  const look = /(local function left\(.*\)\n)/;
  expect(shipped).toMatch(look);
  const pause = `
  local begun = redis.call('TIME')
  repeat
    local time = redis.call('TIME')
  until (time[1] - begun[1]) * 1000000 + time[2] - begun[2] > 5000
`;
  writeFileSync(join(dir, "time.lua"), shipped.replace(look, `$1${pause}`));
  return pathToFileURL(join(dir, "time.lua"));
}

function slow(entry: string) {
  const text = compose(entry, { "shared/time": slowTime() });
  return { sha: createHash("sha1").update(text).digest("hex"), text };
}

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

describe.each([
  ["decide", ["decide"]],
  ["settle", ["settle"]],
  ["decide and settle", ["decide", "settle"]],
])("Where Redis is slow to run %s", (which, entries) => {
  let store: Store;
  beforeAll(() => {
    const scripts = Object.fromEntries(entries.map((entry) => [entry, slow(entry)]));
    store = redisStore(ioredisClient(server.url), { scripts });
  });
  afterAll(() => store.close());

  describe.each(everything(5))("%s", (name, policy) => {
    const limiter = (what: string) =>
      limiterOf({ store, prefix: `${which} ${name} ${what}`, policies: { policy } });

    it("five of eight are let in", async () => {
      const asked = limiter("admits");
      expect(await admitted(asked, 8)).toBe(5);
      expect(await used(asked)).toEqual([5]);
    });

    it("what is given back is there again", async () => {
      const asked = limiter("gives back");
      await asked.decide({ identity: "x" });
      await asked.settle(await asked.decide({ identity: "x" }), "giveBack");
      expect(await used(asked)).toEqual([1]);
    });

    it("what it cost more is charged", async () => {
      const asked = limiter("debits");
      await asked.decide({ identity: "x" });
      await asked.settle(await asked.decide({ identity: "x" }), 3);
      // A slot comes free, whatever it cost.
      expect(await used(asked)).toEqual([name === "concurrency" ? 1 : 4]);
    });
  });
});
