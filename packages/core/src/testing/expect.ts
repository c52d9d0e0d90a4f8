import { AssertionError } from "node:assert";
import {
  admittedFault,
  type AdmittedExpectation,
  type Fault,
  limitedFault,
  type LimitedExpectation,
  remainingFault,
  unavailableFault,
  type UnavailableExpectation,
} from "./faults.ts";
import type { AnyResponse } from "./response.ts";

/**
 * Asserts that a response is a refusal by a limit.
 *
 * @throws AssertionError (`ERR_ASSERTION`) that says what the response told
 * @throws ConfigError `TIDEGATE_OPTION_INVALID` or `TIDEGATE_OPTION_UNKNOWN` for what is no response or no expectation
 */
export function expectLimited(response: AnyResponse, expectation?: LimitedExpectation): void {
  assertNone(limitedFault(response, expectation), expectLimited);
}

/**
 * Asserts that the limiter let a request pass, whatever the application answered to it.
 *
 * @throws AssertionError (`ERR_ASSERTION`) that says what the response told
 * @throws ConfigError `TIDEGATE_OPTION_INVALID` or `TIDEGATE_OPTION_UNKNOWN` for what is no response or no expectation
 */
export function expectAdmitted(response: AnyResponse, expectation?: AdmittedExpectation): void {
  assertNone(admittedFault(response, expectation), expectAdmitted);
}

/**
 * Asserts that a response tells of so many units left.
 *
 * @param remaining units; `null`: it tells of no count
 * @param policy by default the first of `RateLimit`: the one that binds first
 * @throws AssertionError (`ERR_ASSERTION`) that says what the response told
 * @throws ConfigError `TIDEGATE_OPTION_INVALID` for what is no response
 */
export function expectRemaining(response: AnyResponse, remaining: number | null, policy?: string): void {
  assertNone(remainingFault(response, remaining, policy), expectRemaining);
}

/**
 * Asserts that a response is the one of the failure rule `"closed"`: the store could not be asked.
 *
 * @throws AssertionError (`ERR_ASSERTION`) that says what the response told
 * @throws ConfigError `TIDEGATE_OPTION_INVALID` or `TIDEGATE_OPTION_UNKNOWN` for what is no response or no expectation
 */
export function expectUnavailable(response: AnyResponse, expectation?: UnavailableExpectation): void {
  assertNone(unavailableFault(response, expectation), expectUnavailable);
}

/** @param asserter left out of the stack, which then begins in the test */
function assertNone(fault: Fault | undefined, asserter: (...given: never[]) => void): void {
  if (fault) throw new AssertionError({ ...fault, operator: asserter.name, stackStartFn: asserter });
}
