/** What docs/protocol.md says, held against core, against Redis, and against the Python that was written by it. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import {
  type Policy,
  rateLimit,
  slidingLog,
  slidingWindow,
  tenant,
  tokenBucket,
  user,
} from "@tidegate/express";
import express from "express";
import fc from "fast-check";
import request from "supertest";
import { afterAll, beforeAll, beforeEach, describe, expect, it, type TestContext } from "vitest";
import { compose } from "../../lua/compose.js";
import type { Refusal } from "../../packages/core/src/config.ts";
import type { Decision, Verdict } from "../../packages/core/src/decision.ts";
import { headerSettings } from "../../packages/core/src/header-options.ts";
import { fieldsOf, retryAfter } from "../../packages/core/src/http/headers.ts";
import { type Told, violatedIn } from "../../packages/core/src/http/items.ts";
import { bodyOf } from "../../packages/core/src/http/problem.ts";
import { addressValue } from "../../packages/core/src/identity/address.ts";
import { apiKeyOf, EVERYONE, pairOf } from "../../packages/core/src/identity/identity.ts";
import { keyOf, safeValue } from "../../packages/core/src/identity/key.ts";
import { findPython } from "../../scripts/python.js";
import { blockOf, blocksOf, read, root, sectionOf, tablesOf } from "../docs/markdown.ts";
import { type RedisServer, startCluster, startRedis } from "../harness/redis.ts";

const page = read("docs/protocol.md");
const python = findPython();

if (!python && existsSync("/etc/debian_version"))
  throw new Error("Python has no redis, fastapi and uvicorn: npm test installs them");

const needsPython = ({ skip }: TestContext) => {
  if (!python) skip("no Python here has redis, fastapi and uvicorn");
};

/** What Python prints, line by line, when it is told each of these as a line of JSON. */
function ask(args: string[], lines: readonly unknown[]): string[] {
  const { stdout, stderr, status } = spawnSync(python!, args, {
    cwd: join(root, "examples/fastapi"),
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1" },
    input: lines.map((line) => `${JSON.stringify(line)}\n`).join(""),
    encoding: "utf8",
    maxBuffer: 64 << 20,
  });
  expect(status, stderr).toBe(0);
  return stdout.trimEnd().split("\n");
}

/** An identity as somebody has it, and as it stands in keys. */
type Vector = [given: [kind: "id" | "key" | "ip", text: string, more?: string | number], key: string];

function byCore([kind, text, more]: Vector[0]): string {
  if (kind === "id") return `id:${safeValue(text)}`;
  if (kind === "key") return `key:${apiKeyOf(text, more as string | undefined).value}`;
  return `ip:${addressValue(text, more === undefined ? {} : { ipv6Prefix: more as number })}`;
}

const byPython = (given: readonly Vector[0][]): string[] => ask(["-m", "tidegate"], given);

const [ids, apiKeys, addresses] = tablesOf(sectionOf(page, "Values"));

/** What the cells of a row say: the second may be empty. */
const given = (kind: Vector[0][0], ...cells: (string | undefined)[]): Vector[0] => [
  kind,
  ...(cells.filter(Boolean).map((cell) => JSON.parse(cell!)) as [string]),
];

const vectors: Vector[] = [
  ...ids!.map((row): Vector => [given("id", row["id, in JSON"]), `id:${row["value"]}`]),
  ...apiKeys!.map((row): Vector => [given("key", row["API key"], row["secret"]), `key:${row["value"]}`]),
  ...addresses!.map((row): Vector => [given("ip", row["address"], row["prefix"]), `ip:${row["value"]}`]),
];

