/** What a simulation says of a log, and what it does with logs that are not as they should be. */
import {
  apiKey,
  type By,
  concurrency,
  type Config,
  fixedWindow,
  globally,
  ip,
  route,
  slidingLog,
  tenant,
  tokenBucket,
  user,
} from "@tidegate/core";
import {
  createSimulation,
  type PastRequest,
  simulate,
  type SimulatedRequest,
  type SimulationReport,
} from "@tidegate/core/simulate";
import { describe, expect, it, vi } from "vitest";
import { EPOCH_MS } from "../harness/pair.ts";
import { expressPattern } from "./live.ts";
import { logOf } from "./logs.ts";

const two = fixedWindow({ limit: 2, window: "10s" });

/** Requests of one client, at so many milliseconds. */
const at = (...ms: number[]): PastRequest[] =>
  ms.map((each) => ({ at: EPOCH_MS + each, address: "192.0.2.1" }));

/** What became of requests, one after the other. */
function kinds(config: Config, requests: readonly PastRequest[], options = {}): string[] {
  const simulation = createSimulation(config, options);
  return requests.map((request) => simulation.add(request).kind);
}

const errorOf = (act: () => unknown): unknown => {
  try {
    return act();
  } catch (error) {
    return error;
  }
};

describe("the report", () => {
  it("says who was refused, when and how often, and how much was asked for", async () => {
    const log: PastRequest[] = [
      ...at(0, 1000, 2000, 3000),
      { at: EPOCH_MS + 4000, address: "192.0.2.2" },
      ...at(12_000, 12_500, 12_600.5),
    ];
    const report = await simulate({ policies: { only: two } }, log);
    expect(report).toMatchObject({
      from: EPOCH_MS,
      to: EPOCH_MS + 12_600.5,
      requests: 8,
      admitted: 5,
      refused: 3,
      notLimited: 0,
      outOfOrder: 0,
      identities: 2,
      identitiesRefused: 1,
      warnings: [],
    });
    const { curve, suggestions, timeline, ...only } = report.policies[0]!;
    expect(only).toEqual({
      name: "only",
      algorithm: "fixedWindow",
      limit: 2,
      windowMs: 10_000,
      shadow: false,
      requests: 8,
      refused: 3,
      units: 8,
      identities: 2,
      identitiesRefused: 1,
      neverFound: [],
      firstRefusedAt: EPOCH_MS + 2000,
      lastRefusedAt: EPOCH_MS + 12_600.5,
      // From 2.6 s on: 3 s, 12 s, 12.5 s, 12.6 s; and before that 0 s to 3 s.
      peak: { units: 4, identity: "ip:192.0.2.1", at: EPOCH_MS + 3000 },
      top: [
        {
          identity: "ip:192.0.2.1",
          requests: 7,
          refused: 3,
          peak: 4,
          firstRefusedAt: EPOCH_MS + 2000,
          lastRefusedAt: EPOCH_MS + 12_600.5,
        },
        {
          identity: "ip:192.0.2.2",
          requests: 1,
          refused: 0,
          peak: 1,
          firstRefusedAt: null,
          lastRefusedAt: null,
        },
      ],
    });
    expect(curve).toEqual([
      { limit: 1, identitiesRefused: 0.5, requestsRefused: 5 / 8 },
      { limit: 2, identitiesRefused: 0.5, requestsRefused: 3 / 8 },
      { limit: 3, identitiesRefused: 0.5, requestsRefused: 1 / 8 },
      { limit: 4, identitiesRefused: 0, requestsRefused: 0 },
    ]);
    expect(suggestions).toEqual(
      [0.001, 0.01, 0.05].map((share) => ({ share, limit: 4, requestsRefused: 0 })),
    );
    expect(timeline.reduce((sum, count) => sum + count)).toBe(3);
  });

  it("counts over time in round steps, of which the whole log takes no more than asked for", async () => {
    for (const [spanMs, points, stepMs] of [
      [200, 240, 1],
      [10_000, 240, 50],
      [60_000, 240, 500],
      [3_600_000, 240, 20_000],
      [86_400_000, 240, 600_000],
      [7 * 86_400_000, 240, 3_600_000],
      [3_600_000, 10, 600_000],
    ] as const) {
      const log = logOf({ seed: 30, requests: 500, spanMs });
      const report = await simulate({ policies: { only: two } }, log, { points, curve: false });
      const { timeline, policies } = report;
      expect(timeline.admitted.length).toBeLessThanOrEqual(points);
      expect([spanMs, timeline.start % timeline.stepMs]).toEqual([spanMs, 0]);
      // A log is about as long as it says.
      expect([stepMs / 2.5 <= timeline.stepMs, timeline.stepMs <= stepMs * 2.5]).toEqual([true, true]);
      expect(timeline.start).toBeLessThanOrEqual(report.from!);
      expect(timeline.start + timeline.admitted.length * timeline.stepMs).toBeGreaterThan(report.to!);
      expect(timeline.admitted).toEqual(perStep(log, report, "pass"));
      expect(timeline.refused).toEqual(perStep(log, report, "refuse"));
      expect(policies[0]!.timeline).toEqual(timeline.refused);
    }
  });

  /** The same by counting them one by one. */
  function perStep(log: PastRequest[], { timeline }: SimulationReport, kind: string): number[] {
    const counts = timeline.admitted.map(() => 0);
    kinds({ policies: { only: two } }, log).forEach((each, i) => {
      if (each === kind) counts[Math.floor((log[i]!.at - timeline.start) / timeline.stepMs)]!++;
    });
    return counts;
  }

  it("names as many identities as asked for: who was refused most, then who asked most, then who came first", async () => {
    const from = (who: number, times: number) =>
      Array.from({ length: times }, () => ({ at: EPOCH_MS, address: `192.0.2.${who}` }));
    const log = [...from(1, 1), ...from(2, 2), ...from(3, 4), ...from(4, 1), ...from(5, 5)];
    const { policies } = await simulate({ policies: { only: two } }, log, { top: 4 });
    expect(policies[0]!.top.map(({ identity, refused }) => [identity, refused])).toEqual([
      ["ip:192.0.2.5", 3],
      ["ip:192.0.2.3", 2],
      ["ip:192.0.2.2", 0],
      ["ip:192.0.2.1", 0],
    ]);
  });

  it("counts an identity once, however many policies count it, and none for what is on trial", async () => {
    const trial = fixedWindow({ limit: 1, window: "10s", mode: "shadow" });
    const everybody = fixedWindow({ limit: 100, window: "10s", by: globally() });
    const report = await simulate({ policies: { two, trial, everybody } }, at(0, 1));
    expect(report).toMatchObject({ identities: 2, identitiesRefused: 0, refused: 0 });
    expect(
      report.policies.map(({ name, refused, identitiesRefused, shadow }) => [
        name,
        refused,
        identitiesRefused,
        shadow,
      ]),
    ).toEqual([
      ["two", 0, 0, false],
      ["trial", 1, 1, true],
      ["everybody", 0, 0, false],
    ]);
  });

  it("of no request at all says so", async () => {
    expect(await simulate({ policies: { only: two } }, [])).toMatchObject({
      from: null,
      to: null,
      requests: 0,
      identities: 0,
      timeline: { admitted: [], refused: [] },
      policies: [{ peak: null, top: [], suggestions: [], timeline: [] }],
      warnings: ["Policy only met no request."],
    });
  });

  it("may be asked for while requests still come", () => {
    const simulation = createSimulation({ policies: { only: two } });
    for (const request of at(0, 1, 2)) simulation.add(request);
    const before = simulation.report();
    expect(before).toMatchObject({ requests: 3, refused: 1 });
    expect(simulation.report()).toEqual(before);
    for (const request of at(3, 20_000)) simulation.add(request);
    expect(simulation.report()).toMatchObject({ requests: 5, refused: 2 });
  });

  it("tells the policies of a route apart, and counts a policy by route() once for all of them", async () => {
    const perRoute = slidingLog({ limit: 1, window: "10s", by: tenant().and(route()) });
    const urls = ["/a", "/a", "/b", "/c", "/c"];
    const log = urls.map((url) => ({ at: EPOCH_MS, url, tenant: "acme" }));
    const config: Config = {
      policies: { perRoute },
      routes: { "/a": { cost: 1 }, "/b": { policies: { own: two } } },
    };
    const { policies } = await simulate(config, log, { pattern: expressPattern });
    expect(policies.map(({ name, route: own, requests, refused }) => [name, own, requests, refused])).toEqual(
      [
        ["perRoute", undefined, 4, 2],
        ["own", "/b", 1, 0],
      ],
    );
    expect(policies[0]!.top.map(({ identity, refused }) => [identity, refused])).toEqual([
      ["tenant:acme (/a)", 1],
      ["tenant:acme (no route)", 1],
    ]);
  });
});

