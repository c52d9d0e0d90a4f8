/** What the doctor says of what a Redis user may do, and what it does when it may little. */
import { createLimiter, type Policy, slidingWindow } from "@tidegate/core";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { deciding as shippedDeciding, managing, rights } from "../../packages/core/src/doctor/probes.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { deciding, managing as managingToo } from "../harness/rights.ts";
import { servers } from "../harness/servers.ts";
import { examine, of, onLevel, the, userOf } from "./asking.ts";

const may = (...rights: string[]): string[] => rights.map((right) => `+${right}`);
const without = (...rights: string[]): string[] => deciding.filter((right) => !rights.includes(right));

describe.each(servers)("a user of %s", (name) => {
  let server: RedisServer;
  beforeAll(async () => void (server = await startRedis({ server: name })));
  afterAll(() => server.stop());

  it("who may decide is well, and told what it may not look at", async () => {
    const redis = await userOf(server, "decides", "~rl:*", ...may(...deciding));
    const report = await examine({ redis });
    expect(onLevel(report, "must", "warning")).toEqual([]);
    expect(the(report, "RIGHTS")).toMatchObject({ level: "ok" });
    expect(the(report, "MANAGE")).toMatchObject({
      level: "notice",
      message:
        "The user of this connection may not run DEL: reset and unblock fail, decisions do not need it.",
      advice: "ACL SETUSER <user> +del",
      value: { missing: ["del"] },
    });
    expect(the(report, "LOOK")).toMatchObject({
      level: "notice",
      value: { missing: ["config|get", "script|exists", "scan"] },
    });
  });

  it("who may do everything here is told of nothing", async () => {
    const looks = ["config|get", "script|exists", "scan", "type", "acl|whoami"];
    const redis = await userOf(server, "looks", "~rl:*", ...may(...managingToo, ...deciding, ...looks));
    const report = await examine({ redis });
    expect(onLevel(report, "must", "warning")).toEqual([]);
    for (const subject of ["LOOK", "MANAGE", "SCRIPT_LOAD"])
      expect([subject, of(report, subject)]).toEqual([subject, []]);
    expect(the(report, "RIGHTS").message).toBe("The user looks may decide and settle.");
  });

  it.each([
    [["hset"], "HSET"],
    [["zadd", "incrby"], "INCRBY and ZADD"],
    [["time"], "TIME"],
    [["evalsha"], "EVALSHA"],
    [["eval"], "EVAL"],
    [["eval", "pexpiretime"], "EVAL and PEXPIRETIME"],
  ])("who lacks %j is told so by name", async (missing, told) => {
    const redis = await userOf(server, "lacks", "~rl:*", "+acl|whoami", ...may(...without(...missing)));
    const report = await examine({ redis });
    expect(onLevel(report, "must")).toEqual(["RIGHTS"]);
    const { message, advice, value } = the(report, "RIGHTS");
    expect(message).toBe(`The user lacks may not run ${told}: decisions fail.`);
    expect(value).toEqual({ missing: expect.arrayContaining(missing) });
    for (const right of missing) expect(advice).toContain(`+${right}`);
  });

  it("who may do nothing at all gets a report", async () => {
    const report = await examine({ redis: await userOf(server, "nobody", "+acl|whoami") });
    expect(onLevel(report, "must")).toEqual(["RIGHTS"]);
    expect(the(report, "RIGHTS").advice).toBe("ACL SETUSER nobody +evalsha +eval");
    expect(the(report, "LOOK").value).toEqual({ missing: ["info", "config|get", "script|exists"] });
  });

  it.each([
    ["other keys", "~other:*"],
    ["these keys, to read them", "%R~rl:*"],
    ["no keys", "resetkeys"],
  ])("who may touch %s is told the pattern", async (_, pattern) => {
    const redis = await userOf(server, "keys", pattern, ...may(...deciding), "+acl|whoami");
    const report = await examine({ redis });
    expect(onLevel(report, "must")).toEqual(["RIGHTS"]);
    expect(the(report, "RIGHTS")).toMatchObject({
      message: "The user keys may not read and write keys that begin with rl: it gets no decision.",
      advice: "ACL SETUSER keys ~rl:*",
    });
  });

  it("who may not load scripts is told that it does not matter", async () => {
    const redis = await userOf(server, "loads", "~rl:*", ...may(...without("script|load")));
    const report = await examine({ redis });
    expect(onLevel(report, "must", "warning")).toEqual([]);
    expect(the(report, "SCRIPT_LOAD")).toMatchObject({
      level: "notice",
      advice: "ACL SETUSER <user> +script|load",
    });
  });
});

