/** The sample runs that users are shown: docs/samples.md. */
import { apiKey, fixedWindow, slidingLog, slidingWindow, tokenBucket } from "@tidegate/express";
import express from "express";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import {
  expresses,
  limiting,
  listening,
  ownRedis,
  passed,
  PATIENT,
  read,
  refused,
  serve,
  storeKinds,
  useRedis,
  visit,
  visits,
} from "../harness/http.ts";

const redis = useRedis();
const { clock } = redis;

const burst = () => ({ burst: tokenBucket({ capacity: 10, refillPerSecond: 5 }) });
const T_OF_BURST = [2, 2, 2, 2, 1, 1, 1, 1, 1, 1];
const bursts = T_OF_BURST.map((t, i) =>
  passed({ "RateLimit-Policy": '"burst";q=10;w=2', RateLimit: `"burst";r=${9 - i};t=${t}` }),
);

describe.each(expresses)("%s", (_, express) => {
  describe.each(storeKinds)("on %s, the clock standing", (kind) => {
    const app = (policies: Parameters<typeof limiting>[0]["policies"] & {}) =>
      serve(express, limiting({ store: redis.storeOf(kind), ...PATIENT, policies }));

    it("a bucket of 10, 5 per second: 10 of 12 requests pass", async () => {
      const full = refused(
        { "RateLimit-Policy": '"burst";q=10;w=2', RateLimit: '"burst";r=0;t=1', "Retry-After": "1" },
        "burst",
      );
      expect(await visits(12, app(burst()))).toEqual([...bursts, full, full]);
    });

    it("a log of 100 per minute: 100 of 102 requests pass", async () => {
      const answers = await visits(102, app({ minute: slidingLog({ limit: 100, window: "1m" }) }));
      const full = refused(
        { "RateLimit-Policy": '"minute";q=100;w=60', RateLimit: '"minute";r=0;t=60', "Retry-After": "60" },
        "minute",
      );
      expect(answers.slice(0, 100).every(({ status }) => status === 200)).toBe(true);
      expect(answers[0]).toEqual(
        passed({ "RateLimit-Policy": '"minute";q=100;w=60', RateLimit: '"minute";r=99;t=60' }),
      );
      expect(answers.slice(100)).toEqual([full, full]);
    });
  });

  it("on a real clock, the first ten of the bucket of 10", async () => {
    const limit = limiting({ redis: (await ownRedis()).url, ...PATIENT, policies: burst() });
    const answers = await visits(10, serve(express, limit));
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(answers[0]).toEqual(bursts[0]);
    // Tokens flow in meanwhile: no answer tells of fewer than with the clock standing.
    answers.forEach(({ fields }, i) => {
      expect(fields["RateLimit-Policy"]).toBe('"burst";q=10;w=2');
      expect(read(fields["RateLimit"]).get("burst")!.r).toBeGreaterThanOrEqual(9 - i);
    });
  });
});

describe.each(storeKinds)("Load on a bucket of 10, 5 per second, on %s", (kind) => {
  it.each([
    [601, 49.924, 159, 442],
    [601, 50, 160, 441],
    [600, 50, 159, 441],
  ])("%i requests, one every %f ms: %i pass, %i do not", async (count, everyMs, admitted, turnedAway) => {
    const limit = limiting({ store: redis.storeOf(kind), ...PATIENT, policies: burst() });
    const server = listening(serve(express, limit));
    const statuses: number[] = [];
    for (let i = 0; i < count; i++) {
      const { status, fields } = await visit(server);
      expect(fields).toHaveProperty("RateLimit");
      statuses.push(status);
      clock.advance(everyMs);
    }
    expect(statuses.filter((status) => status === 200)).toHaveLength(admitted);
    expect(statuses.filter((status) => status === 429)).toHaveLength(turnedAway);
  });
});

describe("An API key", () => {
  const SECRET = "sk_live_abc";

  it("appears nowhere: not in commands, keys, values, events, decisions or output", async () => {
    const server = await ownRedis();
    const output = recordOutput();
    const commands: string[] = [];
    const monitor = await server.client.duplicate().monitor();
    onTestFinished(() => monitor.disconnect());
    monitor.on("monitor", (_, args: string[]) => commands.push(args.join(" ")));

    const policies = {
      bucket: tokenBucket({ capacity: 5, refillPerSecond: 1 }),
      window: slidingWindow({ limit: 5, window: "1m" }),
      log: slidingLog({ limit: 5, window: "1m" }),
      fixed: fixedWindow({ limit: 5, window: "1m" }),
    };
    const by = apiKey({ header: "x-api-key" });
    const decisions: unknown[] = [];
    // One that tells its user, and one that tells the process.
    const told = limiting({ redis: server.url, ...PATIENT, policies, by, denyCache: false });
    const untold = limiting({
      redis: server.url,
      ...PATIENT,
      prefix: "untold",
      policies,
      by,
      denyCache: false,
      onEvent: undefined as never,
    });
    const app = serve(express, told, untold, (req, _, next) => {
      decisions.push(req.rateLimit);
      next();
    });

    const answers = await visits(8, app, { "x-api-key": SECRET });
    expect(answers.map(({ status }) => status)).toEqual([...Array(5).fill(200), ...Array(3).fill(429)]);
    const keys = await server.client.keys("*");
    expect(keys).toHaveLength(8);
    const dumps = await Promise.all(keys.map((key) => server.client.dumpBuffer(key)));
    await server.kill();
    answers.push(await visit(app, { "x-api-key": SECRET }));
    expect(answers.at(-1)!.status).toBe(200);
    expect(told.events.map(({ type }) => type)).toContain("storeError");
    expect(commands.some((command) => command.startsWith("evalsha"))).toBe(true);
    expect(decisions).toHaveLength(6);
    expect(output.join()).toContain("TIDEGATE_UNVERIFIED_KEY");

    const everything = [
      commands,
      keys,
      dumps.map((dump) => dump?.toString("latin1")),
      told.events,
      decisions,
      answers,
      output,
    ];
    expect(JSON.stringify(everything)).not.toContain(SECRET);
  });

  it.each([
    ["an Error", () => new Error(`unknown key ${SECRET}`)],
    ["text", () => `unknown key ${SECRET}`],
  ])("appears nowhere when verify throws it in %s", async (_, thrown) => {
    const output = recordOutput();
    const verify = () => {
      throw thrown();
    };
    const limit = limiting({ limit: 5, window: "1m", by: apiKey({ header: "x-api-key", verify }) });
    await visit(serve(express, limit), { "x-api-key": SECRET });
    expect(limit.events).toMatchObject([{ type: "warning", code: "TIDEGATE_IDENTITY_FAULT" }]);
    expect(JSON.stringify([limit.events, output])).not.toContain(SECRET);
  });
});

/** All that the process says from here on, and each warning. */
function recordOutput(): string[] {
  const output: string[] = [];
  const keep = (...said: unknown[]) => void output.push(said.map(String).join(" "));
  const spies = [
    ...(["log", "info", "warn", "error", "debug"] as const).map((name) =>
      vi.spyOn(console, name).mockImplementation(keep),
    ),
    ...[process.stdout, process.stderr].map((stream) =>
      vi.spyOn(stream, "write").mockImplementation((said) => (keep(said), true)),
    ),
    vi.spyOn(process, "emitWarning").mockImplementation((...said) => keep(JSON.stringify(said))),
  ];
  onTestFinished(() => spies.forEach((spy) => spy.mockRestore()));
  return output;
}