describe("the values of docs/protocol.md", () => {
  it("are 23, of three kinds", () => {
    expect([ids!.length, apiKeys!.length, addresses!.length]).toEqual([9, 3, 11]);
  });

  it.each(vectors)("core makes of %j %s", (given, key) => {
    expect(byCore(given)).toBe(key);
  });

  it("Python makes the same of all of them", (context) => {
    needsPython(context);
    expect(byPython(vectors.map(([given]) => given))).toEqual(vectors.map(([, key]) => key));
  });

  it("are of everybody and of pairs as the page says", () => {
    expect(keyOf("rl", EVERYONE, "login", "sl")).toBe("rl:{all:-}:login:sl");
    const pair = pairOf(tenant("acme"), user("42"));
    expect(pair).toMatchObject({ kind: "both", value: safeValue("tenant:acme+user:42") });
    expect(pair.value).toMatch(/^h\./);
  });
});

describe("Python makes the keys that core makes", () => {
  beforeEach(needsPython);

  const texts = [
    "{",
    "}{",
    "{user:1}",
    ":",
    "::b",
    " ",
    "\n",
    "\u0000",
    "42\n",
    "\n42",
    "__proto__",
    "constructor",
    "h",
    "h.",
    "h.x",
    "h.rSGRkjqUGYdt0qs_n2XmJA",
    "H.x",
    "-",
    "~",
    "é",
    "e\u0301",
    "ﬁ",
    "İ",
    "😀",
    "\ud800",
    "\ud83d-\ude00",
    "\udc00\ud800",
    "\ufffd",
    "\ufeff42",
    "y".repeat(64),
    "y".repeat(65),
    "y".repeat(1024),
    "ü".repeat(512),
  ];

  it.each(["id", "key"] as const)("of odd texts, as %s", (kind) => {
    const given = texts.map((text): Vector[0] => [kind, text]);
    expect(byPython(given)).toEqual(given.map(byCore));
  });

  it("of API keys under a secret", () => {
    const given = texts.map((text, i): Vector[0] => ["key", text, texts[(i + 7) % texts.length]!]);
    expect(byPython(given)).toEqual(given.map(byCore));
  });

  it("of any text", () => {
    const given = fc
      .sample(fc.string({ unit: "binary", maxLength: 80 }), { numRuns: 500, seed: 7 })
      .map((text): Vector[0] => ["id", text]);
    expect(byPython(given)).toEqual(given.map(byCore));
  });

  it("of addresses as kernels, proxies and clients write them", () => {
    const written = [
      "127.0.0.1",
      "0.0.0.0",
      "255.255.255.255",
      "256.1.1.1",
      "1.2.3",
      "1.2.3.4.5",
      "01.2.3.4",
      "0x7f.0.0.1",
      "2130706433",
      " 1.2.3.4 ",
      "1.2.3.4:0",
      "1.2.3.4:65535",
      "1.2.3.4:65536",
      "1.2.3.4:",
      "1.2.3.4:+1",
      "1.2.3.4:٣",
      "１.2.3.4",
      "1.2.3.4%eth0",
      "1.2.3.4/8",
      "::",
      "::1",
      "::1%lo",
      "::1:80",
      "[::1]",
      "[::1]:80",
      "[::1]80",
      "[::1]:",
      "[::1",
      "[1.2.3.4]:80",
      "[]",
      "fe80::1%25eth0",
      "::ffff:1.2.3.4",
      "::FFFF:1.2.3.4",
      "::ffff:1.2.3.4%lo",
      "[::ffff:1.2.3.4]:80",
      "0:0:0:0:0:ffff:102:304",
      "::ffff:0:1.2.3.4",
      "64:ff9b::1.2.3.4",
      "2002:102:304::1",
      "1::2::3",
      "1:2:3:4:5:6:7:8:9",
      "1:2:3:4:5:6:7",
      "12345::",
      "g::1",
      "unknown",
      "",
      "%",
      "-",
    ].map((text): Vector[0] => ["ip", text]);
    const any = fc
      .sample(fc.tuple(fc.oneof(fc.ipV6(), fc.ipV4()), fc.integer({ min: 1, max: 128 })), {
        numRuns: 500,
        seed: 7,
      })
      // `::1.2.3.4` has not been an address of anybody since RFC 4291.
      .filter(([address]) => !/^::\d+\./.test(address))
      .map(([address, prefix]): Vector[0] => ["ip", address, prefix]);
    const given = [...written, ...any];
    expect(byPython(given)).toEqual(given.map(byCore));
  });
});

