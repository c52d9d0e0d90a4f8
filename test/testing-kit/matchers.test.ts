/** Each assertion both ways, as a function and as a matcher: on responses of real applications. */
import { AssertionError } from "node:assert";
import { type Config, fixedWindow, tokenBucket } from "@tidegate/core";
import {
  type AdmittedExpectation,
  expectAdmitted,
  expectLimited,
  expectRemaining,
  expectUnavailable,
  type LimitedExpectation,
  matchers,
  type RateLimitMatchers,
  testStore,
  type UnavailableExpectation,
} from "@tidegate/core/testing";
import { rateLimit } from "@tidegate/express";
import express from "express";
import request, { type Response } from "supertest";
import { beforeAll, describe, expect, it } from "vitest";

declare module "vitest" {
  // The type parameter has to be there, used or not.
  interface Matchers<T = any> extends RateLimitMatchers {}
}

expect.extend(matchers);

const policies = {
  burst: tokenBucket({ capacity: 2, refillPerSecond: 1 }),
  daily: fixedWindow({ limit: 3, window: "1d" }),
};

function application(config: Config) {
  const store = testStore();
  const app = express();
  app.use(rateLimit({ store, policies, ...config }));
  app.get("/", (_, res) => void res.end());
  const visit = (path = "/") => request(app).get(path);
  return { store, visit };
}

type Name =
  | "passed"
  | "missing"
  | "refused"
  | "refusedByBoth"
  | "never"
  | "silent"
  | "open"
  | "closed"
  | "draft7"
  | "own"
  | "foreign503";

const responses = {} as Record<Name, Response>;

beforeAll(async () => {
  const api = application({});
  responses.passed = await api.visit();
  responses.missing = await api.visit("/nothing");
  responses.refused = await api.visit();
  api.store.clock.advance("1s");
  await api.visit();
  responses.refusedByBoth = await api.visit();

  responses.never = await application({ cost: 3 }).visit();
  const silent = application({ headers: { standard: false, retryAfter: false }, cost: 3 });
  responses.silent = await silent.visit();

  const open = application({});
  open.store.fail("connection");
  responses.open = await open.visit();

  const closed = application({ onFailure: "closed" });
  closed.store.fail("connection");
  responses.closed = await closed.visit();

  const older = application({ headers: { standard: "draft-7" } });
  await older.visit();
  await older.visit();
  responses.draft7 = await older.visit();

  const own = application({ onLimited: () => ({ status: 403 }) });
  await own.visit();
  await own.visit();
  responses.own = await own.visit();

  const app = express();
  app.use(rateLimit({ store: testStore(), policies }));
  app.get("/", (_, res) => void res.status(503).end());
  responses.foreign503 = await request(app).get("/");
});

const POLICIES = '  RateLimit-Policy: "burst";q=2;w=2, "daily";q=3;w=86400';
const PASSED = `The response:
  status 200
${POLICIES}
  RateLimit: "burst";r=1;t=1, "daily";r=2;t=86400`;
const REFUSED = `The response:
  status 429
${POLICIES}
  RateLimit: "burst";r=0;t=1
  Retry-After: 1`;
const NO_COUNT =
  'no count: it never met the limiter, its headers are off, or the store could not be asked and the rule is "open"';

/** An assertion, as a function and as a matcher. */
interface Assertion<E> {
  readonly asFunction: (response: Response, expectation: E) => void;
  readonly asMatcher: (assertion: RateLimitMatchers, expectation: E) => void;
}

const limited: Assertion<LimitedExpectation | undefined> = {
  asFunction: expectLimited,
  asMatcher: (assertion, expectation) => assertion.toBeLimited(expectation),
};
const admitted: Assertion<AdmittedExpectation | undefined> = {
  asFunction: expectAdmitted,
  asMatcher: (assertion, expectation) => assertion.toBeAdmitted(expectation),
};
const remaining: Assertion<[remaining: number | null, policy: string | undefined]> = {
  asFunction: (response, [remaining, policy]) => expectRemaining(response, remaining, policy),
  asMatcher: (assertion, [remaining, policy]) => assertion.toHaveRemaining(remaining, policy),
};
const unavailable: Assertion<UnavailableExpectation | undefined> = {
  asFunction: expectUnavailable,
  asMatcher: (assertion, expectation) => assertion.toBeUnavailable(expectation),
};

function errorOf(act: () => void): AssertionError {
  try {
    act();
  } catch (error) {
    return error as AssertionError;
  }
  throw new Error("it held");
}

/** That it holds, and that `.not` says why it should not have. */
function holds<E>(assertion: Assertion<E>, name: Name, expectation: E, negated: string): void {
  const response = responses[name];
  assertion.asFunction(response, expectation);
  assertion.asMatcher(expect(response), expectation);
  const error = errorOf(() => assertion.asMatcher(expect(response).not, expectation));
  expect(error.message).toMatch(`expected the response not to be ${negated}.\n\nThe response:\n  status `);
}

