/** P24: what a Redis user needs is written down, it is enough, and whoever has less is told what is missing. */
import {
  createLimiter,
  fixedWindow,
  type Limiter,
  slidingLog,
  tenant,
  type TidegateEvent,
} from "@tidegate/core";
import { Cluster } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { storeContract } from "../contract/store.ts";
import { read, sectionOf } from "../docs/markdown.ts";
import { startClusterOf, type TestCluster } from "../harness/cluster.ts";
import { eventually } from "../harness/eventually.ts";
import { freshPrefix } from "../harness/pair.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { deciding, managing } from "../harness/rights.ts";
import { bulk, scriptedServer } from "../harness/scripted.ts";
import { type ServerName, servers } from "../harness/servers.ts";
import { serverSubject } from "./subject.ts";

/** The documented line of a user, word by word. */
function documented(user: string): string[] {
  const line = new RegExp(`^ACL SETUSER (${user} .*)$`, "m").exec(
    sectionOf(read("docs/servers.md"), "The Redis user"),
  );
  if (!line) throw new Error(`docs/servers.md has no line for the user ${user}`);
  return line[1]!.split(" ");
}

const permittedBy = (words: readonly string[]) =>
  words.filter((word) => word.startsWith("+")).map((word) => word.slice(1));

const DECIDES = documented("tidegate");
const MANAGES = documented("tidegate-admin");
const BOTH = [...DECIDES, ...MANAGES.filter((word) => word.startsWith("+"))];

/** Whatever prefix a test of this process chooses. */
const OURS = freshPrefix().replace(/\d+$/, "*");

/** Makes a documented user, for the prefixes of tests, and says how a URL names it. */
const userBy = (words: readonly string[]) => async (server: RedisServer) => {
  await server.client.call(
    "ACL",
    "SETUSER",
    ...words.map((word) => (word === "~rl:*" ? `~${OURS}:*` : word)),
  );
  return `${words[0]}:password@`;
};

const without = (words: readonly string[], ...gone: string[]) =>
  words.filter((word) => !gone.includes(word.slice(1)));

/** The commands and keys that the server has refused, each once. */
async function refusals({ client }: RedisServer): Promise<string[]> {
  const entries = (await client.call("ACL", "LOG", 1000)) as string[][];
  return [...new Set(entries.map((entry) => entry[7]!))].toSorted();
}

/** What ioredis tells a server of itself, wherever that is known. Nothing comes of the refusal. */
const setInfo = (name: ServerName) => (name === "redis-7.0" ? [] : ["client|setinfo"]);

/** A server that has refused nothing but `expected` when it is stopped. */
async function begin(name: ServerName, words: readonly string[], expected = setInfo(name)) {
  const subject = await serverSubject(name, userBy(words));
  return {
    ...subject,
    async stop() {
      const refused = await refusals(subject.server);
      await subject.stop();
      expect(refused, "what the server refused").toEqual(expected);
    },
  };
}