describe("Python runs the Lua that core ships", () => {
  beforeEach(needsPython);

  const LOAD = `
import json, sys
from pathlib import Path
from tidegate import script
for line in sys.stdin:
    path = json.loads(line)
    loaded = script.load(Path(path)) if path else script.load()
    print(json.dumps([loaded.sha, loaded.text]))
`;

  it("out of the module in core, and out of a file that compose.js wrote", async () => {
    const folder = mkdtempSync(join(tmpdir(), "tidegate-lua-"));
    const text = compose("decide");
    writeFileSync(join(folder, "decide.lua"), text);
    const [shipped, composed] = ask(["-c", LOAD], [null, join(folder, "decide.lua")]);
    rmSync(folder, { recursive: true });
    const { decide } = await import("../../packages/core/src/scripts/decide.ts");
    expect(JSON.parse(shipped!)).toEqual([decide.sha, text]);
    expect(JSON.parse(composed!)).toEqual([decide.sha, text]);
  });
});

/** A policy's options, as both languages make one of them. */
type Made = ["tb", capacity: number, refill: number] | ["sw", limit: number, windowMs: number];

const policyOf = ([tag, limit, number]: Made): Policy =>
  tag === "tb"
    ? tokenBucket({ capacity: limit, refillPerSecond: number })
    : slidingWindow({ limit, window: number });

/** One reply about one to three policies, all whole microseconds and units. */
interface Case {
  readonly policies: readonly { made: Made; cost: number; words: [number, number] }[];
  readonly now: number;
  readonly granted: boolean;
}

const TEN_YEARS_MS = 10 * 365.25 * 86_400_000;
const NOW = 1_795_910_400_000_000;
const limits = fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 1, max: 5_000_000 }));
const costs = (limit: number) => fc.oneof(fc.constant(1), fc.integer({ min: 0, max: limit + 2 }));

const buckets = fc
  .tuple(
    limits,
    fc.double({ min: -7, max: 3, noNaN: true }).map((x) => Number((10 ** x).toPrecision(3))),
  )
  .filter(([capacity, refill]) => (capacity / refill) * 1000 <= TEN_YEARS_MS)
  .chain(([capacity, refill]) =>
    fc.record({
      made: fc.constant(["tb", capacity, refill] as Made),
      cost: costs(capacity),
      words: fc.tuple(
        fc.integer({ min: -capacity * 1_000_000, max: capacity * 1_000_000 }),
        fc.integer({ min: NOW - 60_000_000, max: NOW + 1_000_000 }),
      ),
    }),
  );

const windows = fc
  .tuple(
    limits,
    fc.oneof(
      fc.constantFrom(1000, 60_000, 86_400_000, TEN_YEARS_MS),
      fc.integer({ min: 1, max: TEN_YEARS_MS }),
    ),
  )
  .chain(([limit, windowMs]) =>
    fc.record({
      made: fc.constant(["sw", limit, windowMs] as Made),
      cost: costs(limit),
      words: fc.tuple(
        fc.integer({ min: 0, max: Math.ceil(limit * 1.5) }),
        fc.integer({ min: -1, max: Math.ceil(limit * 1.5) }),
      ),
    }),
  );

const cases: fc.Arbitrary<Case> = fc.record({
  policies: fc.array(fc.oneof(buckets, windows), { minLength: 1, maxLength: 3 }),
  now: fc.integer({ min: NOW - 1_000_000, max: NOW + 1_000_000 }),
  granted: fc.boolean(),
});

const nameOf = (i: number) => `p${i}`;