describe("requests out of order", () => {
  it("are decided at the latest moment seen, and counted", () => {
    const simulation = createSimulation({ policies: { only: two } });
    const told = at(0, 9000, 10_000, 1000, 2000, 10_000).map((request) => simulation.add(request));
    expect(told.map((each) => each.kind)).toEqual(["pass", "pass", "pass", "pass", "refuse", "refuse"]);
    expect(told[3]).toMatchObject({ decision: { at: EPOCH_MS + 10_000 } });
    expect(simulation.report()).toMatchObject({
      outOfOrder: 2,
      requests: 6,
      from: EPOCH_MS,
      to: EPOCH_MS + 10_000,
    });
  });

  it("are no harm to a log from the last line to the first", () => {
    const simulation = createSimulation({ policies: { only: two } });
    for (const request of at(5000, 4000, 3000)) simulation.add(request);
    expect(simulation.report()).toMatchObject({
      outOfOrder: 2,
      admitted: 2,
      refused: 1,
      from: EPOCH_MS + 3000,
    });
  });
});

describe("requests that cannot be", () => {
  it.each([
    ["at", { at: NaN }, "NaN"],
    ["at", { at: -1 }, "-1"],
    ["at", { at: Infinity }, "Infinity"],
    ["at", { at: "2026-11-29" as never }, '"2026-11-29"'],
    ["at", { at: undefined as never }, "undefined"],
    ["at", { at: EPOCH_MS * 1_000_000 }, "1795910400000000000"],
    ["durationMs", { at: EPOCH_MS, durationMs: NaN }, "NaN"],
    ["durationMs", { at: EPOCH_MS, durationMs: -5 }, "-5"],
  ])("%s of %o is an error that names it, and nothing is decided", (option, request, shown) => {
    const simulation = createSimulation({ policies: { only: two } });
    const error = errorOf(() => simulation.add(request));
    expect(error).toMatchObject({ name: "SimulationError", code: "TIDEGATE_SIMULATION_REQUEST", option });
    expect((error as Error).message).toMatch(
      new RegExp(`^${option}: give milliseconds .*, got ${shown}\\.$`),
    );
    expect(simulation.report().requests).toBe(0);
    expect(simulation.add(at(0)[0]!).kind).toBe("pass");
  });

  it("simulate() rejects with the same", async () => {
    const error = { code: "TIDEGATE_SIMULATION_REQUEST", option: "at", value: NaN };
    await expect(simulate({ policies: { only: two } }, [{ at: NaN }])).rejects.toMatchObject(error);
  });
});

