/** What ratelimit-header-parser makes of the fields of earlier drafts and of X-RateLimit, out of real responses. */
import { fixedWindow, type HeaderOptions, memoryStore } from "@tidegate/core";
import { parseRateLimit } from "ratelimit-header-parser";
import { describe, expect, it, onTestFinished } from "vitest";
import { fakeClock } from "../harness/clock.ts";
import { type FrameworkName, frameworks, startApi } from "./servers.ts";

/** Three requests of 2 units at a limit of 5 per minute: two pass, and the third does not. */
async function threeAnswers(framework: FrameworkName, headers: HeaderOptions): Promise<Read[]> {
  const clock = fakeClock();
  const policies = { five: fixedWindow({ limit: 5, window: "1m" }) };
  const store = memoryStore({ nowUs: clock.now });
  const api = await startApi(framework, { store, policies, cost: 2, headers });
  onTestFinished(() => api.close());
  const answers: Read[] = [];
  for (let i = 0; i < 3; i++) {
    answers.push(await read(api.url));
    clock.advance(7500);
  }
  return answers;
}

interface Read {
  readonly status: number;
  readonly told: ReturnType<typeof parseRateLimit>;
  /** Between these two the parser looked at the clock, ms: it counts seconds of a reset from then. */
  readonly from: number;
  readonly to: number;
}

async function read(url: string): Promise<Read> {
  const response = await fetch(url);
  await response.text();
  const from = Date.now();
  const told = parseRateLimit(response);
  return { status: response.status, told, from, to: Date.now() };
}

/** The same of each mode; the window ends 60 s after the first request, which is 52.5 and 45 s after the others. */
const counts = [
  { status: 200, limit: 5, used: 2, remaining: 3 },
  { status: 200, limit: 5, used: 4, remaining: 1 },
  // One unit is left, and none for a request like this: earlier drafts know requests only.
  { status: 429, limit: 5, used: 5, remaining: 0 },
];
const RESET_SECONDS = [60, 53, 45];
/** 250 ms after 2026-11-29T00:01:00Z, in the whole second after it. */
const RESET = new Date("2026-11-29T00:01:01Z");

const countsOf = (answers: readonly Read[]) =>
  answers.map(({ status, told }) => {
    const { reset: _, ...numbers } = told!;
    return { status, ...numbers };
  });

describe.each(frameworks)("ratelimit-header-parser reads from %s", (framework) => {
  it.each(["draft-7", "draft-6"] as const)(
    "limit, used, remaining and reset of %s, whether allowed or refused",
    async (standard) => {
      const answers = await threeAnswers(framework, { standard });
      expect(countsOf(answers)).toEqual(counts);
      answers.forEach(({ told, from, to }, i) => {
        const resetMs = told!.reset!.getTime() - RESET_SECONDS[i]! * 1000;
        expect(resetMs).toBeGreaterThanOrEqual(from);
        expect(resetMs).toBeLessThanOrEqual(to);
      });
    },
  );

  it("limit, used, remaining and the moment of reset of X-RateLimit, whether allowed or refused", async () => {
    const answers = await threeAnswers(framework, { standard: false, x: true });
    expect(countsOf(answers)).toEqual(counts);
    expect(answers.map(({ told }) => told!.reset)).toEqual([RESET, RESET, RESET]);
  });
});
