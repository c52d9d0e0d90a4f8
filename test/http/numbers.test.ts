/** Numbers going in, and numbers coming out. */
import {
  ConfigError,
  type Decision,
  fixedWindow,
  type MaybePromise,
  perRequest,
  type Policy,
  rateLimit,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/express";
import express from "express";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type Answer,
  limiting,
  listening,
  PATIENT,
  read,
  serve,
  storeKinds,
  useRedis,
  visit,
  visits,
  watching,
} from "../harness/http.ts";

const redis = useRedis();
const { clock } = redis;

const MINUTE = 60_000;
/** Each algorithm, as `limit` units per `window` milliseconds. */
const algorithms: [string, (limit: number, window: number) => Policy][] = [
  [
    "tokenBucket",
    (limit, window) => tokenBucket({ capacity: limit, refillPerSecond: (1000 * limit) / window }),
  ],
  ["slidingWindow", (limit, window) => slidingWindow({ limit, window })],
  ["slidingLog", (limit, window) => slidingLog({ limit, window })],
  ["fixedWindow", (limit, window) => fixedWindow({ limit, window })],
];

describe("P10", () => {
  const bad: unknown[] = [NaN, undefined, null, "", "abc", -1, 1.5, Infinity, {}];
  const shown = (value: unknown) =>
    typeof value === "string"
      ? `"${value}"`
      : typeof value === "object" && value
        ? "an object"
        : String(value);

  const makers: [string, unknown[], (value: never) => unknown][] = [
    ["limit", bad, (limit) => rateLimit({ limit, window: "1m" })],
    ["window", [...bad, 0, "0s"], (window) => rateLimit({ limit: 1, window })],
    ["slidingWindow.limit", bad, (limit) => slidingWindow({ limit, window: "1m" })],
    ["slidingWindow.window", [...bad, 0], (window) => slidingWindow({ limit: 1, window })],
    ["slidingLog.limit", [...bad, 1001], (limit) => slidingLog({ limit, window: "1m" })],
    ["slidingLog.window", [...bad, 0], (window) => slidingLog({ limit: 1, window })],
    ["fixedWindow.limit", bad, (limit) => fixedWindow({ limit, window: "1m" })],
    ["fixedWindow.window", [...bad, 0], (window) => fixedWindow({ limit: 1, window })],
    ["tokenBucket.capacity", bad, (capacity) => tokenBucket({ capacity, refillPerSecond: 1 })],
    [
      "tokenBucket.refillPerSecond",
      [NaN, undefined, null, "", "abc", -1, 0, Infinity, {}],
      (refillPerSecond) => tokenBucket({ capacity: 1, refillPerSecond }),
    ],
    [
      "cost",
      [NaN, null, "", "abc", -1, 1.5, Infinity, {}],
      (cost) => rateLimit({ limit: 1, window: "1m", cost }),
    ],
    [
      "timeoutMs",
      [NaN, "", "abc", -1, 0, 1.5, Infinity, {}],
      (timeoutMs) => rateLimit({ limit: 1, window: "1m", timeoutMs }),
    ],
  ];
  const rows = makers.flatMap(([option, values, make]) =>
    values.map((value): [string, unknown, (value: never) => unknown] => [option, value, make]),
  );

  it.each(rows)("T1 %s of %o is refused by name and value", (option, value, make) => {
    let thrown: unknown;
    try {
      make(value as never);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(ConfigError);
    const { message } = thrown as ConfigError;
    expect(message).toContain(option);
    expect(message).toContain(`got ${shown(value)}`);
    expect((thrown as ConfigError).value).toEqual(value);
  });

  it.each<[string, () => MaybePromise<unknown>]>([
    ...bad.map((value): [string, () => unknown] => [`gives ${shown(value)}`, () => value]),
    ...bad.map((limit): [string, () => unknown] => [
      `makes a policy with a limit of ${shown(limit)}`,
      () => slidingWindow({ limit: limit as number, window: "1m" }),
    ]),
    ["gives nonsense later", async () => NaN],
    ["rejects", async () => slidingWindow({ limit: NaN, window: "1m" })],
    ["never answers", () => new Promise(() => {})],
  ])("T2 a policy function that %s: the policy beside it holds, with an event", async (_, choose) => {
    const base = slidingWindow({ limit: 2, window: "1m" });
    const policies = { plan: perRequest(base, choose as () => Policy) };
    const limit = limiting({ policies, timeoutMs: 30 });
    const answers = await visits(3, serve(express, limit));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
    for (const { fields } of answers) expect(fields["RateLimit-Policy"]).toBe('"plan";q=2;w=60');
    expect(limit.events).toEqual(Array(3).fill(expect.objectContaining({ code: "TIDEGATE_POLICY_FAULT" })));
  });

  it("T2 a policy function decides for its request", async () => {
    const free = fixedWindow({ limit: 1, window: "1m" });
    const paid = fixedWindow({ limit: 9, window: "1m" });
    const policies = { plan: perRequest(free, async (req) => (req.get("x-plan") === "paid" ? paid : free)) };
    const app = serve(express, limiting({ policies }));
    expect((await visit(app)).fields["RateLimit-Policy"]).toBe('"plan";q=1;w=60');
    expect((await visit(app)).status).toBe(429);
    expect((await visit(app, { "x-plan": "paid" })).fields["RateLimit"]).toBe('"plan";r=7;t=60');
  });

  it.each(["1 minute", "1m", "60s", "60000", MINUTE])("T3 a window of %o is one of 60000", async (window) => {
    const answersOf = async (given: string | number) => {
      const chosen = slidingWindow({ limit: 2, window: given });
      const limit = limiting({
        store: redis.storeOf("memory"),
        policies: { static: chosen, dynamic: perRequest(fixedWindow({ limit: 1, window: 1 }), () => chosen) },
      });
      return visits(3, serve(express, limit));
    };
    const short = await visits(
      3,
      serve(express, limiting({ store: redis.storeOf("memory"), limit: 2, window })),
    );
    expect(short.map(({ fields }) => fields["RateLimit-Policy"])).toEqual(
      Array(3).fill('"default";q=2;w=60'),
    );
    expect(await answersOf(window)).toEqual(await answersOf(MINUTE));
  });
});

/** An application whose limiter can be changed, and the decisions it made. */
function changing() {
  const decisions: (Decision | undefined)[] = [];
  let current = watching((_, __, next) => next(), decisions);
  const server = listening(serve(express, (req, res, next) => current(req, res, next)));
  return {
    server,
    decisions,
    use: (config: Parameters<typeof rateLimit>[0]) => {
      current = watching(rateLimit({ ...PATIENT, ...config }), decisions);
    },
  };
}

const waitOf = ({ fields }: Answer) => Number(fields["Retry-After"]);

describe.each(storeKinds)("P23 on %s", (kind) => {
  it.each([
    [1900, "2"],
    [1001, "2"],
    [1000, "1"],
    [50, "1"],
    [0.001, "1"],
  ])("T1 %d ms left are a Retry-After of %s", async (leftMs, wait) => {
    const limit = limiting({
      store: redis.storeOf(kind),
      ...PATIENT,
      policies: { p: fixedWindow({ limit: 1, window: 5000 }) },
    });
    const app = serve(express, limit);
    await visit(app);
    clock.advance(5000 - leftMs);
    const { status, fields } = await visit(app);
    expect(status).toBe(429);
    expect(fields).toMatchObject({ "Retry-After": wait, RateLimit: `"p";r=0;t=${wait}` });
  });

  it("T2 a bucket of 1 per second, emptied, says 800 ms after 200 ms", async () => {
    const { server, decisions, use } = changing();
    use({ store: redis.storeOf(kind), policies: { p: tokenBucket({ capacity: 1, refillPerSecond: 1 }) } });
    await visit(server);
    clock.advance(200);
    expect(waitOf(await visit(server))).toBe(1);
    expect(decisions[1]).toMatchObject({ allowed: false, retryAfterMs: 800 });
  });

  it.each(algorithms)(
    "T3 %s: who waits as told passes, and a millisecond earlier does not",
    async (_, make) => {
      const { server, decisions, use } = changing();
      const step = fc.record({
        gap: fc.nat(1500),
        cost: fc.integer({ min: 1, max: 5 }),
        seconds: fc.boolean(),
      });
      const scenario = fc.record({
        limit: fc.integer({ min: 5, max: 12 }),
        window: fc.integer({ min: 1, max: 20_000 }),
        steps: fc.array(step, { minLength: 4, maxLength: 12 }),
      });
      await fc.assert(
        fc.asyncProperty(scenario, async ({ limit, window, steps }) => {
          await redis.client.flushall();
          let cost = 1;
          use({ store: redis.storeOf(kind), policies: { p: make(limit, window) }, cost: () => cost });
          for (const step of steps) {
            cost = step.cost;
            clock.advance((step.gap * window) / 5000);
            const answer = await visit(server);
            if (answer.status === 200) continue;
            const waitMs = decisions.at(-1)!.retryAfterMs!;
            expect(waitOf(answer)).toBe(Math.ceil(waitMs / 1000));
            if (step.seconds) clock.advance(waitOf(answer) * 1000);
            else {
              clock.advance(waitMs - 1);
              expect((await visit(server)).status).toBe(429);
              clock.advance(1);
            }
            expect((await visit(server)).status).toBe(200);
          }
        }),
        { numRuns: 25 },
      );
    },
  );
});

describe.each(storeKinds)("P31 on %s", (kind) => {
  const HOUR = 3_600_000;
  const shifts = [-HOUR, -1, 1, MINUTE, HOUR];

  it.each(algorithms)(
    "%s: whatever the state and the clock, numbers are whole and not negative",
    async (_, make) => {
      const { server, decisions, use } = changing();
      const states: [limit: number, spent: number[]][] = [
        [10, []],
        [10, [3]],
        [10, [10]],
        [10, [4, 6]],
        [1000, [1000]], // above the limit by 990 once that is lowered
      ];
      const store = redis.storeOf(kind);
      let who = "";
      let cost = 1;
      for (const [limit, spent] of states) {
        for (const first of shifts) {
          for (const second of shifts) {
            who = `w${decisions.length}`;
            use({ store, policies: { p: make(limit, MINUTE) }, by: () => who, cost: () => cost });
            for (cost of spent) expect((await visit(server)).status).toBe(200);
            use({ store, policies: { p: make(10, MINUTE) }, by: () => who, cost: () => cost });
            for (const shift of [first, second]) {
              clock.advance(shift);
              for (cost of [1, 10]) expectWhole(await visit(server), decisions.at(-1)!);
            }
          }
        }
      }
    },
  );

  function expectWhole({ status }: Answer, { verdicts, retryAfterMs, degraded }: Decision): void {
    expect(degraded).toBeUndefined();
    expect([200, 429]).toContain(status);
    for (const number of verdicts.flatMap((v) => [v.limit, v.remaining, v.nextMs, v.fullMs]))
      expect(number).toSatisfy((n: number) => Number.isInteger(n) && n >= 0);
    // The unit that a full sliding window waits for may weigh until the end of the window after.
    expect(retryAfterMs).toBeLessThanOrEqual(2 * MINUTE);
  }
});

it.each(algorithms)("%s: a look at a limit that was lowered to 0 is answered at once", async (name, make) => {
  const MONTH = 30 * 86_400_000;
  const { server, use } = changing();
  const store = redis.storeOf("memory");
  use({ store, policies: { p: make(8, MONTH) }, cost: 3 });
  await visit(server);
  const none = name === "tokenBucket" ? tokenBucket({ capacity: 0, refillPerSecond: 1 }) : make(0, MONTH);
  use({ store, policies: { p: none }, cost: 0 });
  const asked = performance.now();
  await visit(server);
  expect(performance.now() - asked).toBeLessThan(300);
});

describe.each(storeKinds)("P42 on %s", (kind) => {
  const decisions: Decision[] = [];
  const refusedAfter = async (policy: Policy, ms: number): Promise<Answer> => {
    decisions.length = 0;
    const limit = limiting({ store: redis.storeOf(kind), ...PATIENT, policies: { p: policy } });
    const server = listening(serve(express, watching(limit, decisions as (Decision | undefined)[])));
    clock.set(Math.floor(clock.now() / 1000 / MINUTE) * MINUTE); // where sliding windows begin
    await visit(server);
    clock.advance(ms);
    return visit(server);
  };

  it.each(algorithms)("T1 %s: refused when 5 of 60 seconds are left, it says 5", async (name, make) => {
    // One unit of a sliding window weighs until the end of the window after.
    const age = name === "slidingWindow" ? 2 * MINUTE - 5000 : MINUTE - 5000;
    const { status, fields } = await refusedAfter(make(1, MINUTE), age);
    expect(status).toBe(429);
    expect(fields).toMatchObject({ RateLimit: '"p";r=0;t=5', "Retry-After": "5" });
  });

  it("T2 the decision's figures are those of the headers", async () => {
    const { fields } = await refusedAfter(fixedWindow({ limit: 1, window: MINUTE }), 55_000);
    const [{ retryAfterMs, verdicts }] = decisions.slice(1) as [Decision];
    expect(retryAfterMs).toBe(5000);
    expect(verdicts).toMatchObject([{ remaining: 0, nextMs: 5000, fullMs: 5000 }]);
    expect(read(fields["RateLimit"]).get("p")).toEqual({ r: 0, t: 5 });
  });

  it.each([
    [0, "60"],
    [1, "60"],
    [1000, "59"],
    [59_999, "1"],
  ])("T3 after %i ms of a minute it is whole seconds, never a date: %s", async (ms, seconds) => {
    const { fields } = await refusedAfter(fixedWindow({ limit: 1, window: MINUTE }), ms);
    expect(fields["Retry-After"]).toBe(seconds);
  });
});
