/** Curves and suggestions: what other limits of a policy would refuse, against simulations with these limits. */
import {
  concurrency,
  fixedWindow,
  gcra,
  perRequest,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";
import { type PastRequest, type PolicyReport, simulate } from "@tidegate/core/simulate";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EPOCH_MS } from "../harness/pair.ts";
import { logOf } from "./logs.ts";

const only = async (policy: Policy, log: readonly PastRequest[], more: object = {}): Promise<PolicyReport> =>
  (await simulate({ policies: { only: policy }, ...more }, log)).policies[0]!;

const sharesOf = ({ identities, identitiesRefused, requests, refused }: PolicyReport) => ({
  identitiesRefused: identitiesRefused / identities,
  requestsRefused: refused / requests,
});

const withoutLimit = ({
  identitiesRefused,
  requestsRefused,
}: NonNullable<PolicyReport["curve"]>[number]) => ({
  identitiesRefused,
  requestsRefused,
});

/** Makers of policies whose limit is to be tried. */
const makers: [name: string, make: (limit: number, window: number) => Policy][] = [
  [
    "tokenBucket",
    (limit, window) => tokenBucket({ capacity: limit, refillPerSecond: (limit / window) * 1000 }),
  ],
  ["gcra", (limit, window) => gcra({ limit, window })],
  ["slidingWindow", (limit, window) => slidingWindow({ limit, window })],
  ["slidingLog", (limit, window) => slidingLog({ limit, window })],
  ["fixedWindow", (limit, window) => fixedWindow({ limit, window })],
  ["fixedWindow by the clock", (limit, window) => fixedWindow({ limit, window, align: "clock" })],
  ["fixedWindow by the calendar", (limit) => fixedWindow({ limit, window: "day", timeZone: "Asia/Kolkata" })],
];

/** Logs of a few clients over a minute, and for calendars over a week. */
const logs = (stretch: number) =>
  fc
    .array(
      fc.record({
        gapMs: fc.oneof(
          fc.constant(0),
          fc.integer({ min: 0, max: 900 }),
          fc.double({ min: 0, max: 20, noNaN: true }),
        ),
        who: fc.integer({ min: 1, max: 4 }),
      }),
      { minLength: 1, maxLength: 60 },
    )
    .map((steps) => {
      let at = EPOCH_MS;
      return steps.map(({ gapMs, who }): PastRequest => {
        at += Math.round(gapMs * stretch * 1000) / 1000;
        return { at, address: `192.0.2.${who}` };
      });
    });

describe.each(makers)("%s", (name, make) => {
  const stretch = name.endsWith("calendar") ? 10_000 : 1;
  const cases = fc.record({
    log: logs(stretch),
    limit: fc.integer({ min: 1, max: 12 }),
    window: fc.integer({ min: 500, max: 8000 }),
  });

  it("at its own limit the curve is what the simulation refused", async () => {
    await fc.assert(
      fc.asyncProperty(cases, async ({ log, limit, window }) => {
        const report = await only(make(limit, window), log);
        const own = report.curve!.find((point) => point.limit === limit)!;
        expect(withoutLimit(own)).toEqual(sharesOf(report));
      }),
      { numRuns: 60 },
    );
  });

  it("at every other limit it is what a simulation of the policy with that limit refuses", async () => {
    await fc.assert(
      fc.asyncProperty(cases, async ({ log, limit, window }) => {
        const policy = make(limit, window);
        const { curve } = await only(policy, log);
        for (const point of curve!)
          expect(withoutLimit(point)).toEqual(sharesOf(await only(policy.ofLimit(point.limit), log)));
      }),
      { numRuns: 15 },
    );
  });

  it("a higher limit refuses nobody more, and the highest nobody", async () => {
    await fc.assert(
      fc.asyncProperty(cases, async ({ log, limit, window }) => {
        const { curve } = await only(make(limit, window), log);
        const limits = curve!.map((point) => point.limit);
        expect(limits).toEqual(limits.toSorted((a, b) => a - b));
        expect(limits).toContain(limit);
        for (const part of ["identitiesRefused", "requestsRefused"] as const) {
          const shares = curve!.map((point) => point[part]);
          expect(shares).toEqual(shares.toSorted((a, b) => b - a));
          expect(shares.at(-1)).toBe(0);
        }
      }),
      { numRuns: 60 },
    );
  });

  it("a suggestion is the least limit that refuses no more than its share", async () => {
    const log = logOf({ seed: 20, requests: 3000, spanMs: 60_000 * stretch, clients: 400 });
    const policy = make(3, 20_000);
    const { suggestions } = await only(policy, log);
    expect(suggestions!.map(({ share }) => share)).toEqual([0.001, 0.01, 0.05]);
    for (const { share, limit, requestsRefused } of suggestions!) {
      const at = sharesOf(await only(policy.ofLimit(limit), log));
      expect(at.identitiesRefused).toBeLessThanOrEqual(share);
      expect(at.requestsRefused).toBe(requestsRefused);
      if (limit === 1) continue;
      const below = sharesOf(await only(policy.ofLimit(limit - 1), log));
      expect(below.identitiesRefused).toBeGreaterThan(share);
    }
  });
});