describe("P24 T1 the documented lines", () => {
  it("hold what the scripts call and what core sends, and nothing more", () => {
    expect(permittedBy(DECIDES)).toEqual(deciding);
    expect(permittedBy(MANAGES)).toEqual(managing);
  });

  it("keep what takes DEL to those who manage", () => {
    expect(managing.filter((command) => !deciding.includes(command))).toEqual(["del"]);
  });

  it("are what lua/README.md lists", () => {
    const [, listed] = /The Redis user needs these commands[^`]*`([^`]+)`/.exec(read("lua/README.md"))!;
    const all = [...new Set([...deciding, ...managing])].toSorted();
    expect(listed!.toLowerCase().split(" ").toSorted()).toEqual(all);
  });
});

for (const name of servers) {
  storeContract(`P24 T1 on ${name}, a user who may decide and manage`, () => begin(name, BOTH));
  storeContract(`P24 T1 on ${name}, a user who may only decide`, () => begin(name, DECIDES), {
    manages: false,
  });
  storeContract(`P24 T2 on ${name}, without SCRIPT LOAD`, () =>
    begin(name, without(BOTH, "script|load"), [...setInfo(name), "script|load"]),
  );
}

describe.each(servers)("on %s", (name) => {
  async function start(words: readonly string[]) {
    const server = await startRedis({ server: name });
    onTestFinished(() => server.stop());
    const login = await userBy(words)(server);
    return { server, url: `redis://${login}127.0.0.1:${server.port}` };
  }

  function limiting(redis: string, prefix = freshPrefix()): Limiter & { events: TidegateEvent[] } {
    const events: TidegateEvent[] = [];
    const limiter = createLimiter({
      redis,
      prefix,
      policies: { p: fixedWindow({ limit: 10, window: "1h" }) },
      blocking: true,
      timeoutMs: 10_000,
      onEvent: (event) => events.push(event),
    });
    onTestFinished(() => limiter.close());
    return Object.assign(limiter, { events });
  }

  it("P24 T1 a user who manages blocks, unblocks and resets, and decides nothing", async () => {
    const { server, url } = await start(MANAGES);
    const prefix = freshPrefix();
    const [admin, service] = [limiting(url, prefix), limiting(server.url, prefix)];
    const identity = tenant("acme");
    await service.decide({ identity, cost: 4 });
    await admin.block(identity, "1h");
    expect((await service.decide({ identity })).blocked).toBe(true);
    await admin.unblock(identity);
    expect((await service.decide({ identity })).verdicts[0]!.remaining).toBe(5);
    await admin.reset(identity);
    expect((await service.decide({ identity })).verdicts[0]!.remaining).toBe(9);
    expect(await refusals(server)).toEqual(setInfo(name));
    expect((await admin.decide({ identity })).degraded).toEqual({ rule: "open", reason: "denied" });
  });

  it("P24 T1 a user who decides cannot reset or unblock, and takes back what it granted for a nonce", async () => {
    const { server, url } = await start(DECIDES);
    const limiter = limiting(url);
    const question = { identity: tenant("acme"), cost: 4, idempotencyKey: "order-17" };
    const decision = await limiter.decide(question);
    await expect(limiter.reset(tenant("acme"))).rejects.toMatchObject({ code: "TIDEGATE_STORE_DENIED" });
    await expect(limiter.unblock(tenant("acme"))).rejects.toMatchObject({ code: "TIDEGATE_STORE_DENIED" });
    await limiter.settle(decision, "giveBack");
    expect((await limiter.decide(question)).replayed).toBe(false);
    expect((await refusals(server)).filter((what) => what !== "del")).toEqual(setInfo(name));
  });

  it("P24 T2 without INFO it decides as well", async () => {
    const { url } = await start(without(DECIDES, "info"));
    const limiter = limiting(url);
    const told = [await limiter.decide({ identity: "a" }), await limiter.decide({ identity: "a" })];
    expect(told.map(({ verdicts }) => verdicts[0]?.remaining)).toEqual([9, 8]);
    expect(limiter.events).toEqual([]);
  });

  /** Whoever is refused 20 decisions, and what that is told as. */
  async function denied(words: readonly string[]): Promise<TidegateEvent[]> {
    const { server, url } = await start(words);
    const limiter = limiting(url);
    await server.client.script("FLUSH");
    for (let i = 0; i < 20; i++) {
      const { degraded } = await limiter.decide({ identity: "somebody" });
      expect(degraded).toEqual({ rule: "open", reason: "denied" });
    }
    return limiter.events.filter(({ type }) => type === "storeError");
  }

  const told = (detail: string) => {
    const why = "the Redis user may not do what a decision needs, or is not logged in";
    return [
      { type: "storeError", reason: "denied", message: expect.stringMatching(`^${why} \\(${detail}\\)$`) },
    ];
  };

  it.each(["evalsha", "eval"])(
    "P24 T3 20 decisions without %s give one error, which names it",
    async (command) => {
      expect(await denied(without(DECIDES, command, "script|load"))).toEqual(told(`NOPERM, ${command}`));
    },
  );

  it.each(["time", "set"])(
    "P24 T3 20 decisions without %s inside the script give one error, which names it where the server does",
    async (command) => {
      const tells = name === "redis-7.0" ? "ERR" : `ERR, ${command}`;
      expect(await denied(without(DECIDES, command))).toEqual(told(tells));
    },
  );
});

/** What the user needs besides, on every node: to ask who has which slots, and to follow one that moves. */
const IN_A_CLUSTER = ["+cluster|slots", "+asking"];

describe("in a Cluster", () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await startClusterOf();
  });
  afterAll(() => cluster.stop());

  async function limiting(words: readonly string[]) {
    await cluster.eachPrimary(userBy(words));
    await cluster.eachPrimary(({ client }) => client.call("ACL", "LOG", "RESET"));
    const client = new Cluster([...cluster.startupNodes], {
      // The application's own connections are not asked for.
      lazyConnect: true,
      redisOptions: { username: words[0]!, password: "password" },
    });
    client.on("error", () => {});
    const policies = { p: slidingLog({ limit: 10, window: "1h" }) };
    const limiter = createLimiter({
      redis: client,
      prefix: freshPrefix(),
      policies,
      blocking: true,
      timeoutMs: 10_000,
    });
    onTestFinished(async () => {
      await limiter.close();
      client.disconnect();
    });
    return limiter;
  }

  it("P24 T1 two commands more are enough", async () => {
    const limiter = await limiting([...BOTH, ...IN_A_CLUSTER]);
    for (const identity of ["a", "b", "c", "d", "e"]) {
      const first = await limiter.decide({ identity, cost: 4 });
      expect([first.degraded, first.allowed]).toEqual([undefined, true]);
      await limiter.settle(first, "giveBack");
      await limiter.block(identity, "1h");
      expect((await limiter.decide({ identity })).blocked).toBe(true);
      await limiter.unblock(identity);
      await limiter.decide({ identity, cost: 3 });
      await limiter.reset(identity);
      expect((await limiter.decide({ identity })).verdicts[0]?.remaining).toBe(9);
    }
    // What ioredis calls itself and one of its connections. Nothing comes of the refusal.
    const refused = (await cluster.eachPrimary(refusals)).flat();
    expect(refused.filter((what) => !/^client\|set(info|name)$/.test(what))).toEqual([]);
  });

  it("P24 T1 nothing is decided without cluster|slots", async () => {
    const limiter = await limiting([...BOTH, "+asking"]);
    expect((await limiter.decide({ identity: "a" })).degraded?.rule).toBe("open");
  });

  it("P24 T1 without asking all is well, but for slots that move", async () => {
    const limiter = await limiting([...BOTH, "+cluster|slots"]);
    const decisions = await Promise.all([..."abcdef"].map((identity) => limiter.decide({ identity })));
    expect(decisions.filter(({ degraded }) => degraded)).toEqual([]);
  });
});

it.each(["6.0.16", "6.2.14"])("P24 T4 Redis %s is told to be too old at its first use", async (version) => {
  const server = await scriptedServer((command) => {
    if (command === "HELLO") return "-NOPROTO unsupported protocol version\r\n";
    if (command === "INFO") return bulk(`redis_version:${version}\r\nloading:0\r\n`);
    return undefined;
  });
  onTestFinished(() => server.stop());
  const told: TidegateEvent[] = [];
  const limiter = createLimiter({
    redis: server.url,
    limit: 10,
    window: "1m",
    timeoutMs: 10_000,
    onEvent: (event) => event.type === "storeError" && told.push(event),
  });
  onTestFinished(() => limiter.close());
  const { degraded } = await limiter.decide({ identity: "somebody" });
  expect(degraded).toEqual({ rule: "open", reason: "server" });
  const message = `the server is Redis ${version}; Redis 7.0 or Valkey 7.2 or newer is needed`;
  await eventually("it is told", () => told.length > 0);
  expect(told).toEqual([{ type: "storeError", reason: "server", message }]);
});