describe("configurations that cannot be", () => {
  it.each<[string, Config, object, object]>([
    [
      "routes without a pattern",
      { policies: { two }, routes: { "/x": false } },
      {},
      { option: "options.pattern" },
    ],
    [
      "an unknown option",
      { policies: { two } },
      { tops: 3 },
      { code: "TIDEGATE_OPTION_UNKNOWN", option: "options.tops" },
    ],
    ["a top that is no number", { policies: { two } }, { top: -1 }, { option: "options.top", value: -1 }],
    ["points that are none", { policies: { two } }, { points: 0 }, { option: "options.points" }],
    ["a curve that is neither", { policies: { two } }, { curve: "no" }, { option: "options.curve" }],
    [
      "a configuration that the middleware refuses",
      { policies: {} },
      {},
      { code: "TIDEGATE_POLICY_MISSING" },
    ],
    ["a policy that is none", { policies: { two: 5 as never } }, {}, { option: "policies.two" }],
  ])("%s: the error of middleware", (_, config, options, expected) => {
    expect(errorOf(() => createSimulation(config, options))).toMatchObject({
      name: "ConfigError",
      ...expected,
    });
  });

  it("what a log has no use for is not looked at: no Redis is asked", async () => {
    const config: Config = {
      redis: "redis://nobody.invalid:1",
      trustProxy: 1,
      denyCache: { maxMs: 5 },
      onFailure: "closed",
      blocking: true,
      timeoutMs: 1,
      headers: { x: true, partitionKey: { secret: "s" } },
      onLimited: () => expect.unreachable(),
      policies: { only: fixedWindow({ limit: 2, window: "10s", scope: "process", onFailure: "local" }) },
      instances: 4,
    };
    expect(kinds(config, at(0, 1, 2))).toEqual(["pass", "pass", "refuse"]);
  });
});

