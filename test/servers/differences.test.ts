/** What docs/servers.md says of single servers. */
import { createLimiter, fixedWindow } from "@tidegate/core";
import { describe, expect, it, onTestFinished } from "vitest";
import { read, sectionOf, tablesOf } from "../docs/markdown.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { type ServerName, servers } from "../harness/servers.ts";
import { serverNames } from "../../scripts/servers.js";

const page = read("docs/servers.md");

/** As the page writes a server's name. */
const titleOf = (name: ServerName): string =>
  name.replace(/^\w/, (letter) => letter.toUpperCase()).replace("-", " ");

async function started(name: ServerName, ...args: string[]): Promise<RedisServer> {
  const server = await startRedis({ server: name, args });
  onTestFinished(() => server.stop());
  return server;
}

/** What each row of the table asks a server. */
const questions: Record<string, (server: RedisServer) => Promise<string>> = {
  async "`redis_version` in `INFO` begins with"({ client }) {
    return /^redis_version:(\d+\.\d+)\./m.exec(await client.info("server"))![1]!;
  },
  async "texts that came by `EVAL`, kept at most"({ client }) {
    const texts = Array.from({ length: 600 }, (_, i) => `return ${i}`);
    for (const text of texts) await client.eval(text, 0);
    const kept = Number(/^number_of_cached_scripts:(\d+)/m.exec(await client.info("memory"))![1]);
    return kept === texts.length ? "all" : String(kept);
  },
  async "`TIME`, asked twice in one script"({ client }) {
    const first = "local a = redis.call('TIME') for _ = 1, 3000000 do end local b = redis.call('TIME')";
    const us = await client.eval(`${first} return (b[1] - a[1]) * 1000000 + b[2] - a[2]`, 0);
    return us === 0 ? "stands" : "goes on";
  },
  async "`CLIENT SETINFO`"({ client }) {
    const said = client.call("CLIENT", "SETINFO", "LIB-NAME", "some");
    return said.then(
      () => "known",
      () => "unknown",
    );
  },
  async "a refusal inside a script names the command"({ client, port }) {
    await client.call("ACL", "SETUSER", "narrow", "on", ">secret", "~*", "+eval");
    const theirs = client.duplicate({
      port,
      username: "narrow",
      password: "secret",
      enableReadyCheck: false,
    });
    onTestFinished(() => theirs.disconnect());
    const said = await theirs.eval("return redis.call('ZADD', KEYS[1], 1, 'a')", 1, "k").catch(String);
    expect(said).toMatch(/can't run this command|ACL failure in script/);
    return /'zadd'/.test(String(said)) ? "yes" : "no";
  },
};

describe("docs/servers.md", () => {
  it("names the servers that are tested", () => {
    const [rows] = tablesOf(sectionOf(page, "Tested"));
    expect(rows!.map(({ server }) => server)).toEqual(serverNames.map(titleOf));
  });

  const [table] = tablesOf(sectionOf(page, "What differs"));
  const rowOf = (what: string) => table!.find((row) => row.what === what.replace(/^`([^`]*)`$/, "$1"));

  it("says of every server how it differs, and nothing that is not asked here", () => {
    expect(table).toHaveLength(Object.keys(questions).length);
    expect(Object.keys(questions).filter((what) => !rowOf(what))).toEqual([]);
    for (const row of table!) expect(Object.keys(row)).toEqual(["what", ...serverNames.map(titleOf)]);
  });

  describe.each(servers)("on %s", (name) => {
    it.each(Object.keys(questions))("%s: as the table says", async (what) => {
      expect(await questions[what]!(await started(name))).toBe(rowOf(what)![titleOf(name)]);
    });

    it("a full server that evicts nothing refuses others and limits on", async () => {
      const server = await started(name, "--maxmemory-policy", "noeviction");
      await server.client.config("SET", "maxmemory", "1");
      await expect(server.client.set("theirs", "1")).rejects.toThrow(/^OOM/);
      const policies = { p: fixedWindow({ limit: 2, window: "1h" }) };
      const limiter = createLimiter({ redis: server.url, policies, timeoutMs: 10_000 });
      onTestFinished(() => limiter.close());
      const told = [];
      for (let i = 0; i < 3; i++) told.push(await limiter.decide({ identity: "somebody" }));
      expect(told.map(({ allowed, degraded }) => [allowed, degraded])).toEqual([
        [true, undefined],
        [true, undefined],
        [false, undefined],
      ]);
    });

    it("600 other scripts push none of ours out for good", async () => {
      const server = await started(name);
      const policies = { p: fixedWindow({ limit: 10, window: "1h" }) };
      const limiter = createLimiter({ redis: server.url, policies, timeoutMs: 10_000, blocking: true });
      onTestFinished(() => limiter.close());
      const ask = () => limiter.decide({ identity: "somebody" });
      const others = async () => {
        for (let i = 0; i < 600; i++) await server.client.eval(`return ${i}`, 0);
      };
      const first = await ask();
      await others();
      await limiter.settle(first, "giveBack");
      await others();
      await limiter.settle(await ask(), 3);
      await others();
      expect((await ask()).verdicts[0]!.remaining).toBe(6);
    });
  });
});