describe("with costs, and what comes back after responses", () => {
  const log = logOf({
    seed: 21,
    requests: 400,
    spanMs: 40_000,
    paths: ["/?c=1", "/?c=3", "/?c=0"],
    durationMs: 900,
  });
  const cost = ({ query }: { query: Record<string, string> }) => Number(query["c"]);

  it.each(makers.slice(0, 6))(
    "%s: each point is what a simulation with that limit refuses",
    async (_, make) => {
      const policy = make(5, 4000);
      for (const settling of [
        { giveBackOn: "success" as const },
        {
          settle: ({ status }: { status: number | undefined }) =>
            status === 500 ? 6 : status === 401 ? 0 : "keep",
        },
      ]) {
        const { curve, suggestions } = await only(policy, log, { cost, ...settling });
        expect(curve!.length).toBeGreaterThan(5);
        for (const point of curve!) {
          const same = await only(policy.ofLimit(point.limit), log, { cost, ...settling });
          expect([point.limit, withoutLimit(point)]).toEqual([point.limit, sharesOf(same)]);
        }
        expect(suggestions!.length).toBe(3);
      }
    },
  );
});

describe("where there is no curve", () => {
  const log = logOf({ seed: 22, requests: 50, spanMs: 5000, durationMs: 100 });
  const bucket = tokenBucket({ capacity: 4, refillPerSecond: 1 });

  it.each([
    [
      "concurrency",
      concurrency({ limit: 2 }),
      "it counts what is in flight, which other limits would change",
    ],
    ["numbers that requests choose", perRequest(bucket, () => bucket), "requests choose its numbers"],
    ["shards", tokenBucket({ capacity: 8, refillPerSecond: 1, shards: 2 }), "its limit is split by chance"],
  ])("%s: a warning says why", async (_, policy, reason) => {
    const { policies, warnings } = await simulate({ policies: { only: policy } }, log);
    expect(policies[0]).toMatchObject({ curve: null, suggestions: null });
    expect(warnings).toContain(`Policy only has no curve and no suggestions: ${reason}.`);
  });

  it("left out on request, without a word", async () => {
    const { policies, warnings } = await simulate({ policies: { only: bucket } }, log, { curve: false });
    expect(policies[0]).toMatchObject({ curve: null, suggestions: null });
    expect(warnings).toEqual([]);
  });

  it("no bucket holds more than can be counted exactly: the curve ends before that", async () => {
    const huge = tokenBucket({
      capacity: 1000,
      refillPerSecond: 10,
      cost: 4_000_000_000,
      unit: "content-bytes",
    });
    const { curve, suggestions } = await only(
      huge,
      [EPOCH_MS, EPOCH_MS, EPOCH_MS].map((at) => ({ at })),
    );
    expect(suggestions).toEqual([]);
    expect(curve!.at(-1)).toEqual({ limit: 8_000_000_000, identitiesRefused: 1, requestsRefused: 1 / 3 });
  });

  it("no limit of a slidingLog is above 1000: what needs more has no suggestion", async () => {
    const flood = Array.from({ length: 1500 }, (_, i) => ({ at: EPOCH_MS + i, address: "192.0.2.1" }));
    const { curve, suggestions } = await only(slidingLog({ limit: 10, window: "1m" }), flood);
    expect(suggestions).toEqual([]);
    expect(curve!.at(-1)).toEqual({ limit: 1000, identitiesRefused: 1, requestsRefused: 500 / 1500 });
    expect(curve!.map(({ identitiesRefused }) => identitiesRefused)).toEqual(curve!.map(() => 1));
  });
});
