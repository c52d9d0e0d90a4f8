import {
  concurrency,
  createLimiter,
  type Decision,
  fixedWindow,
  gcra,
  ioredisClient,
  memoryStore,
  type Policy,
  rateLimit,
  redisStore,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/express";
import express from "express";
import request from "supertest";
import { describe, expect, it } from "vitest";
import { type FakeClock, fakeClock } from "../harness/clock.ts";
import { startRedis } from "../harness/redis.ts";
import { read, tablesOf } from "./markdown.ts";

const makers = { concurrency, fixedWindow, gcra, slidingLog, slidingWindow, tokenBucket };

/** 0 ms of the tables, ms since 1970: windows of up to an hour begin here. */
const ZERO = 1_800_000_000_000;

type Rows = Record<string, string>[];

/** A table with the policy above it, the name that HTTP gives it, and its heading. */
interface Sample {
  readonly title: string;
  readonly policy: Policy;
  readonly name: string;
  readonly rows: Rows;
  readonly text: string;
}

const samples: Sample[] = read("docs/samples.md")
  .split(/^(?=## )/m)
  .slice(1)
  .flatMap((section) => {
    const title = /^## (.*)/.exec(section)![1]!;
    const written = /^Policy: `(?:(\w+): )?(.*)`$/m.exec(section);
    if (!written) throw new Error(`docs/samples.md: "${title}" names no policy`);
    const [, name = "policy", text = ""] = written;
    const policy = policyOf(text);
    return tablesOf(section).map((rows, i) => ({
      title: i > 0 ? `${title}, table ${i + 1}` : title,
      policy,
      name,
      rows,
      text: section,
    }));
  });

/** `maker({ option: value })`, as a sample writes it. */
function policyOf(text: string): Policy {
  const [, maker, options] = /^(\w+)\((.*)\)$/.exec(text)!;
  return makers[maker as keyof typeof makers](JSON.parse(options!.replaceAll(/(\w+):/g, '"$1":')));
}

const of = (column: string) => samples.filter(({ rows }) => rows[0]?.[column] !== undefined);

function cellsOf({ allowed, verdicts }: Decision): Record<string, string> {
  const { remaining, nextMs, fullMs } = verdicts[0]!;
  return {
    allowed: allowed ? "yes" : "no",
    remaining: String(remaining),
    next: allowed ? "–" : String(nextMs ?? "unknown"),
    full: String(fullMs),
  };
}

function clocked(policy: Policy, clock: FakeClock) {
  return createLimiter({ store: memoryStore({ nowUs: clock.now }), policies: { policy } });
}

describe("docs/samples.md", () => {
  it.each(of("at"))("decides as shown: $title", async ({ policy, rows }) => {
    const clock = fakeClock(ZERO * 1000);
    const limiter = clocked(policy, clock);
    const decided: Rows = [];
    const under = new Map<string, Decision>();
    for (const { at, what } of rows) {
      clock.set(ZERO + Number(at));
      const [name = "", does = "calls"] = what?.split(" ") ?? [];
      if (does === "ends") await limiter.settle(under.get(name)!, "keep");
      const decision = does === "ends" ? undefined : await limiter.decide({ identity: "somebody" });
      if (decision) under.set(name, decision);
      const row = decision ? cellsOf(decision) : { allowed: "–", remaining: "–", next: "–", full: "–" };
      decided.push({ at: at!, ...(what === undefined ? {} : { what }), ...row });
    }
    await limiter.close();
    expect(decided).toEqual(rows);
  });

  it("tells rightly how many pass in the worst case of a sliding window", () => {
    const { rows, text } = of("at").find(({ title }) => title === "Sliding window, table 3")!;
    const passed = rows.filter(({ allowed }) => allowed === "yes").map(({ at }) => Number(at));
    expect(text).toContain(
      `here ${passed.length} within 1000 ms, from ${passed[0]} to ${passed.at(-1)}, where the limit is 5`,
    );
  });

  const loads = of("one every, ms").flatMap(({ policy, rows }) => rows.map((row) => ({ policy, row })));
  it.each(loads)("admits $row.admitted of $row.requests as shown under load", async ({ policy, row }) => {
    const clock = fakeClock(ZERO * 1000);
    const limiter = clocked(policy, clock);
    let admitted = 0;
    for (let i = 0; i < Number(row.requests); i++) {
      clock.set(ZERO + i * Number(row["one every, ms"]));
      if ((await limiter.decide({ identity: "somebody" })).allowed) admitted++;
    }
    expect(admitted).toBe(Number(row.admitted));
    expect(Number(row.requests) - admitted).toBe(Number(row.refused));
  });

  it.each(of("no."))("answers as shown: $title", async ({ policy, name, rows, text }) => {
    const store = memoryStore({ nowUs: fakeClock(ZERO * 1000).now });
    const app = express().use(rateLimit({ store, policies: { [name]: policy } }));
    app.get("/", (_req, res) => void res.end());
    const server = app.listen(0);
    const answers: Rows = [];
    for (let no = 1; no <= Number(rows.at(-1)!["no."]); no++) {
      const { status, headers } = await request(server).get("/");
      expect(text).toContain(`\`RateLimit-Policy: ${headers["ratelimit-policy"]}\``);
      answers.push({
        "no.": String(no),
        status: String(status),
        RateLimit: headers["ratelimit"]!,
        "Retry-After": headers["retry-after"] ?? "–",
      });
    }
    server.close();
    expect(rows.map((row) => answers[Number(row["no."]) - 1])).toEqual(rows);
  });

  it("admits as shown in the race, against Redis", async () => {
    const { policy, rows } = of("limiter")[0]!;
    const redis = await startRedis();
    const limiter = createLimiter({
      store: redisStore(ioredisClient(redis.url)),
      policies: { policy },
      timeoutMs: 5000,
    });
    const naive = async (): Promise<boolean> => {
      const count = Number(await redis.client.get("naive"));
      if (count >= policy.limit) return false;
      await redis.client.set("naive", count + 1);
      return true;
    };
    const ours = async (): Promise<boolean> => (await limiter.decide({ identity: "somebody" })).allowed;
    const admitted = async (calls: string | undefined, call: () => Promise<boolean>): Promise<string> => {
      const answers = await Promise.all(Array.from({ length: Number(calls) }, call));
      return String(answers.filter(Boolean).length);
    };
    try {
      expect(await admitted(rows[0]!.calls, naive)).toBe(rows[0]!.admitted);
      expect(await admitted(rows[1]!.calls, ours)).toBe(rows[1]!.admitted);
    } finally {
      await limiter.close();
      await redis.stop();
    }
  });
});
