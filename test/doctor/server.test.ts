/** What the doctor says of a server: what it is, and how it is set up. */
import { createLimiter, doctor } from "@tidegate/core";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { type RedisServer, startCluster, startRedis } from "../harness/redis.ts";
import { bulk, scriptedServer } from "../harness/scripted.ts";
import { serverOf, servers } from "../harness/servers.ts";
import { examine, of, onLevel, the } from "./asking.ts";

describe.each(servers)("%s", (name) => {
  let server: RedisServer;
  beforeAll(async () => void (server = await startRedis({ server: name })));
  afterAll(() => server.stop());

  it("is fit as it starts: there is nothing above a notice", async () => {
    const report = await examine({ redis: server.url });
    expect(onLevel(report, "must", "warning")).toEqual([]);
    expect(onLevel(report, "notice")).toEqual(["MEMORY", "PERSISTENCE", "SCRIPTS"]);
    expect(report.ok).toBe(true);
  });

  it("is known by its own name and version", async () => {
    const { version } = serverOf(name);
    const own = name.startsWith("valkey") ? "Valkey" : "Redis";
    const report = await examine({ redis: server.url });
    expect(the(report, "VERSION")).toMatchObject({
      level: "ok",
      message: `It is ${own} ${version}.`,
      server: `127.0.0.1:${server.port}`,
    });
    expect(report.servers).toMatchObject([
      { address: `127.0.0.1:${server.port}`, name: own, version, keys: 0 },
    ]);
  });

  it("is not written to", async () => {
    const changes = async () =>
      /rdb_changes_since_last_save:(\d+)/.exec(await server.client.info("persistence"))?.[1];
    await server.client.set("rl:somebody's", "value");
    const before = await changes();
    await examine({ redis: server.url });
    expect([await changes(), await server.client.dbsize()]).toEqual([before, 1]);
    await server.client.del("rl:somebody's");
  });

  it("has a clock that is this machine's", async () => {
    const { servers: told, findings } = await examine({ redis: server.url });
    expect(Math.abs(told[0]!.clockOffsetMs!)).toBeLessThan(1000);
    expect(findings.find(({ code }) => code === "TIDEGATE_DOCTOR_CLOCK")?.level).toBe("ok");
    expect(told[0]!.roundTripMs!.p50).toBeGreaterThan(0);
    expect(told[0]!.roundTripMs!.max).toBeGreaterThanOrEqual(told[0]!.roundTripMs!.p50);
  });
});

