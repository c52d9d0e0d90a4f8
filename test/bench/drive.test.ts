import { describe, expect, it } from "vitest";
import { after, drive, pace, waits } from "../../bench/lib/drive.js";
import type { Verdict } from "../../bench/limiters/limiter.js";

const next = () => "somebody";
const turn = () => new Promise((resolve) => setImmediate(resolve));
const read = (answer: Verdict) => answer;

/** Answers in a later turn, and remembers the most that were under way. */
function slow(answer: Verdict = "allowed") {
  let underWay = 0;
  const seen = { most: 0, asked: 0 };
  const ask = async () => {
    seen.asked++;
    seen.most = Math.max(seen.most, ++underWay);
    await turn();
    underWay--;
    return answer;
  };
  return { ask, read, seen };
}

describe("driving", () => {
  it.each([1, 64, 512])("keeps %i decisions in flight, and no more", async (inFlight) => {
    const limiter = slow();
    const { allowed } = await drive(limiter, { next, inFlight, isOver: () => limiter.seen.asked > 2000 });
    expect(limiter.seen.most).toBe(inFlight);
    expect(allowed).toBe(limiter.seen.asked);
  });

  it("lets the event loop turn when everything is answered at once", async () => {
    let asked = 0;
    let turns = 0;
    const count = () => setImmediate(() => turns++ < 20 && count());
    count();
    const ask = async (): Promise<Verdict> => {
      asked++;
      return "refused";
    };
    const { refused } = await drive({ ask, read }, { next, inFlight: 8, isOver: () => turns >= 20 });
    expect(refused).toBe(asked);
    // In each turn every lane asks about twice: what began it, and what was asked in it.
    expect(asked).toBeLessThan(20 * 8 * 4);
  });

  it("ends after its time", async () => {
    const { ms } = await drive(slow(), { next, inFlight: 4, ms: 20 });
    expect(ms).toBeGreaterThanOrEqual(19);
  });

  it("counts a refusal that is told by a failure", async () => {
    let asked = 0;
    const limiter = {
      ask: async () => {
        asked++;
        if (asked % 2 === 0) throw "refused";
        return "degraded";
      },
      read,
      failed: () => "refused" as const,
    };
    const { allowed, refused, degraded } = await drive(limiter, {
      next,
      inFlight: 1,
      isOver: () => asked >= 10,
    });
    expect({ allowed, refused, degraded }).toEqual({ allowed: 0, refused: 5, degraded: 5 });
  });

  it("fails when a decision fails", async () => {
    const ask = async () => {
      throw new Error("no connection");
    };
    await expect(drive({ ask, read }, { next, inFlight: 4, ms: 1000 })).rejects.toThrow("no connection");
  });
});

describe("a flood from outside", () => {
  it("has no more in flight than it may", async () => {
    const limiter = slow("refused");
    const { refused } = await pace(limiter, {
      next,
      perSecond: 1_000_000,
      most: 16,
      isOver: () => limiter.seen.asked > 200,
    });
    expect(limiter.seen.most).toBe(16);
    expect(refused).toBeGreaterThan(100);
  });

  it("asks for nothing that is not due yet", async () => {
    const limiter = slow("refused");
    const start = performance.now();
    await pace(limiter, { next, perSecond: 1000, most: 512, isOver: after(50) });
    expect(limiter.seen.asked).toBeLessThanOrEqual(performance.now() - start);
  });
});

describe("waiting", () => {
  it("asks one at a time, and tells how long each took", async () => {
    const limiter = slow();
    const all = await waits(limiter, { next, isOver: () => limiter.seen.asked >= 10 });
    expect(limiter.seen.most).toBe(1);
    expect(all).toHaveLength(10);
    expect(Math.min(...all)).toBeGreaterThan(0);
  });

  it("fails when who waits is refused: that would be no wait", async () => {
    await expect(waits(slow("refused"), { next, isOver: () => false })).rejects.toThrow("refused");
  });
});