describe("functions of a configuration", () => {
  it("see a request as the frameworks have it", () => {
    const seen: unknown[] = [];
    const skip = (request: SimulatedRequest) => {
      const { method, url, originalUrl, path, query, headers, ip: address, user: name, tenant: of } = request;
      seen.push({ method, url, originalUrl, path, query, headers, address, name, of });
      seen.push([request.get("X-Key"), request.header("x-key"), request.state.user, request.status]);
      return false;
    };
    const full = {
      at: EPOCH_MS,
      method: "POST",
      url: "/a/b?c=1&d=%20",
      address: "192.0.2.1",
      user: "u",
      tenant: "t",
      headers: { "x-key": "k" },
      status: 204,
    };
    kinds({ policies: { two }, skip }, [full, { at: EPOCH_MS }]);
    expect(seen).toEqual([
      {
        method: "POST",
        url: "/a/b?c=1&d=%20",
        originalUrl: "/a/b?c=1&d=%20",
        path: "/a/b",
        query: { c: "1", d: " " },
        headers: { "x-key": "k" },
        address: "192.0.2.1",
        name: "u",
        of: "t",
      },
      ["k", "k", "u", 204],
      {
        method: "GET",
        url: "/",
        originalUrl: "/",
        path: "/",
        query: {},
        headers: {},
        address: undefined,
        name: undefined,
        of: undefined,
      },
      [undefined, undefined, undefined, undefined],
    ]);
  });

  it("that find who is counted find it in a log", async () => {
    const log = [
      { at: EPOCH_MS, headers: { "x-api-key": "secret" } },
      { at: EPOCH_MS, url: "/?key=secret", user: "u1", tenant: "t1" },
    ];
    const identitiesBy = async (by: By) =>
      (await simulate({ policies: { two }, by }, log)).policies[0]!.top.map(({ identity }) => identity);
    expect(await identitiesBy(user().or(() => "nobody"))).toEqual(["id:nobody", "user:u1"]);
    expect(await identitiesBy(tenant().or(globally()))).toEqual(["all:-", "tenant:t1"]);
    const [byHeader, byQuery] = await Promise.all([
      identitiesBy(apiKey({ header: "x-api-key" }).or(ip())),
      identitiesBy(apiKey({ query: "key" }).or(ip())),
    ]);
    expect(byHeader[0]).toMatch(/^key:/);
    expect(byQuery).toEqual(["ip:none", byHeader[0]]);
  });

  it("that choose nonsense choose the base, and are told of", async () => {
    const choose = () => "pro" as never;
    const report = await simulate({ policies: { only: { base: two, choose } } }, at(0, 1, 2));
    expect(report).toMatchObject({ admitted: 2, refused: 1 });
    expect(report.warnings).toEqual([
      "Policy only has no curve and no suggestions: requests choose its numbers.",
      'TIDEGATE_POLICY_FAULT: The function of policy only gave "pro" (3 times).',
    ]);
  });

  it("that fail are told of in the report, and count as in middleware", async () => {
    const cost = ({ session }: { session?: { plan: number } }) => session!.plan;
    const { warnings, policies } = await simulate({ policies: { two }, cost }, at(0, 1, 2));
    expect(warnings).toEqual(["TIDEGATE_COST_FAULT: The cost function threw TypeError (3 times)."]);
    expect(policies[0]).toMatchObject({ units: 3, refused: 1 });
  });

  it("settle is asked once for each request, of which the curve knows what refused ones would have cost", async () => {
    const settle = vi.fn(({ status }: { status: number | undefined }) =>
      status === 200 ? "giveBack" : "keep",
    );
    const log = at(...Array.from({ length: 8 }, (_, i) => i)).map((past, i) => ({
      ...past,
      status: i < 4 ? 401 : 200,
    }));
    const { policies } = await simulate({ policies: { only: two }, settle }, log);
    expect(settle).toHaveBeenCalledTimes(8);
    expect(policies[0]!.refused).toBe(6);
    // Four failures, and one success at a time.
    expect(policies[0]!.suggestions![0]).toEqual({ share: 0.001, limit: 5, requestsRefused: 0 });
  });

  it("a client that went away is told as such, whoever wrote the log", async () => {
    const seen: unknown[] = [];
    const settle = ({ status, aborted }: { status: number | undefined; aborted: boolean }) => {
      seen.push([status, aborted]);
      return "keep" as const;
    };
    const log = [200, 499, 0, undefined].map((status, i) => ({ at: EPOCH_MS + i, status }));
    await simulate({ policies: { two }, settle }, log);
    expect(seen).toEqual([
      [200, false],
      [undefined, true],
      [undefined, true],
      [undefined, false],
    ]);
  });
});