/** That it fails with these words before the response, and that `.not` holds. */
function fails<E>(assertion: Assertion<E>, name: Name, expectation: E, words: string): AssertionError {
  const response = responses[name];
  const error = errorOf(() => assertion.asFunction(response, expectation));
  expect(error.name).toBe("AssertionError");
  expect(error.code).toBe("ERR_ASSERTION");
  expect(error.message.split("\n\n")[0]).toBe(words);
  const matched = errorOf(() => assertion.asMatcher(expect(response), expectation));
  expect(matched.message).toBe(error.message);
  expect([matched.actual, matched.expected]).toEqual([error.actual, error.expected]);
  assertion.asMatcher(expect(response).not, expectation);
  return error;
}

describe("toBeLimited", () => {
  it.each<[name: Name, expectation: LimitedExpectation | undefined]>([
    ["refused", undefined],
    ["refused", {}],
    ["refused", { retryAfter: 1 }],
    ["refused", { policy: "burst" }],
    ["refused", { policy: ["burst"], retryAfter: 1, status: 429 }],
    ["refusedByBoth", { policy: "daily", retryAfter: 86_399 }],
    ["refusedByBoth", { policy: ["daily", "burst"] }],
    ["never", { retryAfter: null, policy: ["burst"] }],
    ["silent", { retryAfter: null, policy: [] }],
    ["draft7", { retryAfter: 1 }],
    ["own", { status: 403, policy: "burst", retryAfter: 1 }],
  ])("holds for %s and %j", (name, expectation) => {
    holds(limited, name, expectation, "a refusal by a limit");
  });

  it.each<[name: Name, expectation: LimitedExpectation | undefined, words: string]>([
    ["passed", undefined, 'expected a refusal, 429, got 200 with 1 left of "burst", 2 left of "daily".'],
    ["open", undefined, `expected a refusal, 429, got 200 with ${NO_COUNT}.`],
    ["closed", undefined, "expected a refusal, 429, got 503."],
    ["own", undefined, 'expected a refusal, 429, got 403 with 0 left of "burst".'],
    ["refused", { status: 403 }, 'expected a refusal, 403, got 429 with 0 left of "burst".'],
    ["refused", { policy: "daily" }, 'expected a refusal by "daily", got a refusal by "burst".'],
    [
      "refusedByBoth",
      { policy: ["burst"] },
      'expected a refusal by "burst" and no other, got a refusal by "daily", "burst".',
    ],
    ["refused", { policy: [] }, 'expected a refusal that names no policy, got a refusal by "burst".'],
    ["silent", { policy: "burst" }, 'expected a refusal by "burst", got a refusal that names no policy.'],
    ["draft7", { policy: "burst" }, 'expected a refusal by "burst", got a refusal that names no policy.'],
    ["refused", { retryAfter: 60 }, "expected Retry-After: 60, got Retry-After: 1."],
    ["refused", { retryAfter: null }, "expected no Retry-After, got Retry-After: 1."],
    ["never", { retryAfter: 1 }, "expected Retry-After: 1, got none."],
  ])("fails for %s and %j", (name, expectation, words) => {
    fails(limited, name, expectation, words);
  });

  it("shows the response, and the two values for a diff", () => {
    const error = fails(
      limited,
      "refused",
      { retryAfter: 60 },
      "expected Retry-After: 60, got Retry-After: 1.",
    );
    expect(error.message).toBe(`expected Retry-After: 60, got Retry-After: 1.\n\n${REFUSED}`);
    expect([error.actual, error.expected]).toEqual([1, 60]);
    expect(error.operator).toBe("expectLimited");
  });

  it("begins its stack in the test", () => {
    const { stack } = errorOf(() => expectLimited(responses.passed));
    expect(/^ +at .*$/m.exec(stack!)![0]).toContain("matchers.test.ts");
  });
});