/** What core makes of a reply: each policy's verdict, the fields of the response, and the body of a refusal. */
function explainedByCore({ policies, now, granted }: Case): unknown {
  const made = policies.map((each) => policyOf(each.made));
  const verdicts = made.map(({ algorithm, numbers, limit }, i): Verdict => {
    const { cost, words } = policies[i]!;
    const explanation = algorithm.explain(numbers, words, 0, now, cost, granted);
    const allowed = explanation.reason === "ok";
    return { policy: nameOf(i), allowed, limit, shadow: false, ...explanation };
  });
  const waits = verdicts.filter(({ allowed }) => !allowed).map(({ nextMs }) => nextMs);
  const retryAfterMs = granted ? 0 : waits.includes(null) ? null : Math.max(0, ...waits.map(Number));
  const decision = { allowed: granted, verdicts, retryAfterMs, blocked: false } as unknown as Decision;
  const told: Told = {
    decision,
    limits: made.map(({ limit, windowMs, rolling, unit }, i) => ({
      name: nameOf(i),
      limit,
      windowMs,
      rolling,
      unit,
    })),
    costs: policies.map(({ cost }) => cost),
    partitions: undefined,
    policyField: undefined,
  };
  const settings = headerSettings({});
  const wait = granted ? undefined : retryAfter(decision, settings);
  return {
    numbers: made.map(({ numbers: { lifetime, a, b, c }, windowMs }) => [lifetime, a, b, c, windowMs]),
    standings: verdicts.map(({ remaining, nextMs, fullMs, reason }) => [remaining, nextMs, fullMs, reason]),
    fields: fieldsOf([told], settings, wait),
    body: refusedBy(violatedIn([told])),
  };
}

/** The body of a refusal by these policies. */
const refusedBy = (violatedPolicies: string[]): string =>
  bodyOf({ kind: "limit", status: 429, violatedPolicies } as unknown as Refusal, {}).text;

const EXPLAIN = `
import json, sys
from tidegate import Limit, SlidingWindow, TokenBucket
from tidegate.headers import Item, fields_of, problem_of

for line in sys.stdin:
    case = json.loads(line)
    items = []
    for i, each in enumerate(case["policies"]):
        tag, limit, number = each["made"]
        policy = TokenBucket(limit, number) if tag == "tb" else SlidingWindow(limit, number)
        standing = policy.explain(each["words"], case["now"], each["cost"], case["granted"])
        items.append(Item(Limit(f"p{i}", policy, cost=each["cost"]), standing))
    print(json.dumps({
        "numbers": [[*item.limit.policy.numbers, item.limit.policy.window_ms] for item in items],
        "standings": [[s.remaining, s.next_ms, s.full_ms, s.reason] for s in (item.standing for item in items)],
        "fields": fields_of(items, case["granted"]),
        "body": problem_of(items).decode(),
    }))
`;

it("Python makes of 2,000 replies what core makes of them: verdicts, fields, body", (context) => {
  needsPython(context);
  const sample = fc.sample(cases, { numRuns: 2000, seed: 7 });
  const answers = ask(["-c", EXPLAIN], sample).map((line) => JSON.parse(line));
  expect(answers).toHaveLength(2000);
  sample.forEach((each, i) => expect(answers[i], JSON.stringify(each)).toEqual(explainedByCore(each)));
});

