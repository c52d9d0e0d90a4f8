/** `tidegate doctor` on servers that are sound, and on servers that are not. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { Redis } from "ioredis";
import { startClusterOf } from "../harness/cluster.ts";
import { ownRedis } from "../harness/http.ts";
import { freePort, type RedisServer, startRedis } from "../harness/redis.ts";
import { deciding } from "../harness/rights.ts";
import { startSentinel } from "../harness/sentinel.ts";
import { documentIn, fileWith, type Outside, tidegate } from "./terminal.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis({ args: ["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"] });
});
afterAll(() => server.stop());

const doctor = async (url: string, ...more: string[]) => {
  const said = await tidegate(["doctor", "--redis", url, "--json", ...more]);
  return { ...said, report: documentIn(said) };
};

const codesOn = (level: string, report: any): string[] =>
  report.findings.filter((finding: any) => finding.level === level).map(({ code }: any) => code);

describe("a sound server", () => {
  it("ends with 0, and what was looked at is told", async () => {
    const { code, report, err } = await doctor(server.url);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(report).toMatchObject({ ok: true, redis: server.url, prefix: "rl" });
    expect(report.servers).toEqual([
      {
        address: `127.0.0.1:${server.port}`,
        name: "Redis",
        version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
        clockOffsetMs: expect.any(Number),
        roundTripMs: { p50: expect.any(Number), max: expect.any(Number) },
        keys: 0,
      },
    ]);
    expect(codesOn("must", report)).toEqual([]);
    const looked = report.findings.map(({ code }: any) => code.replace("TIDEGATE_DOCTOR_", ""));
    for (const subject of ["VERSION", "RIGHTS", "EVICTION", "CLOCK", "LATENCY", "SCRIPTS", "KEYS"])
      expect(looked).toContain(subject);
  });

  it("is drawn as a table, its notices, and a sentence", async () => {
    const { code, out, err } = await tidegate(["doctor", "--redis", server.url]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    const lines = out.split("\n");
    expect(lines[0]).toBe(`${server.url}, prefix rl`);
    expect(lines[2]).toMatch(/^server +is +round trip +clock +keys$/);
    expect(lines[3]).toMatch(/^127\.0\.0\.1:\d+ +Redis \S+ +[\d.]+ ms, at most [\d.]+ ms +\S.* +0$/);
    expect(out).toMatch(/^notice {2}It keeps nothing over a restart/m);
    expect(out).not.toMatch(/^well/m);
    expect(lines.at(-2)).toMatch(/^Nothing must be changed: \d notices?, \d+ well\.$/);
    expect((await tidegate(["doctor", "--redis", server.url, "-v"])).out).toMatch(/^well {2}It is Redis /m);
  });

  it("is found by REDIS_URL", async () => {
    const { code, out } = await tidegate(["doctor"], { env: { REDIS_URL: server.url } });
    expect({ code, first: out.split("\n")[0] }).toEqual({ code: 0, first: `${server.url}, prefix rl` });
  });

  it("is not broken up by a narrow terminal", async () => {
    const { out } = await tidegate(["doctor", "--redis", server.url], { columns: 40 });
    const table = out.split("\n\n")[1]!.split("\n");
    expect(table.map((line) => line.split("  ")[0]!.trim())).toEqual([
      "server",
      "is",
      "round trip",
      "clock",
      "keys",
    ]);
  });
});

describe("an unsound server", () => {
  it("that evicts is a warning that says what to change", async () => {
    const own = await ownRedis({ args: ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"] });
    const { code, report } = await doctor(own.url);
    expect({ code, warnings: codesOn("warning", report) }).toEqual({
      code: 0,
      warnings: ["TIDEGATE_DOCTOR_EVICTION"],
    });
    const { out } = await tidegate(["doctor", "--redis", own.url]);
    expect(out).toMatch(/^warning {2}Its maxmemory-policy is allkeys-lru/m);
    expect(out).toContain("CONFIG SET maxmemory-policy noeviction");
  });

  it("with a key that does not expire names its shape, and nobody", async () => {
    const own = await ownRedis();
    await own.client.set("mine:{user:mallory}:burst:fw", 3);
    const { code, report, out } = await doctor(own.url, "--prefix", "mine");
    expect({ code, warnings: codesOn("warning", report) }).toEqual({
      code: 0,
      warnings: ["TIDEGATE_DOCTOR_NO_EXPIRY"],
    });
    expect(out).not.toContain("mallory");
  });

  it("with a key of another type ends with 1", async () => {
    const own = await ownRedis();
    await own.client.lpush("rl:{user:42}:burst:fw", "a");
    const { code, report } = await doctor(own.url);
    expect({ code, must: codesOn("must", report) }).toEqual({
      code: 1,
      must: ["TIDEGATE_DOCTOR_WRONG_TYPE"],
    });
    const { out } = await tidegate(["doctor", "--redis", own.url]);
    expect(out).toMatch(/^must {2}/m);
    expect(out.trimEnd().split("\n").at(-1)).toMatch(/^Something must be changed: 1 must, /);
  });

  it("whose user lacks a right ends with 1, and the command that gives it", async () => {
    const rights = deciding
      .filter((right) => right !== "hset")
      .map((right) => `+${right}`)
      .concat("+acl|whoami");
    const own = await ownRedis();
    await own.client.call("ACL", "SETUSER", "narrow", "on", ">pw", "~rl:*", "-@all", ...rights);
    const { code, report } = await doctor(own.url.replace("://", "://narrow:pw@"));
    expect({ code, must: codesOn("must", report) }).toEqual({ code: 1, must: ["TIDEGATE_DOCTOR_RIGHTS"] });
    expect(report.findings[0].advice).toBe("ACL SETUSER narrow +hset");
  });

  it("where a limiter counts under another prefix names that, and the prefix that was asked about", async () => {
    const own = await ownRedis();
    await own.client.set("shop:{user:mallory}:burst:fw", 3, "PX", 60_000);
    const { code, out } = await tidegate(["doctor", "--redis", own.url]);
    expect(code).toBe(0);
    expect(out.split("\n")[0]).toBe(`${own.url}, prefix rl`);
    expect(out).toMatch(
      /^notice {2}Under rl there is no key; 1 looks like a limiter's under the prefix shop\.\n {2}.*--prefix shop/m,
    );
    expect(out).not.toMatch(/mallory|others'|another's/);
    const right = await tidegate(["doctor", "--redis", own.url, "--prefix", "shop"]);
    expect(right.out.split("\n")[0]).toBe(`${own.url}, prefix shop`);
    expect(right.out).not.toContain("TIDEGATE_DOCTOR_PREFIX");
  });

  it("whose keys are not those of the policy file is told of", async () => {
    const own = await ownRedis();
    await own.client.set("app:{user:42}:burst:fw", 3, "PX", 60_000);
    const file = fileWith(
      "prefix: app\npolicies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1m }\n",
    );
    const { report } = await doctor(own.url, "--policy", file);
    expect(report.prefix).toBe("app");
    expect(codesOn("warning", report)).toEqual(["TIDEGATE_DOCTOR_TWO_CONFIGURATIONS"]);
  });
});

describe("a server that cannot be looked at", () => {
  it("does not answer: 2, soon, and nothing of the password", async () => {
    const port = await freePort();
    const begun = performance.now();
    const words = ["doctor", "--redis", `redis://somebody:hush-hush@127.0.0.1:${port}/2`];
    const { code, out, err } = await tidegate(words);
    expect(performance.now() - begun).toBeLessThan(10_000);
    expect(code).toBe(2);
    expect(out).toMatch(
      new RegExp(`^must {2}There is no answer from 127\\.0\\.0\\.1:${port}: ECONNREFUSED\\.$`, "m"),
    );
    expect(out.split("\n")[0]).toBe(`redis://127.0.0.1:${port}/2, prefix rl`);
    expect(out + err).not.toMatch(/hush-hush|somebody|\n {4}at /);
  });

  it("takes the connection and says nothing: 2, within seconds", async () => {
    const own = await ownRedis();
    own.pause();
    onTestFinished(() => own.resume());
    const begun = performance.now();
    const { code } = await doctor(own.url);
    expect(code).toBe(2);
    expect(performance.now() - begun).toBeLessThan(15_000);
  }, 60_000);

  it("lets nobody in: 2, and what to do", async () => {
    const locked = await ownRedis({ args: ["--requirepass", "right"] });
    const url = locked.url.replace("://", "://:wrong@");
    const { code, report, out } = await doctor(url);
    expect({ code, must: codesOn("must", report) }).toEqual({ code: 2, must: ["TIDEGATE_DOCTOR_LOGIN"] });
    expect(out).not.toContain("wrong@");
  });
});

/** Of the other commands: they need an answer, and say so in one line. */
describe("without an answer", () => {
  const explain = async (url: string, outside?: Outside) => {
    const file = fileWith("policies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n");
    return tidegate(["explain", "ip:203.0.113.7", "--policy", file, "--redis", url], outside);
  };

  it("explain says where and why", async () => {
    const port = await freePort();
    expect(await explain(`redis://somebody:hush@127.0.0.1:${port}`)).toEqual({
      code: 2,
      out: "",
      err: `No answer from redis://127.0.0.1:${port}: connect ECONNREFUSED 127.0.0.1:${port}. Look at host and port, and at TLS (rediss://).\n`,
    });
  });

  it("explain says that the password is wrong", async () => {
    const locked = await ownRedis({ args: ["--requirepass", "right"] });
    for (const login of ["", ":hush@", "somebody:hush@"]) {
      const { code, out, err } = await explain(locked.url.replace("://", `://${login}`));
      expect({ code, out }).toEqual({ code: 2, out: "" });
      expect(err).toMatch(
        /^No answer from redis:\/\/127\.0\.0\.1:\d+: it does not let this user in \((NOAUTH|WRONGPASS)\b/,
      );
      expect(err).not.toContain("hush");
    }
  });

  it("explain takes a password with a percent sign, encoded or not", async () => {
    const locked = await ownRedis({ args: ["--requirepass", "p%ss"] });
    for (const password of ["p%25ss", "p%ss"]) {
      const said = await explain(locked.url.replace("://", `://:${password}@`));
      expect(said).toMatchObject({ code: 0, err: "" });
      expect(said.out).not.toContain("ss@");
    }
  });

  it("explain names Sentinels, and nothing of their passwords", async () => {
    const port = await freePort();
    const hosts = `127.0.0.1:${port},127.0.0.1:${port}`;
    const { code, out, err } = await explain(`redis+sentinel://u:hush@${hosts}/main?sentinelPassword=hush`);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toMatch(new RegExp(`^No answer from redis\\+sentinel://${hosts}/main: `));
    expect(err).not.toContain("hush");
  });

  it("explain says of one server of a Cluster that the others are needed, where that cannot be found out", async () => {
    const cluster = await startClusterOf({ primaries: 3, replicas: 0 });
    onTestFinished(() => cluster.stop());
    const rights = deciding.filter((right) => right !== "info").map((right) => `+${right}`);
    await cluster.eachPrimary((node) =>
      node.client.call(
        "ACL",
        "SETUSER",
        "narrow",
        "on",
        ">pw",
        "~rl:*",
        "-@all",
        "+cluster|slots",
        "+cluster|info",
        ...rights,
      ),
    );
    const file = fileWith("by: user\npolicies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n");
    const owner = await cluster.primaryOf("rl:{user:42}:burst:sl");
    const other = cluster.nodes.find(({ port }) => port !== owner.port)!;
    const url = other.url.replace("://", "://narrow:pw@");
    const words = ["explain", "user:42", "--policy", file, "--redis", url];
    const { code, err } = await tidegate(words);
    expect(code).toBe(2);
    expect(err).toMatch(/MOVED.* This is one server of a Cluster: say --cluster\.\n$/);
    expect(await tidegate([...words, "--cluster"])).toMatchObject({ code: 0, err: "" });
  }, 120_000);

  it.each([
    ["localhost:6379", "localhost:6379"],
    ["http://somebody:hush@localhost", "http://…@localhost"],
    ["redis://somebody:hu@sh@[", "redis://…@["],
  ])("explain takes %j for no URL", async (url, told) => {
    expect(await explain(url)).toEqual({
      code: 2,
      out: "",
      err: `--redis: give a URL such as redis://localhost:6379, got "${told}".\n`,
    });
  });

  it("explain asks which Redis is meant", async () => {
    const file = fileWith("policies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n");
    expect(await tidegate(["explain", "ip:203.0.113.7", "--policy", file])).toEqual({
      code: 2,
      out: "",
      err: "Which Redis? say --redis redis://localhost:6379, or set REDIS_URL in the environment.\n",
    });
  });
});

describe("other ways to reach servers", () => {
  it("one server of a Cluster leads to all", async () => {
    const cluster = await startClusterOf({ primaries: 3, replicas: 0 });
    onTestFinished(() => cluster.stop());
    const { code, report } = await doctor(cluster.urls[1]!);
    expect(report.servers.map(({ address }: any) => address).toSorted()).toEqual(
      cluster.nodes.map(({ port }) => `127.0.0.1:${port}`).toSorted(),
    );
    expect(codesOn("must", report)).toEqual([]);
    expect(code).toBe(0);
  }, 120_000);

  it("a URL names Sentinels, and they the primary", async () => {
    const sentinel = await startSentinel();
    onTestFinished(() => sentinel.stop());
    const hosts = sentinel.sentinels.map(({ host, port }) => `${host}:${port}`).join(",");
    const url = `redis+sentinel://${hosts}/${sentinel.name}`;
    const { code, report } = await doctor(url);
    expect({ code, redis: report.redis }).toEqual({ code: 0, redis: url });
    const file = fileWith("by: user\npolicies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n");
    const said = await tidegate(["explain", "user:42", "--policy", file, "--redis", url]);
    expect(said).toMatchObject({ code: 0, err: "" });
    const [first] = sentinel.sentinels;
    const alone = await tidegate([
      "explain",
      "user:42",
      "--policy",
      file,
      "--redis",
      `redis://${first!.host}:${first!.port}`,
    ]);
    expect(alone.code).toBe(2);
    expect(alone.err).toContain(
      "it is a sentinel, which keeps no limits: give redis+sentinel://host:port/name",
    );
    const wrong = await tidegate([
      "explain",
      "user:42",
      "--policy",
      file,
      "--redis",
      url.replace(sentinel.name, "other"),
    ]);
    expect(wrong.code).toBe(2);
    expect(wrong.err).toMatch(/^No answer from redis\+sentinel:\/\//);
  }, 120_000);

  it("a socket has a path", async () => {
    const path = `/tmp/tidegate-cli-${process.pid}.sock`;
    const own = await ownRedis({ args: ["--unixsocket", path] });
    expect(await new Redis({ path, lazyConnect: true }).quit()).toBe("OK");
    expect(own.port).toBeGreaterThan(0);
    const { code, report } = await doctor(`unix://${path}`);
    expect({ code, redis: report.redis, version: report.servers[0].name }).toEqual({
      code: 0,
      redis: `unix://${path}`,
      version: "Redis",
    });
  });
});