describe("functions that answer later", () => {
  const later = async <T>(value: T): Promise<T> => {
    await new Promise(setImmediate);
    return value;
  };
  const cases: [option: string, config: Config][] = [
    ["by", { policies: { two }, by: () => later("somebody") }],
    ["by", { policies: { two }, by: apiKey({ header: "x-key", verify: () => later(true) }).or(ip()) }],
    ["skip", { policies: { two }, skip: () => later(false) }],
    ["cost", { policies: { two }, cost: () => later(1) }],
    ["policies.only", { policies: { only: { base: two, choose: () => later(two) } } }],
    [
      "policies.only.by",
      { policies: { only: fixedWindow({ limit: 2, window: "10s", by: () => later("x") }) } },
    ],
    [
      "policies.only.cost",
      { policies: { only: fixedWindow({ limit: 2, window: "10s", cost: () => later(1) }) } },
    ],
    ["idempotencyKey", { policies: { two }, idempotencyKey: () => later(undefined) }],
    ["routes./.cost", { policies: { two }, routes: { "/": { cost: () => later(1) } } }],
    ["settle", { policies: { two }, settle: () => later("keep" as const) }],
  ];
  const log = at(0, 1, 2, 12_000).map((past) => ({ ...past, headers: { "x-key": "k" } }));
  const options = { pattern: expressPattern };

  it.each(cases)("%s: add() says that nobody waits for it", (option, config) => {
    const simulation = createSimulation(config, options);
    const error = errorOf(() => log.forEach((request) => simulation.add(request)));
    expect(error).toMatchObject({ name: "SimulationError", code: "TIDEGATE_SIMULATION_ASYNC", option });
    expect((error as Error).message).toMatch(/await simulate\(\)/);
  });

  it.each(cases)("%s: simulate() waits for it", async (_, config) => {
    const report = await simulate(config, log, options);
    expect(report).toMatchObject({ admitted: 3, refused: 1, warnings: expect.anything() });
  });

  it("settle: what comes back comes back at its moment, and there is no curve", async () => {
    const settle = () => later("giveBack" as const);
    const slow = at(0, 100, 200, 300, 400).map((past) => ({ ...past, durationMs: 150 }));
    const report = await simulate(
      { policies: { only: slidingLog({ limit: 1, window: "10s" }) }, settle },
      slow,
    );
    expect(report).toMatchObject({ admitted: 3, refused: 2 });
    expect(report.policies[0]!.curve).toBeNull();
    expect(report.warnings).toContain("Policy only has no curve and no suggestions: settle answers later.");
  });

  it("a log that comes piece by piece is taken so", async () => {
    async function* pieces() {
      for (const request of log) yield later(request);
    }
    expect(await simulate({ policies: { two } }, pieces())).toMatchObject({ admitted: 3, refused: 1 });
  });
});

