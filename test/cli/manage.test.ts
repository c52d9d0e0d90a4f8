/** `tidegate reset`, `block` and `unblock`, against a live application under load. */
import type { Server } from "node:http";
import { rateLimit } from "@tidegate/express";
import { policiesFrom } from "@tidegate/policy-file";
import express from "express";
import { Cluster } from "ioredis";
import request from "supertest";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { startClusterOf, type TestCluster } from "../harness/cluster.ts";
import { eventually } from "../harness/eventually.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { documentIn, fileWith, tidegate } from "./terminal.ts";

let server: RedisServer;
let cluster: TestCluster;
beforeAll(async () => {
  [server, cluster] = await Promise.all([startRedis(), startClusterOf({ primaries: 3, replicas: 0 })]);
});
afterAll(async () => void (await Promise.all([server.stop(), cluster.stop()])));

let files = 0;
const LIMITS = `
by: user
blocking: true
policies:
  burst: { algorithm: slidingLog, limit: 5, window: 1h }
  day: { algorithm: fixedWindow, limit: 1000, window: 1 day }
routes:
  "POST /login":
    policies:
      attempts: { algorithm: slidingLog, limit: 2, window: 1h }
`;

function policies(text = LIMITS): { readonly file: string; readonly prefix: string } {
  const prefix = `m${++files}`;
  return { file: fileWith(`prefix: ${prefix}\n${text}`), prefix };
}

function app(file: string, redis: unknown = server.url): Server {
  const made = express();
  made.use((req, _, next) => {
    Object.assign(req, { user: req.get("x-user") });
    next();
  });
  const limit = rateLimit({ redis: redis as string, timeoutMs: 10_000, ...policiesFrom(file) });
  onTestFinished(() => limit.limiter.close());
  made.use(limit);
  made.use((_, res) => void res.end("hello"));
  const listening = made.listen(0);
  onTestFinished(() => void listening.close());
  return listening;
}

const statusOf = async (listening: Server, who: string, path = "/", method: "get" | "post" = "get") =>
  (await request(listening)[method](path).set("x-user", who)).status;

/** Others ask all the while, until the test is over. */
function underLoad(listening: Server): void {
  let over = false;
  const others = Array.from({ length: 4 }, async (_, n) => {
    for (let i = 0; !over; i++) await statusOf(listening, `other-${n}-${i % 50}`);
  });
  onTestFinished(async () => {
    over = true;
    await Promise.all(others);
  });
}

const topologies: [name: string, url: () => string, redis: () => unknown][] = [
  ["one server", () => server.url, () => server.url],
  [
    "a Cluster",
    () => cluster.urls[0]!,
    () => {
      const client = new Cluster([...cluster.startupNodes]);
      onTestFinished(() => client.disconnect());
      return client;
    },
  ],
];

describe.each(topologies)("on %s, under load", (_, url, redis) => {
  it("refuses from the block on, and lets pass from its end on", async () => {
    const { file } = policies();
    const live = app(file, redis());
    underLoad(live);
    expect(await statusOf(live, "42")).toBe(200);

    const common = ["--policy", file, "--redis", url(), "--yes"];
    const blocked = await tidegate(["block", "user:42", "--for", "1h", "--reason", "scraping", ...common]);
    expect(blocked).toEqual({ code: 0, out: 'Done: block user:42 for 1h, because "scraping".\n', err: "" });
    expect(await statusOf(live, "42")).toBe(429);
    expect(await statusOf(live, "43")).toBe(200);

    expect(await tidegate(["unblock", "user:42", ...common])).toEqual({
      code: 0,
      out: "Done: unblock user:42.\n",
      err: "",
    });
    expect(await statusOf(live, "42")).toBe(200);
  });

  it("forgets what was counted, on routes too", async () => {
    const { file } = policies();
    const live = app(file, redis());
    underLoad(live);
    for (let i = 0; i < 5; i++) expect(await statusOf(live, "42")).toBe(200);
    for (let i = 0; i < 2; i++) expect(await statusOf(live, "42", "/login", "post")).toBe(200);
    expect(await statusOf(live, "42")).toBe(429);
    expect(await statusOf(live, "42", "/login", "post")).toBe(429);

    const said = await tidegate(["reset", "user:42", "--policy", file, "--redis", url(), "--yes"]);
    expect(said).toEqual({ code: 0, out: "Done: forget what all policies counted for user:42.\n", err: "" });
    // A process remembers a refusal for a second at most.
    await eventually("the application lets pass again", async () => (await statusOf(live, "42")) === 200);
    const loginPasses = async () => (await statusOf(live, "42", "/login", "post")) === 200;
    await eventually("the route does too", loginPasses);
  });
});