describe("docs/protocol.md", () => {
  let redis: RedisServer;
  let bin: string;

  // The lines are run as they stand. A redis-cli of this name, first on PATH, knows the test's port.
  beforeAll(async () => {
    redis = await startRedis();
    bin = mkdtempSync(join(tmpdir(), "tidegate-bin-"));
    const real = spawnSync("sh", ["-c", "command -v redis-cli"], { encoding: "utf8" }).stdout.trim();
    const lines = `#!/bin/sh\nexec ${real} -p ${redis.port} "$@"\n`;
    writeFileSync(join(bin, "redis-cli"), lines, { mode: 0o755 });
  });
  afterAll(async () => {
    rmSync(bin, { recursive: true, force: true });
    await redis.stop();
  });

  it("has no block that is not tried here", () => {
    expect(blocksOf(page).map(({ language }) => language)).toEqual(["sh", "json"]);
  });

  it("shows a call whose reply is the one in its table", () => {
    const section = sectionOf(page, "The call");
    const env = { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` };
    const { stdout, stderr, status } = spawnSync("sh", ["-ec", blockOf(section, "sh")], {
      cwd: root,
      env,
      encoding: "utf8",
    });
    expect(status, stderr).toBe(0);
    const integers = stdout.trim().split("\n");
    const told = tablesOf(section)[1]!.map(({ integer }) => (integer === "now" ? integers[1] : integer));
    expect(integers).toEqual(told);
    expect(Number(integers[1])).toBeGreaterThan(1_700_000_000_000_000);
  });

  it("shows the arguments that the tables of both languages say", (context) => {
    needsPython(context);
    const [, tables] = / (tb e .*?)  2 1 2 1 ""$/m.exec(page)!;
    const numbers = [
      tokenBucket({ capacity: 10, refillPerSecond: 0.1 }),
      slidingWindow({ limit: 600, window: "1m" }),
    ];
    expect(tables!.split(/ {2}/)).toEqual(
      numbers.map(({ algorithm: { tag }, numbers: { lifetime, a, b, c } }) =>
        [tag, "e", 1, lifetime, a, b, c].join(" "),
      ),
    );
  });

  it("knows the slots of its keys", async () => {
    const cluster = await startCluster();
    const rows = tablesOf(sectionOf(page, "Keys"))[2]!;
    const slots = await Promise.all(rows.map(({ key }) => cluster.client.call("CLUSTER", "KEYSLOT", key!)));
    await cluster.stop();
    expect(slots.map(String)).toEqual(rows.map(({ slot }) => slot));
  });

  it("names the key of a route's own policy", async () => {
    const limit = rateLimit({
      redis: redis.url,
      timeoutMs: 10_000,
      limit: 100,
      window: "1m",
      routes: { "POST /login": { policies: { login: slidingLog({ limit: 5, window: "15m" }) } } },
    });
    const app = express();
    app.use(limit);
    await request(app).post("/login");
    await limit.limiter.close();
    expect(page).toContain("`h.ArIFVK9zs23zGA2h7o8T8A.login`");
    expect(await redis.client.keys("rl:*login:sl")).toEqual([
      "rl:{ip:127.0.0.1}:h.ArIFVK9zs23zGA2h7o8T8A.login:sl",
    ]);
  });

  it("shows the body of a refusal to the byte", () => {
    expect(refusedBy(["burst"])).toBe(blockOf(page, "json").trimEnd());
  });
});

describe("examples/fastapi/README.md", () => {
  const readme = read("examples/fastapi/README.md");

  it("shows lines of the application", () => {
    expect(read("examples/fastapi/app.py")).toContain(blockOf(readme, "python"));
  });

  it("names the versions that run here, and files that are there", (context) => {
    needsPython(context);
    const VERSIONS =
      "import redis, fastapi, uvicorn; print(redis.__version__, fastapi.__version__, uvicorn.__version__)";
    const [line] = ask(["-c", VERSIONS], []);
    if (existsSync("/etc/debian_version") && python === "/usr/bin/python3" && line === "4.3.4 0.92.0 0.17.6")
      expect(readme).toContain("(redis-py 4.3.4, FastAPI 0.92, uvicorn 0.17.6)");
    const files = tablesOf(readme)[0]!.flatMap(({ file }) => file!.replaceAll("`", "").split(", "));
    const folder = join(root, "examples/fastapi");
    expect(
      files.filter((file) => ![folder, join(folder, "tidegate")].some((at) => existsSync(join(at, file)))),
    ).toEqual([]);
  });
});
