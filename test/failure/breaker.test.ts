/** When the breaker opens, what it answers meanwhile, and what closes it. */
import { fixedWindow } from "@tidegate/core";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { StoreError, type StoreErrorClass } from "../../packages/core/src/errors.ts";
import { withBreaker } from "../../packages/core/src/failure/breaker.ts";
import type { Timely } from "../../packages/core/src/failure/deadline.ts";
import type { Check, Outcome } from "../../packages/core/src/stores/store.ts";

const TIMEOUT_MS = 50;
const policy = fixedWindow({ limit: 1, window: 1000 });
const check: Check = {
  policies: [policy],
  keys: ["rl:{id:anna}:p:fw"],
  costs: [1],
  deadline: Infinity,
  peek: false,
  blocks: [],
  lease: "l-1",
  nonce: { key: "rl:{id:anna}::n:1", keepMs: 1 },
};
const outcome: Outcome = { granted: true, now: 0, words: [1, 1], blockedUs: undefined, replayed: false };

/** A breaker before a store that answers as it is told to. */
function behind() {
  const asked: Check[] = [];
  const answers: ((reason?: StoreErrorClass) => void)[] = [];
  const next: Timely = {
    decide(check, done) {
      asked.push(check);
      answers.push((reason) =>
        reason ? done(new StoreError(reason, "no"), undefined) : done(undefined, outcome),
      );
    },
  };
  const changes: boolean[] = [];
  let answered = 0;
  const breaker = withBreaker(next, TIMEOUT_MS, {
    changed: (isOpen) => changes.push(isOpen),
    answered: () => answered++,
  });
  return {
    asked,
    answers,
    changes,
    breaker,
    /** How often a look was answered. */
    answered: () => answered,
    /** Asks, has the store answer, and tells what came of it: the class of an error, or "ok". */
    ask: (reason?: StoreErrorClass): string => {
      let told = "nothing";
      const before = answers.length;
      breaker.decide(
        check,
        (error) => (told = error?.reason ?? "ok"),
        () => {},
      );
      if (answers.length > before) answers.at(-1)!(reason);
      return told;
    },
    /** Answers the question that is under way. */
    answer: (reason?: StoreErrorClass) => answers.at(-1)!(reason),
  };
}

const five = (ask: (reason?: StoreErrorClass) => string) => [1, 2, 3, 4, 5].map(() => ask("timeout"));

describe("The breaker", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("opens after five failures one after the other, and then asks nobody", () => {
    const { ask, asked, breaker, changes } = behind();
    expect(five(ask)).toEqual(Array(5).fill("timeout"));
    expect([breaker.isOpen, changes]).toEqual([true, [true]]);
    expect([ask(), ask()]).toEqual(["timeout", "timeout"]);
    expect(asked).toHaveLength(5);
    breaker.stop();
  });

  it("does not open when an answer comes between", () => {
    const { ask, breaker } = behind();
    for (let i = 0; i < 10; i++) {
      for (let n = 0; n < 4; n++) ask("timeout");
      ask();
    }
    expect(breaker.isOpen).toBe(false);
  });

  it.each(["foreign", "broken"] as const)("takes a fault of one key (%s) for an answer", (reason) => {
    const { ask, breaker } = behind();
    for (let i = 0; i < 20; i++) expect(ask(reason)).toBe(reason);
    for (let i = 0; i < 4; i++) ask("timeout");
    ask(reason);
    ask("timeout");
    expect(breaker.isOpen).toBe(false);
  });

  it("looks every 200 ms, by the question that failed last, and leaves no trace", () => {
    const { ask, asked, answer, breaker } = behind();
    five(ask);
    vi.advanceTimersByTime(199);
    expect(asked).toHaveLength(5);
    vi.advanceTimersByTime(1);
    expect(asked).toHaveLength(6);
    const deadline = performance.now() + TIMEOUT_MS;
    expect(asked[5]).toEqual({ ...check, deadline, peek: true, lease: undefined, nonce: undefined });
    // One look at a time.
    vi.advanceTimersByTime(600);
    expect(asked).toHaveLength(6);
    answer("unavailable");
    expect([breaker.isOpen, ask()]).toEqual([true, "unavailable"]);
    vi.advanceTimersByTime(200);
    expect(asked).toHaveLength(7);
    breaker.stop();
  });

  it("closes on the first good look, and begins to count anew", () => {
    const { ask, answer, answered, breaker, changes } = behind();
    five(ask);
    vi.advanceTimersByTime(200);
    answer();
    expect([breaker.isOpen, changes, answered(), ask()]).toEqual([false, [true, false], 1, "ok"]);
    for (let i = 0; i < 4; i++) ask("timeout");
    expect(breaker.isOpen).toBe(false);
    ask();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("looks after a single failure too, so that nobody has to ask for the store to be known well again", () => {
    const { ask, answer, answered, asked, breaker, changes } = behind();
    ask("connection");
    vi.advanceTimersByTime(200);
    answer("connection");
    vi.advanceTimersByTime(200);
    answer();
    expect([asked.length, answered(), breaker.isOpen, changes]).toEqual([3, 1, false, []]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("closes on a good answer to what was asked before it opened", () => {
    const { ask, answers, breaker } = behind();
    breaker.decide(
      check,
      () => {},
      () => {},
    );
    five(ask);
    expect(breaker.isOpen).toBe(true);
    answers[0]!();
    expect([breaker.isOpen, ask()]).toEqual([false, "ok"]);
  });

  it("looks at once when it is told that the store may be back, and only where something failed", () => {
    const { ask, answer, asked, breaker } = behind();
    breaker.look();
    expect(asked).toEqual([]);
    five(ask);
    breaker.look();
    expect(asked).toHaveLength(6);
    answer();
    expect(breaker.isOpen).toBe(false);
    breaker.look();
    expect(asked).toHaveLength(6);
  });

  it("leaves no timer behind when it is stopped", () => {
    const { ask, breaker } = behind();
    five(ask);
    expect(vi.getTimerCount()).toBe(1);
    breaker.stop();
    expect(vi.getTimerCount()).toBe(0);
  });
});
