import {
  admittedFault,
  type AdmittedExpectation,
  type Fault,
  limitedFault,
  type LimitedExpectation,
  remainingFault,
  textOf,
  unavailableFault,
  type UnavailableExpectation,
} from "./faults.ts";
import type { AnyResponse } from "./response.ts";

/** What a matcher tells vitest and jest. */
export interface MatcherResult {
  /** Whether the response is as it should be. */
  readonly pass: boolean;
  /** What the runner says when the assertion fails. */
  readonly message: () => string;
  /** What was found, for the runner to show the difference. */
  readonly actual?: unknown;
  /** What was expected. */
  readonly expected?: unknown;
}

/**
 * The matchers as `expect` has them, for a declaration of one's own: `interface Matchers<T> extends RateLimitMatchers {}`
 * in `declare module "vitest"`.
 *
 * @typeParam R what an assertion returns
 */
export interface RateLimitMatchers<R = void> {
  /** The response is a refusal by a limit. */
  toBeLimited(expectation?: LimitedExpectation): R;
  /** The limiter let the request pass, whatever the application answered to it. */
  toBeAdmitted(expectation?: AdmittedExpectation): R;
  /** The response tells of so many units left; `null`: of no count. Of the policy that binds first, or of `policy`. */
  toHaveRemaining(remaining: number | null, policy?: string): R;
  /** The response is the one of the failure rule `"closed"`. */
  toBeUnavailable(expectation?: UnavailableExpectation): R;
}

/** For `expect.extend(matchers)` of vitest and jest. */
export const matchers = {
  toBeLimited: (response: AnyResponse, expectation?: LimitedExpectation): MatcherResult =>
    resultOf(response, limitedFault(response, expectation), "a refusal by a limit"),
  toBeAdmitted: (response: AnyResponse, expectation?: AdmittedExpectation): MatcherResult =>
    resultOf(response, admittedFault(response, expectation), "let in by the limiter"),
  toHaveRemaining: (response: AnyResponse, remaining: number | null, policy?: string): MatcherResult =>
    resultOf(response, remainingFault(response, remaining, policy), `with ${remaining ?? "no count"} left`),
  toBeUnavailable: (response: AnyResponse, expectation?: UnavailableExpectation): MatcherResult =>
    resultOf(response, unavailableFault(response, expectation), 'the answer of the rule "closed"'),
};

/** @param what the response is when nothing is wrong, for the message of `.not` */
function resultOf(response: AnyResponse, fault: Fault | undefined, what: string): MatcherResult {
  if (fault) return { pass: false, ...fault, message: () => fault.message };
  return { pass: true, message: () => `expected the response not to be ${what}.\n\n${textOf(response)}` };
}