describe("a server's settings", () => {
  let server: RedisServer;
  beforeAll(async () => void (server = await startRedis()));
  afterAll(() => server.stop());
  afterEach(async () => {
    await set("maxmemory", 0);
    await set("maxmemory-policy", "noeviction");
    await server.client.flushall();
  });

  const set = (name: string, value: string | number) => server.client.config("SET", name, value);
  const memory = async () => Number(/used_memory:(\d+)/.exec(await server.client.info("memory"))?.[1]);

  it("that are as they should be are well, and so is all the rest", async () => {
    await set("maxmemory", "200mb");
    await set("appendonly", "yes");
    onTestFinished(async () => void (await set("appendonly", "no")));
    const limiter = createLimiter({ redis: server.url, limit: 9, window: "1m", timeoutMs: 10_000 });
    await limiter.decide({ identity: "somebody" });
    await limiter.close();

    const report = await examine({ redis: server.url });
    expect(onLevel(report, "must", "warning", "notice")).toEqual([]);
    expect(report.servers).toMatchObject([{ keys: 1 }]);
  });

  it.each(["volatile-lru", "volatile-ttl", "allkeys-lfu", "allkeys-random"])(
    "a maxmemory with %s is warned of",
    async (policy) => {
      await set("maxmemory", "200mb");
      await set("maxmemory-policy", policy);
      const report = await examine({ redis: server.url });
      expect(onLevel(report, "must", "warning")).toEqual(["EVICTION"]);
      const { message, advice, value } = the(report, "EVICTION");
      expect(message).toContain(`maxmemory-policy is ${policy}: once it holds 200 MB`);
      expect(advice).toContain("CONFIG SET maxmemory-policy noeviction");
      expect(value).toMatchObject({ policy, maxmemory: 200 * 1024 * 1024, evicted: 0 });
    },
  );

  it("tells how many keys were evicted", async () => {
    await set("maxmemory-policy", "allkeys-lru");
    await set("maxmemory", (await memory()) + 2_000_000);
    for (let i = 0; i < 100; i++) await server.client.set(`filler-${i}`, "x".repeat(50_000));
    const report = await examine({ redis: server.url });
    const { evicted } = the(report, "EVICTION").value as { evicted: number };
    expect(evicted).toBeGreaterThan(0);
    expect(the(report, "EVICTION").message).toContain("went that way since it started");
  });

  it("an eviction policy without a maxmemory is a notice", async () => {
    await set("maxmemory-policy", "allkeys-lru");
    expect(the(await examine({ redis: server.url }), "EVICTION")).toMatchObject({
      level: "notice",
      message: "Its maxmemory-policy is allkeys-lru. Without maxmemory nothing is evicted.",
    });
  });

  it("a memory that is nearly full is warned of", async () => {
    await server.client.set("filler", "x".repeat(20_000_000));
    await set("maxmemory", Math.ceil((await memory()) * 1.03));
    const report = await examine({ redis: server.url });
    expect(onLevel(report, "must", "warning")).toEqual(["MEMORY"]);
  });

  it.each([
    ["timeout", 300, 0, "IDLE_TIMEOUT", "idle for 300 s", "CONFIG SET timeout 0"],
    [
      "busy-reply-threshold",
      0,
      5000,
      "SCRIPT_LIMIT",
      "without a limit",
      "CONFIG SET busy-reply-threshold 5000",
    ],
    ["busy-reply-threshold", 9000, 5000, "SCRIPT_LIMIT", "only after 9,000 ms", "threshold 5000"],
  ] as const)("%s %i is a notice", async (name, value, usual, subject, words, cure) => {
    await set(name, value);
    onTestFinished(async () => void (await set(name, usual)));
    const { level, message, advice } = the(await examine({ redis: server.url }), subject);
    expect(level).toBe("notice");
    expect(message).toContain(words);
    expect(advice).toContain(cure);
  });

  it("a disk that every decision waits for is a notice", async () => {
    await set("appendonly", "yes");
    await set("appendfsync", "always");
    onTestFinished(async () => {
      await set("appendfsync", "everysec");
      await set("appendonly", "no");
    });
    const { level, advice } = the(await examine({ redis: server.url }), "PERSISTENCE");
    expect([level, advice]).toEqual(["notice", "CONFIG SET appendfsync everysec"]);
  });
});