describe("what is in flight", () => {
  const inFlight = concurrency({ limit: 2, leaseMs: 1000 });

  it("holds its slot until it is through, however long that takes: a process that lives renews it", () => {
    const log = [
      { at: EPOCH_MS, durationMs: 100_000 },
      { at: EPOCH_MS, durationMs: 10 },
      { at: EPOCH_MS + 9, durationMs: 10 },
      { at: EPOCH_MS + 10, durationMs: 10 },
      { at: EPOCH_MS + 90_000, durationMs: 20_000 },
      { at: EPOCH_MS + 99_999 },
      { at: EPOCH_MS + 100_000 },
    ];
    expect(kinds({ policies: { inFlight } }, log)).toEqual([
      "pass",
      "pass",
      "refuse",
      "pass",
      "pass",
      "refuse",
      "pass",
    ]);
  });

  it("its peak is the most at once", async () => {
    const log = [0, 10, 20, 25, 30].map((ms) => ({
      at: EPOCH_MS + ms,
      address: "192.0.2.1",
      durationMs: 20,
    }));
    const { policies } = await simulate({ policies: { inFlight } }, log);
    // At 25: those of 10, 20 and 25; at 30 that of 10 is through.
    expect(policies[0]).toMatchObject({
      algorithm: "concurrency",
      windowMs: null,
      peak: { units: 3, at: EPOCH_MS + 25 },
    });
  });

  it("without durations, a warning says that nothing is known of it", async () => {
    const log = [{ at: EPOCH_MS }, { at: EPOCH_MS, durationMs: 5 }];
    const { warnings } = await simulate({ policies: { inFlight } }, log, { curve: false });
    expect(warnings).toEqual([
      "2 of 2 limited requests have no address: where they are counted by it, they count together as ip:none.",
      "1 of 2 limited requests have no duration: a policy by concurrency() takes them for over at once, and refuses too few.",
    ]);
  });
});

describe("a limit in parts", () => {
  it("lets no more pass than the whole, and counts each identity once", async () => {
    const parts = fixedWindow({ limit: 40, window: "1h", shards: 4 });
    const log = logOf({ seed: 31, requests: 400, spanMs: 60_000, clients: 2 });
    const report = await simulate({ policies: { parts } }, log);
    expect(report.identities).toBe(2);
    expect(report.admitted).toBeGreaterThan(40);
    expect(report.admitted).toBeLessThanOrEqual(80);
    expect(report.policies[0]!.top.map(({ identity }) => identity).toSorted()).toEqual([
      "ip:192.0.2.1",
      "ip:192.0.2.2",
    ]);
  });
});