describe("a reset", () => {
  it("of one policy leaves the others", async () => {
    const { file, prefix } = policies();
    const live = app(file);
    for (let i = 0; i < 5; i++) await statusOf(live, "42");
    await tidegate(["reset", "user:42", "--policy", file, "--redis", server.url, "--yes", "--only", "burst"]);
    expect(await server.client.keys(`${prefix}:*`)).toEqual([`${prefix}:{user:42}:day:fw`]);
  });

  it("of a policy that is not there names the nearest", async () => {
    const { file } = policies();
    const said = await tidegate([
      "reset",
      "user:42",
      "--policy",
      file,
      "--redis",
      server.url,
      "--yes",
      "--only",
      "brust",
    ]);
    expect(said).toEqual({
      code: 2,
      out: "",
      err: `--only: ${file} has no policy "brust" (did you mean burst?); it has burst, day, attempts.\n`,
    });
  });

  it("of an address forgets it as each policy counts it", async () => {
    const { file, prefix } = policies(`
by: ip
policies:
  near: { algorithm: slidingLog, limit: 5, window: 1h }
  wide: { algorithm: slidingLog, limit: 5, window: 1h, by: { ip: { ipv6Prefix: 48 } } }
`);
    const keys = [`${prefix}:{ip:20010db800010002}:near:sl`, `${prefix}:{ip:20010db80001}:wide:sl`];
    for (const key of keys) await server.client.zadd(key, Date.now() * 1000, "1");
    await tidegate(["reset", "ip:2001:db8:1:2::3", "--policy", file, "--redis", server.url, "--yes"]);
    expect(await server.client.keys(`${prefix}:*`)).toEqual([]);
  });

  it("of everybody together is done for `globally` alone", async () => {
    const { file, prefix } = policies(`
by: user
policies:
  own: { algorithm: slidingLog, limit: 5, window: 1h }
  total: { algorithm: slidingLog, limit: 50, window: 1h, by: globally }
`);
    const live = app(file);
    await statusOf(live, "42");
    const common = ["--policy", file, "--redis", server.url, "--yes"];
    await tidegate(["reset", "user:42", ...common]);
    expect(await server.client.keys(`${prefix}:*`)).toEqual([`${prefix}:{all:-}:total:sl`]);
    expect(await tidegate(["reset", "globally", ...common])).toMatchObject({ code: 0 });
    expect(await server.client.keys(`${prefix}:*`)).toEqual([]);
  });
});

describe("a dry run", () => {
  it("says which keys would go, and changes none", async () => {
    const { file, prefix } = policies();
    const live = app(file);
    await statusOf(live, "42");
    const before = (await server.client.keys(`${prefix}:*`)).toSorted();

    const words = ["reset", "user:42", "--policy", file, "--redis", server.url, "--dry-run"];
    const { code, out, err } = await tidegate(words);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    const lines = out.trimEnd().split("\n");
    expect(lines[0]).toBe("This would forget what all policies counted for user:42:");
    expect(lines.slice(1, 3)).toEqual(before.map((key) => `  DEL ${key}`));
    expect(lines[3]).toMatch(/^ {2}DEL \S+:\{user:42\}:h\.[\w-]{22}\.attempts:sl {2}\(not there now\)$/);
    expect(lines[4]).toBe("Nothing was done.");
    expect((await server.client.keys(`${prefix}:*`)).toSorted()).toEqual(before);

    const told = documentIn(await tidegate([...words, "--json"]));
    expect(told).toMatchObject({ action: "reset", identity: "user:42", policy: null, done: false });
    expect(told.keys.filter(({ exists }: any) => exists).map(({ key }: any) => key)).toEqual(before);
  });

  it("of a block blocks nobody", async () => {
    const { file, prefix } = policies();
    const { out } = await tidegate([
      "block",
      "user:42",
      "--for",
      "forever",
      "--policy",
      file,
      "--redis",
      server.url,
      "-n",
    ]);
    expect(out).toBe(
      `This would block user:42 until unblocked:\n  SET ${prefix}:{user:42}::b  (not there now)\nNothing was done.\n`,
    );
    expect(await server.client.keys(`${prefix}:*`)).toEqual([]);
  });
});