describe("a user", () => {
  let server: RedisServer;
  beforeAll(async () => void (server = await startRedis()));
  afterAll(() => server.stop());

  it("who is sent to a database that it may not choose is told where its keys go", async () => {
    const redis = await userOf(server, "chooses", "~rl:*", ...may(...deciding));
    expect(of(await examine({ redis }), "DATABASE")).toEqual([]);
    expect(the(await examine({ redis: `${redis}/3` }), "DATABASE")).toMatchObject({
      level: "must",
      message: "The user of this connection may not run SELECT: keys go to database 0, and not to 3.",
      advice: "Leave the number out, or ACL SETUSER <user> +select.",
    });
    await server.client.call("ACL", "SETUSER", "chooses", "+select");
    expect(of(await examine({ redis: `${redis}/3` }), "DATABASE")).toEqual([]);
  });

  it("who looks at keys and not at their types is told so", async () => {
    await server.client.set("rl:{id:x}:burst:tb", "no hash", "PX", 60_000);
    const redis = await userOf(server, "types", "~rl:*", ...may(...deciding, "scan"));
    const report = await examine({ redis });
    expect(the(report, "LOOK").value).toMatchObject({ missing: expect.arrayContaining(["type"]) });
    expect([of(report, "WRONG_TYPE"), the(report, "KEYS").value]).toEqual([[], { keys: 1, complete: true }]);
    await server.client.flushall();
  });

  it("whose client puts a prefix before keys is told the whole pattern", async () => {
    await userOf(server, "prefixed", "~rl:*", ...may(...deciding), "+acl|whoami");
    const redis = new Redis(server.port, "127.0.0.1", {
      username: "prefixed",
      password: "secret",
      keyPrefix: "app:",
      lazyConnect: true,
    });
    onTestFinished(() => redis.disconnect());
    expect(the(await examine({ redis }), "RIGHTS").advice).toBe("ACL SETUSER prefixed ~app:rl:*");
  });

  it("of Functions needs FCALL and FUNCTION LOAD, and no script", async () => {
    const inside = without("evalsha", "eval", "script|load");
    const redis = await userOf(
      server,
      "calls",
      "~rl:*",
      ...may(...inside, "fcall", "function|load", "acl|whoami"),
    );
    const report = await examine({ redis, scripting: "functions" });
    expect(onLevel(report, "must", "warning")).toEqual([]);
    expect(the(report, "LOOK").value).toMatchObject({ missing: expect.arrayContaining(["eval"]) });

    await server.client.call("ACL", "SETUSER", "calls", "-fcall", "-function|load");
    expect(the(await examine({ redis, scripting: "functions" }), "RIGHTS")).toMatchObject({
      level: "must",
      advice: "ACL SETUSER calls +fcall +function|load",
    });
    expect(await server.client.call("FUNCTION", "LIST")).toEqual([]);
  });

  it("is judged as a limiter fares: where one decides, the doctor says so", async () => {
    const policies: Record<string, Policy> = { window: slidingWindow({ limit: 5, window: "1m" }) };
    const redis = await userOf(server, "limits", "~rl:*", ...may(...deciding));
    const limiter = createLimiter({ redis, policies, timeoutMs: 10_000 });
    onTestFinished(() => limiter.close());
    expect((await limiter.decide({ identity: "x" })).degraded).toBeUndefined();
    expect((await examine({ redis, policies })).ok).toBe(true);
  });
});

describe("the commands that are tried", () => {
  const tried = [...rights.text.matchAll(/\{ '([A-Z]+)'/g)].map(([, name]) => name!);

  it("are those that the shipped scripts call, each once", () => {
    expect(tried.toSorted()).toEqual([...shippedDeciding, ...managing].toSorted());
    expect(new Set(tried).size).toBe(tried.length);
  });

  it("are read out of the scripts as the documents' are", () => {
    const sent = ["evalsha", "eval", "script|load", "info"];
    expect([...shippedDeciding].map((name) => name.toLowerCase()).toSorted()).toEqual(
      deciding.filter((right) => !sent.includes(right)),
    );
  });
});