describe("a server that cannot decide", () => {
  it("is told of when it is a replica, with its primary", async () => {
    const primary = await startRedis();
    onTestFinished(() => primary.stop());
    const replica = await startRedis({ args: ["--replicaof", "127.0.0.1", String(primary.port)] });
    onTestFinished(() => replica.stop());

    const report = await examine({ redis: replica.url });
    expect(report.ok).toBe(false);
    expect(onLevel(report, "must")).toEqual(["REPLICA"]);
    expect(the(report, "REPLICA")).toMatchObject({
      advice: `Let redis lead to the primary, 127.0.0.1:${primary.port}.`,
      value: { primary: `127.0.0.1:${primary.port}` },
    });
    // It can be looked at all the same.
    expect(report.servers[0]).toMatchObject({ name: "Redis", keys: 0, roundTripMs: expect.anything() });
  });

  it("is told of when somebody's script keeps it busy", async () => {
    const server = await startRedis({ args: ["--busy-reply-threshold", "1"] });
    onTestFinished(() => server.stop());
    const somebody = new Redis(server.url);
    onTestFinished(() => somebody.disconnect());
    somebody.eval("while true do end", 0).catch(() => {});
    const isBusy = () =>
      server.client.ping().then(
        () => false,
        (error: Error) => error.message.startsWith("BUSY"),
      );
    await eventually("the server is busy", isBusy);

    const report = await examine({ redis: server.url });
    await server.client.call("SCRIPT", "KILL");
    expect(onLevel(report, "must")).toEqual(["READY"]);
    expect(the(report, "READY")).toMatchObject({ value: { word: "BUSY" } });
    expect(the(report, "READY").advice).toContain("SCRIPT KILL");
  });

  it("is told of when it cannot save its data", async () => {
    const server = await startRedis({ args: ["--save", "3600 1", "--dir", "/proc/self"] });
    onTestFinished(() => server.stop());
    await server.client.set("something", "to save");
    await server.client.bgsave();
    const isUnsaved = async () =>
      (await server.client.info("persistence")).includes("last_bgsave_status:err");
    await eventually("the save failed", isUnsaved, 20_000);

    const report = await examine({ redis: server.url });
    expect(onLevel(report, "must")).toEqual(["READY"]);
    expect(the(report, "READY")).toMatchObject({
      message: "It does not decide: the server takes no writes now (MISCONF).",
      value: { word: "MISCONF" },
    });
  });

  it("is told of when its replicas are away", async () => {
    const server = await startRedis({ args: ["--min-replicas-to-write", "1"] });
    onTestFinished(() => server.stop());
    expect(the(await examine({ redis: server.url }), "READY")).toMatchObject({
      level: "must",
      value: { word: "NOREPLICAS" },
    });
  });

  it("is told of when it is too old for the scripts", async () => {
    const old = await scriptedServer((command) => {
      if (command === "HELLO") return "-NOPROTO unsupported protocol version\r\n";
      if (command === "INFO") return bulk("redis_version:6.2.14\r\nredis_mode:standalone\r\nloading:0\r\n");
      return undefined;
    });
    onTestFinished(() => old.stop());
    const report = await examine({ redis: old.url });
    expect(onLevel(report, "must")).toEqual(["VERSION"]);
    expect(the(report, "VERSION")).toMatchObject({
      message: "It is Redis 6.2.14, which cannot run the scripts: every decision is the failure rule's.",
      advice: "Use Redis 7.0 or Valkey 7.2, or newer.",
    });
  });

  it("is told of when it is a sentinel", async () => {
    const sentinel = await scriptedServer((command) => {
      if (command === "HELLO") return "-NOPROTO unsupported protocol version\r\n";
      if (command === "INFO") return bulk("redis_version:7.0.15\r\nredis_mode:sentinel\r\n");
      return undefined;
    });
    onTestFinished(() => sentinel.stop());
    const report = await examine({ redis: sentinel.url });
    expect(onLevel(report, "must")).toEqual(["TOPOLOGY"]);
    expect(the(report, "TOPOLOGY").message).toBe("It is a sentinel, which keeps no limits.");
  });

  it("is told of when it is one of several in a Cluster, and not when it is all of it", async () => {
    const [all, lone] = await Promise.all([
      startCluster(),
      startRedis({ args: ["--cluster-enabled", "yes"] }),
    ]);
    onTestFinished(async () => void (await Promise.all([all.stop(), lone.stop()])));
    expect(the(await examine({ redis: all.url }), "TOPOLOGY")).toMatchObject({ level: "ok" });
    expect(onLevel(await examine({ redis: all.url }), "must", "warning")).toEqual([]);
    expect(the(await examine({ redis: lone.url }), "TOPOLOGY")).toMatchObject({ level: "must" });
  });
});

it("finds a database that is not there", async () => {
  const server = await startRedis();
  onTestFinished(() => server.stop());
  const ok = await examine({ redis: `${server.url}/3` });
  expect(of(ok, "DATABASE")).toEqual([]);
  const report = await doctor({ redis: `${server.url}/99`, answerMs: 10_000 });
  expect(the(report, "DATABASE")).toMatchObject({ level: "must", value: { database: 99 } });
});
