/** For users' own tests: time that a test moves, a store that fails on command, and what responses say of limits. */
export { type Clock, type Moment, type VirtualClock, virtualClock } from "./clock.ts";
export { expectAdmitted, expectLimited, expectRemaining, expectUnavailable } from "./expect.ts";
export type { AdmittedExpectation, LimitedExpectation, UnavailableExpectation } from "./faults.ts";
export { type MatcherResult, matchers, type RateLimitMatchers } from "./matchers.ts";
export { rateLimitOf, type RateLimitTold, type ToldLimit, type ToldPolicy } from "./rate-limit-of.ts";
export type { AnyResponse, ResponseWithGetter, ResponseWithHeaders } from "./response.ts";
export { type StoreCall, type TestStore, testStore, type TestStoreOptions } from "./store.ts";