describe("what a log does not tell", () => {
  it("is said where it matters", async () => {
    const log = [{ at: EPOCH_MS, method: "OPTIONS" }, ...at(1)];
    const { warnings } = await simulate({ policies: { two }, giveBackOn: "failure" }, log);
    expect(warnings).toEqual([
      "1 of 2 limited requests have no address: where they are counted by it, they count together as ip:none.",
      "2 of 2 limited requests have no status: giveBackOn and settle take them for responses that never began.",
      "1 of 2 limited requests are OPTIONS without headers: preflights cannot be told from others, and are counted.",
    ]);
  });

  it("and not where it does not", async () => {
    const log = at(0, 1).map((past) => ({ ...past, address: undefined, user: "u" }));
    const everybody = tokenBucket({ capacity: 5, refillPerSecond: 1, by: globally() });
    expect((await simulate({ policies: { everybody } }, log)).warnings).toEqual([]);
  });
});

describe("who is counted, where the log does not tell", () => {
  const key = apiKey({ header: "X-Api-Key" });
  const withKey = (ms: number) => ({ ...at(ms)[0]!, headers: { "x-api-key": "k" } });
  const withUser = (ms: number) => ({ ...at(ms)[0]!, user: "u" });
  const withTenant = (ms: number) => ({ ...at(ms)[0]!, tenant: "t" });

  async function told(by: By | undefined, log: readonly PastRequest[], more: Partial<Config> = {}) {
    const config = { policies: { perKey: two }, ...(by && { by }), ...more };
    const { warnings, policies } = await simulate(config, log, { curve: false });
    return { warnings, neverFound: policies.map(({ neverFound }) => neverFound) };
  }

  const NO_KEY =
    "Policy perKey: none of 2 requests had the header x-api-key, which this log may not hold; all were counted by address.";
  const NO_USER =
    "Policy perKey: none of 2 requests had a user, which this log may not hold; all were counted by address.";
  const NO_TENANT =
    "Policy perKey: none of 2 requests had a tenant, which this log may not hold; all were counted by address.";

  it.each<[string, By, string[], string[]]>([
    ["a header of API keys", key.or(ip()), ["header x-api-key"], [NO_KEY]],
    ["a header of API keys, and nothing instead", key, ["header x-api-key"], [NO_KEY]],
    [
      "a bearer",
      apiKey({ scheme: "bearer" }).or(globally()),
      ["header authorization"],
      [
        "Policy perKey: none of 2 requests had the header authorization, which this log may not hold; all were counted together.",
      ],
    ],
    [
      "a parameter",
      apiKey({ query: "key" }).or(ip()),
      ["query key"],
      [
        "Policy perKey: none of 2 requests had key in its query, which this log may not hold; all were counted by address.",
      ],
    ],
    ["a user", user(), ["user"], [NO_USER]],
    ["a user, else an address", user().or(ip()), ["user"], [NO_USER]],
    ["a tenant, and not the tenant's user", tenant().or(ip()), ["tenant"], [NO_TENANT]],
    ["a user, a key", user().or(key).or(ip()), ["user", "header x-api-key"], [NO_USER, NO_KEY]],
    ["both together", user().and(key), ["user", "header x-api-key"], [NO_USER, NO_KEY]],
    ["an address", ip(), [], []],
    ["everybody", globally(), [], []],
    ["a function that finds somebody", () => "somebody", [], []],
  ])("%s: what no request has is told of", async (_, by, neverFound, warnings) => {
    expect(await told(by, at(0, 1))).toEqual({ neverFound: [neverFound], warnings });
  });

  it.each<[string, By, PastRequest]>([
    ["a key", key.or(ip()), withKey(1)],
    ["a user", user().or(ip()), withUser(1)],
    ["a tenant, without a user", tenant().or(ip()), withTenant(1)],
    ["a parameter", apiKey({ query: "key" }).or(ip()), { ...at(1)[0]!, url: "/?key=k" }],
    [
      "a key that is looked at for long",
      apiKey({ header: "x-api-key", verify: async () => true }).or(ip()),
      withKey(1),
    ],
  ])("one request with %s is enough for a log that holds it", async (_, by, past) => {
    expect(await told(by, [...at(0), past])).toEqual({ neverFound: [[]], warnings: [] });
  });

  it("says by what the requests were counted that had it not", async () => {
    const log = [...at(0, 1, 2), withTenant(3), withUser(4)];
    expect((await told(key.or(tenant()).or(user()).or(ip()), log)).warnings).toEqual([
      "Policy perKey: none of 5 requests had the header x-api-key, which this log may not hold; 3 were counted by address, 1 by tenant, 1 by user.",
    ]);
  });

  it("says how many requests nobody was found for, where others had somebody", async () => {
    const log = [...at(0, 1, 2), withUser(3)];
    expect((await told(user(), log)).warnings).toEqual([
      "Policy perKey: by: user found nobody in 3 of 4 requests; they were counted by address, as in production (TIDEGATE_IDENTITY_FAULT).",
    ]);
    expect((await told(key, [...at(0), withKey(1)])).warnings).toEqual([
      "Policy perKey: by: apiKey found nobody in 1 of 2 requests; they were counted by address, as in production (TIDEGATE_IDENTITY_FAULT).",
    ]);
    const named = (request: SimulatedRequest) => request.user;
    expect((await told(named, log)).warnings).toEqual([
      "Policy perKey: the function that says who is counted found nobody in 3 of 4 requests; they were counted by address, as in production (TIDEGATE_IDENTITY_FAULT).",
    ]);
  });

  it("leaves nonsense and what throws to the faults that they are", async () => {
    const nonsense = () => ({}) as string;
    expect((await told(user(nonsense), at(0, 1))).warnings).toEqual([
      "TIDEGATE_IDENTITY_FAULT: The function that says who is counted gave NaN (2 times).",
    ]);
    const { session } = {} as { session: { id: string } };
    expect((await told(() => session.id, at(0))).warnings).toEqual([
      "TIDEGATE_IDENTITY_FAULT: The function that says who is counted threw TypeError.",
    ]);
  });

  it("is told once for all policies that look for the same, each by its name", async () => {
    const policies = {
      perKey: two,
      daily: fixedWindow({ limit: 9, window: "1d" }),
      perUser: fixedWindow({ limit: 9, window: "1m", by: user() }),
    };
    const routes = { "/a": { policies: { burst: two } }, "/never": { by: tenant() } };
    const config: Config = { policies, by: key.or(ip()), routes };
    const log = [...at(0, 1), { ...at(2)[0]!, url: "/a" }];
    const options = { pattern: expressPattern, curve: false };
    const { warnings, policies: reports } = await simulate(config, log, options);
    expect(warnings).toEqual([
      "Policies perKey, daily, burst of /a: none of 3 requests had the header x-api-key, which this log may not hold; all were counted by address.",
      "Policy perUser: none of 2 requests had a user, which this log may not hold; all were counted by address.",
    ]);
    expect(reports.map(({ name, neverFound }) => [name, neverFound])).toContainEqual([
      "burst",
      ["header x-api-key"],
    ]);
  });

  it("is told of a policy whose numbers each request chooses, which counts as it does", async () => {
    const base = fixedWindow({ limit: 1, window: "10s", by: user() });
    const report = await simulate(
      { policies: { only: { base, choose: () => base.ofLimit(2) } } },
      [withUser(0), withUser(1), withUser(2), ...at(3)],
      { curve: false },
    );
    expect(report).toMatchObject({ admitted: 3, refused: 1, identities: 2 });
    expect(report.warnings).toEqual([
      "Policy only: by: user found nobody in 1 of 4 requests; they were counted by address, as in production (TIDEGATE_IDENTITY_FAULT).",
    ]);
  });
});