describe("toBeAdmitted", () => {
  it.each<[name: Name, expectation: AdmittedExpectation | undefined]>([
    ["passed", undefined],
    ["passed", { remaining: 1 }],
    ["passed", { remaining: 2, policy: "daily", status: 200 }],
    ["missing", undefined],
    ["missing", { status: 404, remaining: 0 }],
    ["open", { remaining: null }],
    ["foreign503", { status: 503, remaining: 1 }],
  ])("holds for %s and %j", (name, expectation) => {
    holds(admitted, name, expectation, "let in by the limiter");
  });

  const LET_IN = "expected the request to be let in, got";
  it.each<[name: Name, expectation: AdmittedExpectation | undefined, words: string]>([
    ["refused", undefined, `${LET_IN} 429: refused by "burst", again in 1 s.`],
    ["never", undefined, `${LET_IN} 429: refused by "burst".`],
    ["silent", undefined, `${LET_IN} 429.`],
    ["closed", undefined, `${LET_IN} 503, again in 5 s.`],
    ["own", undefined, `${LET_IN} 403, again in 1 s.`],
    ["passed", { status: 201 }, "expected status 201, got 200."],
    ["passed", { remaining: 0 }, 'expected 0 left, got 1 left of "burst".'],
    ["open", { remaining: 1 }, `expected 1 left, got ${NO_COUNT}.`],
    [
      "passed",
      { remaining: null },
      'expected no count to be told, got 1 left of "burst", 2 left of "daily".',
    ],
  ])("fails for %s and %j", (name, expectation, words) => {
    fails(admitted, name, expectation, words);
  });

  it("shows the response", () => {
    const error = errorOf(() => expectAdmitted(responses.passed, { remaining: 0 }));
    expect(error.message).toBe(`expected 0 left, got 1 left of "burst".\n\n${PASSED}`);
    expect([error.actual, error.expected]).toEqual([1, 0]);
  });

  it("wants to know how much is to be left of a policy", () => {
    expect(() => expectAdmitted(responses.passed, { policy: "burst" })).toThrow(
      'expectAdmitted.policy: give remaining too: a policy alone says nothing of a response that passed, got "burst".',
    );
  });
});

describe("toHaveRemaining", () => {
  it.each<[name: Name, remaining: number | null, policy: string | undefined, said: string]>([
    ["passed", 1, undefined, "with 1 left"],
    ["passed", 2, "daily", "with 2 left"],
    ["refused", 0, undefined, "with 0 left"],
    ["draft7", 0, undefined, "with 0 left"],
    ["open", null, undefined, "with no count left"],
    ["closed", null, undefined, "with no count left"],
  ])("holds for %s and %j of %s", (name, units, policy, said) => {
    holds(remaining, name, [units, policy], said);
  });

  it.each<[name: Name, remaining: number | null, policy: string | undefined, words: string]>([
    ["passed", 2, undefined, 'expected 2 left, got 1 left of "burst".'],
    ["passed", 1, "daily", 'expected 1 left of "daily", got 2 left of "daily".'],
    [
      "passed",
      1,
      "dayly",
      'expected 1 left of "dayly", got no word of "dayly", 1 left of "burst", 2 left of "daily".',
    ],
    [
      "refused",
      1,
      "daily",
      'expected 1 left of "daily", got no word of "daily", 0 left of "burst": a refusal tells of those that refused.',
    ],
    ["open", 1, undefined, `expected 1 left, got ${NO_COUNT}.`],
    ["open", 1, "burst", `expected 1 left of "burst", got ${NO_COUNT}.`],
    ["passed", null, undefined, 'expected no count to be told, got 1 left of "burst", 2 left of "daily".'],
  ])("fails for %s and %j of %s", (name, units, policy, words) => {
    fails(remaining, name, [units, policy], words);
  });
});

describe("toBeUnavailable", () => {
  it.each<[name: Name, expectation: UnavailableExpectation | undefined]>([
    ["closed", undefined],
    ["closed", { retryAfter: 5, status: 503 }],
  ])("holds for %s and %j", (name, expectation) => {
    holds(unavailable, name, expectation, 'the answer of the rule "closed"');
  });

  const CLOSED = 'expected the answer of the rule "closed", 503, got';
  it.each<[name: Name, expectation: UnavailableExpectation | undefined, words: string]>([
    ["passed", undefined, `${CLOSED} 200.`],
    ["refused", undefined, `${CLOSED} 429.`],
    ["foreign503", undefined, `${CLOSED} 503 with fields that tell of limits, which that rule never writes.`],
    ["closed", { retryAfter: 1 }, "expected Retry-After: 1, got Retry-After: 5."],
    ["closed", { status: 500 }, 'expected the answer of the rule "closed", 500, got 503.'],
  ])("fails for %s and %j", (name, expectation, words) => {
    fails(unavailable, name, expectation, words);
  });
});

describe("a mistake in the test itself fails it", () => {
  it.each([
    ["expectLimited", () => expectLimited(responses.refused, { retryafter: 1 } as object), "retryafter"],
    ["expectAdmitted", () => expectAdmitted(responses.passed, { left: 1 } as object), "left"],
    ["expectUnavailable", () => expectUnavailable(responses.closed, { policy: "x" } as object), "policy"],
  ])("an option of %s that does not exist", (name, act, option) => {
    expect(act).toThrow(
      expect.objectContaining({ code: "TIDEGATE_OPTION_UNKNOWN", option: `${name}.${option}` }),
    );
  });

  it("a response that was not awaited, under .not too", () => {
    const asked = Promise.resolve(responses.passed);
    expect(() => expect(asked).not.toBeLimited()).toThrow("response: this is a promise: await it first");
  });
});

it("a matcher waits for a promise by .resolves", async () => {
  await expect(Promise.resolve(responses.refused)).resolves.toBeLimited({ retryAfter: 1 });
});
