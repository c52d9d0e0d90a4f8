import {
  apiKey,
  type Config,
  createLimiter,
  fixedWindow,
  globally,
  ip,
  memoryStore,
  perRequest,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";
import { describe, expect, it } from "vitest";

const policy = slidingWindow({ limit: 1, window: 1000 });

/** What a broken configuration says. */
function complaint(make: () => unknown) {
  try {
    make();
  } catch (error) {
    const { name, code, option, value, message } = error as Record<string, unknown>;
    return { name, code, option, value, message: String(message) };
  }
  return undefined;
}

function expectRefused(make: () => unknown, code: string, option: string, value: unknown): void {
  const found = complaint(make);
  expect(found).toMatchObject({ name: "ConfigError", code, option });
  expect(found?.value).toEqual(value);
  expect(found?.message).toMatch(new RegExp(`^${option.replaceAll(".", "\\.")}: .+, got .+\\.$`));
}

const NUMBERS = [NaN, undefined, null, "", "abc", -1, Infinity, -Infinity, 1.5, "5", {}, [], true, 2 ** 53];

describe("P10 a setting that cannot work is refused when the limiter is made, by name and value", () => {
  const limits: [string, (limit: any) => unknown][] = [
    ["slidingWindow.limit", (limit) => slidingWindow({ limit, window: 1000 })],
    ["slidingLog.limit", (limit) => slidingLog({ limit, window: 1000 })],
    ["fixedWindow.limit", (limit) => fixedWindow({ limit, window: 1000 })],
    ["tokenBucket.capacity", (capacity) => tokenBucket({ capacity, refillPerSecond: 1 })],
  ];
  it.each(limits.flatMap(([option, make]) => NUMBERS.map((value) => [option, value, make] as const)))(
    "P10 T1 %s %j",
    (option, value, make) => expectRefused(() => make(value), "TIDEGATE_OPTION_INVALID", option, value),
  );

  const windows: [string, (window: any) => unknown][] = [
    ["slidingWindow.window", (window) => slidingWindow({ limit: 1, window })],
    ["slidingLog.window", (window) => slidingLog({ limit: 1, window })],
    ["fixedWindow.window", (window) => fixedWindow({ limit: 1, window })],
  ];
  const spans = [
    NaN,
    undefined,
    null,
    "",
    "abc",
    -1,
    0,
    0.5,
    1000 / 300,
    Infinity,
    "11y",
    "-1m",
    315_576_000_001,
    {},
    "1 fortnight",
  ];
  it.each(windows.flatMap(([option, make]) => spans.map((value) => [option, value, make] as const)))(
    "P10 T1 %s %j",
    (option, value, make) => expectRefused(() => make(value), "TIDEGATE_OPTION_INVALID", option, value),
  );

  it.each([NaN, undefined, null, "", "abc", -1, 0, Infinity, "5"] as any[])(
    "P10 T1 tokenBucket.refillPerSecond %j",
    (value) =>
      expectRefused(
        () => tokenBucket({ capacity: 1, refillPerSecond: value }),
        "TIDEGATE_OPTION_INVALID",
        "tokenBucket.refillPerSecond",
        value,
      ),
  );

  it("P10 T1 a bucket that takes more than ten years to fill", () =>
    expectRefused(
      () => tokenBucket({ capacity: 1000, refillPerSecond: 1e-6 }),
      "TIDEGATE_OPTION_INVALID",
      "tokenBucket.refillPerSecond",
      1e-6,
    ));

  it.each([
    ["1 minute", 60_000],
    ["1m", 60_000],
    ["1d", 86_400_000],
    ["90s", 90_000],
    [1, 1],
    ["10y", 315_576_000_000],
  ])("P10 T3 a window of %j is %i ms", (window, ms) => {
    expect(slidingWindow({ limit: 1, window }).windowMs).toBe(ms);
    expect(fixedWindow({ limit: 1, window }).numbers.b).toBe(ms * 1000);
  });

  it("P44 T3 a limit beyond the exact numbers, or beyond what the state holds", () => {
    expectRefused(
      () => fixedWindow({ limit: 2 ** 53, window: 1 }),
      "TIDEGATE_OPTION_INVALID",
      "fixedWindow.limit",
      2 ** 53,
    );
    expectRefused(
      () => slidingWindow({ limit: 2 ** 32, window: 1 }),
      "TIDEGATE_OPTION_INVALID",
      "slidingWindow.limit",
      2 ** 32,
    );
    expect(complaint(() => slidingLog({ limit: 1001, window: 1 }))?.message).toContain("slidingWindow");
  });

  it("P10 T1 limit 0 is a limit: nobody passes", async () => {
    const limiter = createLimiter({ limit: 0, window: "1m" });
    expect(await limiter.decide({ identity: "x" })).toMatchObject({ allowed: false, retryAfterMs: null });
    await limiter.close();
  });
});

describe("a configuration is checked whole", () => {
  const cases: [string, any, string, string, unknown?][] = [
    ["no object", 5, "TIDEGATE_OPTION_INVALID", "config", 5],
    ["nothing", undefined, "TIDEGATE_OPTION_INVALID", "config", undefined],
    ["an unknown option", { limit: 1, window: 1, windw: 3 }, "TIDEGATE_OPTION_UNKNOWN", "windw", 3],
    ["no policies", {}, "TIDEGATE_POLICY_MISSING", "policies", undefined],
    ["an empty record", { policies: {} }, "TIDEGATE_POLICY_MISSING", "policies", {}],
    ["policies as a list", { policies: [policy] }, "TIDEGATE_POLICY_MISSING", "policies", [policy]],
    ["a number for a policy", { policies: { a: 5 } }, "TIDEGATE_OPTION_INVALID", "policies.a", 5],
    ["null for a policy", { policies: { a: null } }, "TIDEGATE_OPTION_INVALID", "policies.a", null],
    ["a name with a quote", { policies: { 'a"b': policy } }, "TIDEGATE_POLICY_NAME", "policies", 'a"b'],
    ["a name with a colon", { policies: { "a:b": policy } }, "TIDEGATE_POLICY_NAME", "policies", "a:b"],
    ["a name not of ASCII", { policies: { größe: policy } }, "TIDEGATE_POLICY_NAME", "policies", "größe"],
    [
      "a name that begins with a digit",
      { policies: { "1st": policy } },
      "TIDEGATE_POLICY_NAME",
      "policies",
      "1st",
    ],
    ["an empty name", { policies: { "": policy } }, "TIDEGATE_POLICY_NAME", "policies", ""],
    [
      "two names in one",
      { policies: { burst: policy, Burst: policy } },
      "TIDEGATE_POLICY_DUPLICATE",
      "policies.Burst",
      "Burst",
    ],
    [
      "limit and policies",
      { limit: 1, window: 1, policies: { a: policy } },
      "TIDEGATE_OPTION_INVALID",
      "limit",
      1,
    ],
    ["limit without window", { limit: 1 }, "TIDEGATE_OPTION_INVALID", "slidingWindow.window", undefined],
    [
      "a prefix with a brace",
      { limit: 1, window: 1, prefix: "a{b" },
      "TIDEGATE_OPTION_INVALID",
      "prefix",
      "a{b",
    ],
    [
      "a prefix with a line end",
      { limit: 1, window: 1, prefix: "a\n" },
      "TIDEGATE_OPTION_INVALID",
      "prefix",
      "a\n",
    ],
    ["an empty prefix", { limit: 1, window: 1, prefix: "" }, "TIDEGATE_OPTION_INVALID", "prefix", ""],
    ["a negative cost", { limit: 1, window: 1, cost: -1 }, "TIDEGATE_OPTION_INVALID", "cost", -1],
    ["half a cost", { limit: 1, window: 1, cost: 0.5 }, "TIDEGATE_OPTION_INVALID", "cost", 0.5],
    ["a cost in text", { limit: 1, window: 1, cost: "1" }, "TIDEGATE_OPTION_INVALID", "cost", "1"],
    ["no time to answer", { limit: 1, window: 1, timeoutMs: 0 }, "TIDEGATE_OPTION_INVALID", "timeoutMs", 0],
    [
      "a rule that is none",
      { limit: 1, window: 1, onFailure: "maybe" },
      "TIDEGATE_OPTION_INVALID",
      "onFailure",
      "maybe",
    ],
    [
      "a local rule without policies",
      { limit: 1, window: 1, onFailure: { local: {} } },
      "TIDEGATE_POLICY_MISSING",
      "onFailure.local",
      {},
    ],
    [
      "a local rule of what is no policy",
      { limit: 1, window: 1, onFailure: { local: { a: 5 } } },
      "TIDEGATE_OPTION_INVALID",
      "onFailure.local.a",
      5,
    ],
    [
      "a local share of nobody knows how many",
      { limit: 1, window: 1, onFailure: "local" },
      "TIDEGATE_OPTION_INVALID",
      "onFailure",
      "local",
    ],
    ["no instances", { limit: 1, window: 1, instances: 0 }, "TIDEGATE_OPTION_INVALID", "instances", 0],
    [
      "a URL whose connection is to be shared",
      { redis: "redis://localhost", limit: 1, window: 1, shareConnection: true },
      "TIDEGATE_OPTION_INVALID",
      "shareConnection",
      true,
    ],
    ["a settle that is none", { limit: 1, window: 1, settle: 1 }, "TIDEGATE_OPTION_INVALID", "settle", 1],
    ["a listener that is none", { limit: 1, window: 1, onEvent: 1 }, "TIDEGATE_OPTION_INVALID", "onEvent", 1],
    ["a skip that is none", { limit: 1, window: 1, skip: true }, "TIDEGATE_OPTION_INVALID", "skip", true],
    ["a by that is none", { limit: 1, window: 1, by: "ip" }, "TIDEGATE_OPTION_INVALID", "by", "ip"],
    ["an unknown client", { limit: 1, window: 1, redis: 7 }, "TIDEGATE_CLIENT_UNKNOWN", "redis", 7],
    [
      "no URL, with a password in it",
      { limit: 1, window: 1, redis: "http://:pa/ss@wo@rd@host" },
      "TIDEGATE_OPTION_INVALID",
      "redis",
      "http://…@host",
    ],
    [
      "half a URL, with a password in it",
      { limit: 1, window: 1, redis: "rediss:user:pw@host" },
      "TIDEGATE_OPTION_INVALID",
      "redis",
      "rediss:…@host",
    ],
    ["no URL", { limit: 1, window: 1, redis: "localhost" }, "TIDEGATE_OPTION_INVALID", "redis", "localhost"],
    ["a store that is none", { limit: 1, window: 1, store: {} }, "TIDEGATE_OPTION_INVALID", "store", {}],
  ];

  it.each(cases)("refuses %s", (_, config, code, option, value) =>
    expectRefused(() => createLimiter(config as Config), code, option, value),
  );

  it.each([
    ["apiKey without a header", () => apiKey({} as any), "apiKey.header", undefined],
    ["apiKey with an unknown option", () => apiKey({ header: "x", secrt: "y" } as any), "apiKey.secrt", "y"],
    [
      "apiKey with a verify that is none",
      () => apiKey({ header: "x", verify: 1 } as any),
      "apiKey.verify",
      1,
    ],
    ["ip with an unknown option", () => ip({ prefix: 64 } as any), "ip.prefix", 64],
    ["perRequest without a base", () => perRequest(5 as any, () => policy), "perRequest.base", 5],
    ["perRequest without a function", () => perRequest(policy, 5 as any), "perRequest.choose", 5],
    [
      "an unknown alignment",
      () => fixedWindow({ limit: 1, window: 1, align: "last" as any }),
      "fixedWindow.align",
      "last",
    ],
  ] as [string, () => unknown, string, unknown][])("refuses %s", (_, make, option, value) => {
    expect(complaint(make)).toMatchObject({ name: "ConfigError", option, value });
  });

  it("never shows a password or a secret", () => {
    const shown = [
      complaint(() => createLimiter({ limit: 1, window: 1, redis: "http://me:hunter2@localhost" })),
      complaint(() => apiKey({ header: "x", secret: 12345678 as any })),
    ];
    expect(JSON.stringify(shown)).not.toMatch(/hunter2|12345678/);
  });

  it("shows the name in plain words when a policy's option is misspelt", () => {
    expect(complaint(() => tokenBucket({ capcity: 1, refillPerSecond: 1 } as any))?.message).toBe(
      "tokenBucket.capcity: there is no such option; known are capacity, refillPerSecond, by, cost, mode, unit, onFailure, scope, shards, got 1.",
    );
  });
});

describe("a request to decide", () => {
  const limiter = createLimiter({
    policies: { user: policy, all: fixedWindow({ limit: 100, window: "1h", by: globally() }) },
    store: memoryStore(),
  });

  it.each([undefined, null, "", NaN, {}, { all: "x" }, [], Promise.resolve("x")] as any[])(
    "without an identity is rejected, by code: %j",
    async (identity) => {
      await expect(limiter.decide({ identity })).rejects.toMatchObject({ code: "TIDEGATE_IDENTITY_MISSING" });
    },
  );

  it("without anything is rejected, by code", async () => {
    await expect((limiter.decide as any)()).rejects.toMatchObject({ code: "TIDEGATE_IDENTITY_MISSING" });
  });

  it.each([-1, 0.5, NaN, Infinity, "1", null, 2 ** 53] as any[])(
    "with the cost %j is rejected, by code",
    async (cost) => {
      await expect(limiter.decide({ identity: "x", cost })).rejects.toMatchObject({ code: "TIDEGATE_COST" });
    },
  );

  it("needs no identity for a policy that counts all", async () => {
    expect(
      (await limiter.decide({ identity: { user: "y" } })).verdicts.map(({ allowed }) => allowed),
    ).toEqual([true, true]);
  });
});