describe("asking first", () => {
  const ask = async (input: string) => {
    const { file, prefix } = policies();
    const words = ["block", "user:42", "--for", "1h", "--policy", file, "--redis", server.url];
    const said = await tidegate(words, { tty: true, input });
    return { ...said, blocked: await server.client.exists(`${prefix}:{user:42}::b`) };
  };

  it.each(["y\n", "yes\n", " Y \n"])("does it after %j", async (answer) => {
    const { code, err, blocked } = await ask(answer);
    expect({ code, blocked }).toEqual({ code: 0, blocked: 1 });
    expect(err).toContain(`At ${server.url}: block user:42 for 1h (1 key, 0 of them there now)? [y/N] `);
  });

  it.each(["n\n", "\n", "yesterday\n", ""])("does nothing after %j, and ends with 1", async (answer) => {
    const { code, out, blocked } = await ask(answer);
    expect({ code, blocked }).toEqual({ code: 1, blocked: 0 });
    expect(out).toContain("Nothing was done.");
  });

  it("needs a terminal, or a yes beforehand", async () => {
    const { file, prefix } = policies();
    const said = await tidegate(
      ["block", "user:42", "--for", "1h", "--policy", file, "--redis", server.url],
      {
        input: "y\n",
      },
    );
    expect(said).toEqual({
      code: 2,
      out: "",
      err: "There is no terminal to ask on before I block user:42 for 1h: say --yes, or --dry-run to see what would be done.\n",
    });
    expect(await server.client.exists(`${prefix}:{user:42}::b`)).toBe(0);
  });
});

describe("a block", () => {
  it("that the file would not heed is refused, unless it is wanted all the same", async () => {
    const { file, prefix } = policies(
      "policies:\n  burst: { algorithm: slidingLog, limit: 5, window: 1h }\n",
    );
    const words = [
      "block",
      "ip:203.0.113.7",
      "--for",
      "1h",
      "--policy",
      file,
      "--redis",
      server.url,
      "--yes",
    ];
    const said = await tidegate(words);
    expect(said.code).toBe(2);
    expect(said.err).toContain("has no `blocking: true`");
    expect(await server.client.keys(`${prefix}:*`)).toEqual([]);
    expect(await tidegate([...words, "--force"])).toMatchObject({ code: 0 });
    expect(await server.client.keys(`${prefix}:*`)).toEqual([`${prefix}:{ip:203.0.113.7}::b`]);
  });

  it("of somebody whom no policy counts is told to be in vain", async () => {
    const { file } = policies();
    const words = [
      "block",
      "ip:203.0.113.7",
      "--for",
      "1h",
      "--policy",
      file,
      "--redis",
      server.url,
      "--yes",
    ];
    expect(await tidegate(words)).toMatchObject({
      code: 0,
      err: `No policy of ${file} counts ip:203.0.113.7: nobody may ever look for this block.\n`,
    });
  });

  it.each(["soon", "-1h", "0", "11 years"])("for %j is none", async (span) => {
    const { file, prefix } = policies();
    const words = ["block", "user:42", `--for=${span}`, "--policy", file, "--redis", server.url, "--yes"];
    const { code, out, err } = await tidegate(words);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toMatch(/^--for: give whole milliseconds from 1 to ten years, or text such as "90s"/);
    expect(await server.client.keys(`${prefix}:*`)).toEqual([]);
  });

  it("keeps its reason as it was given, and writes nothing of it raw", async () => {
    const { file, prefix } = policies();
    const reason = "\u001b[31mred\u001b[0m\r\nDone.\u202e\u200d";
    const words = [
      "block",
      "user:42",
      "--for",
      "1h",
      "--reason",
      reason,
      "--policy",
      file,
      "--redis",
      server.url,
      "-y",
    ];
    const { out } = await tidegate(words);
    expect(out).toBe(
      String.raw`Done: block user:42 for 1h, because "\x1b[31mred\x1b[0m\r\nDone.\u202e\u200d".` + "\n",
    );
    expect(await server.client.get(`${prefix}:{user:42}::b`)).toBe(reason);
    const told = documentIn(await tidegate([...words, "--json"]));
    expect(told).toMatchObject({ action: "block", identity: "user:42", for: "1h", reason, done: true });
  });

  it("is possible with the rights of a limiter's user, and says what is missing", async () => {
    const { file, prefix } = policies();
    await server.client.call(
      "ACL",
      "SETUSER",
      "narrow",
      "on",
      ">pw",
      `~${prefix}:*`,
      "-@all",
      "+evalsha",
      "+eval",
      "+script|load",
      "+info",
      "+pexpiretime",
      "+set",
      "+time",
    );
    const url = server.url.replace("redis://", "redis://narrow:pw@");
    const common = ["user:42", "--policy", file, "--redis", url, "--yes"];
    expect(await tidegate(["block", ...common, "--for", "1h"])).toMatchObject({ code: 0 });
    const { code, err } = await tidegate(["unblock", ...common]);
    expect(code).toBe(2);
    expect(err).toMatch(/NOPERM|may not/);
    expect(err).not.toContain("    at ");
  });
});
