import { ConfigError, show } from "../errors.ts";
import { onlyKnown } from "../options.ts";
import { type RateLimitTold, toldBy } from "./rate-limit-of.ts";
import { type AnyResponse, type Read, readResponse } from "./response.ts";

/** What a refusal by a limit is held to. What is left out is not looked at. */
export interface LimitedExpectation {
  /** 429 by default. Give another where `onLimited` answers by another. */
  status?: number;
  /** `Retry-After`, seconds; `null`: there is none, as no wait would help. */
  retryAfter?: number | null;
  /** A policy that refused; or a list: these refused, in any order, and no others. Draft-11 only: other forms name none. */
  policy?: string | readonly string[];
}

/** What a response that passed the limiter is held to. What is left out is not looked at. */
export interface AdmittedExpectation {
  /** Any but 429 and 503 by default. */
  status?: number;
  /** Units left; `null`: the response tells of no count, as under the failure rule `"open"`. */
  remaining?: number | null;
  /** Of which policy `remaining` is. By default the first of `RateLimit`: the one that binds first. */
  policy?: string;
}

/** What the answer of the failure rule `"closed"` is held to. What is left out is not looked at. */
export interface UnavailableExpectation {
  /** 503 by default. Give another where `onLimited` answers by another. */
  status?: number;
  /** `Retry-After`, seconds. */
  retryAfter?: number;
}

/** Why a response is not as it should be. */
export interface Fault {
  readonly message: string;
  readonly actual: unknown;
  readonly expected: unknown;
}

/** What is wrong with a refusal; `undefined`: nothing. */
export function limitedFault(response: AnyResponse, expectation: LimitedExpectation = {}): Fault | undefined {
  onlyKnown("expectLimited", expectation, ["status", "retryAfter", "policy"]);
  const { status = 429, retryAfter, policy } = expectation;
  const seen = look(response);
  if (seen.told.status !== status)
    return fault(seen, `a refusal, ${status}`, `${seen.told.status}${whatIsLeft(seen.told)}`, [
      seen.told.status,
      status,
    ]);
  return (
    (policy === undefined ? undefined : policyFault(seen, policy)) ??
    (retryAfter === undefined ? undefined : retryAfterFault(seen, retryAfter))
  );
}

/** What is wrong with a response that passed; `undefined`: nothing. */
export function admittedFault(
  response: AnyResponse,
  expectation: AdmittedExpectation = {},
): Fault | undefined {
  onlyKnown("expectAdmitted", expectation, ["status", "remaining", "policy"]);
  const { status, remaining, policy } = expectation;
  if (policy !== undefined && remaining === undefined) {
    const advice = "give remaining too: a policy alone says nothing of a response that passed";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "expectAdmitted.policy", policy, advice);
  }
  const seen = look(response);
  const got = seen.told.status;
  if (status !== undefined && got !== status)
    return fault(seen, `status ${status}`, `${got}${whyRefused(seen.told)}`, [got, status]);
  if (status === undefined && isRefusal(seen.told))
    return fault(seen, "the request to be let in", `${got}${whyRefused(seen.told)}`, [got, undefined]);
  return remaining === undefined ? undefined : leftFault(seen, remaining, policy);
}

/** What is wrong with what a response says is left; `undefined`: nothing. */
export function remainingFault(
  response: AnyResponse,
  remaining: number | null,
  policy?: string,
): Fault | undefined {
  return leftFault(look(response), remaining, policy);
}

/** What is wrong with the answer of a limiter whose store is away; `undefined`: nothing. */
export function unavailableFault(
  response: AnyResponse,
  expectation: UnavailableExpectation = {},
): Fault | undefined {
  onlyKnown("expectUnavailable", expectation, ["status", "retryAfter"]);
  const { status = 503, retryAfter } = expectation;
  const seen = look(response);
  const { told } = seen;
  const wanted = `the answer of the rule "closed", ${status}`;
  if (told.status !== status) return fault(seen, wanted, String(told.status), [told.status, status]);
  if (told.policies.length + told.limits.length > 0)
    return fault(seen, wanted, `${status} with fields that tell of limits, which that rule never writes`, [
      told.policies,
      [],
    ]);
  return retryAfter === undefined ? undefined : retryAfterFault(seen, retryAfter);
}

/** The response in a few lines, for messages. */
export const textOf = (response: AnyResponse): string => look(response).text;

interface Seen {
  readonly told: RateLimitTold;
  readonly text: string;
}

const SHOWN = [
  "RateLimit-Policy",
  "RateLimit",
  ...["RateLimit", "X-RateLimit"].flatMap((name) => [`${name}-Limit`, `${name}-Remaining`, `${name}-Reset`]),
  "Retry-After",
];

function look(response: AnyResponse): Seen {
  const read = readResponse(response);
  return { told: toldBy(read), text: linesOf(read).join("\n  ") };
}

function linesOf({ status, field }: Read): string[] {
  const fields = SHOWN.flatMap((name) => {
    const value = field(name);
    return value === undefined ? [] : [`${name}: ${value}`];
  });
  return ["The response:", `status ${status}`, ...(fields.length > 0 ? fields : ["no fields of a limiter"])];
}

const fault = (
  { text }: Seen,
  wanted: string,
  got: string,
  [actual, expected]: readonly [unknown, unknown],
): Fault => ({ message: `expected ${wanted}, got ${got}.\n\n${text}`, actual, expected });

/** 429; or what Retry-After tells apart from an answer of the application's own. */
const isRefusal = ({ status, retryAfter }: RateLimitTold): boolean =>
  status === 429 || status === 503 || (status >= 400 && retryAfter !== undefined);

function policyFault(seen: Seen, policy: string | readonly string[]): Fault | undefined {
  const refused = seen.told.limits.flatMap(({ name }) => name ?? []);
  const got = refused.length === 0 ? "a refusal that names no policy" : `a refusal by ${quoted(refused)}`;
  if (typeof policy === "string") {
    if (refused.includes(policy)) return undefined;
    return fault(seen, `a refusal by "${policy}"`, got, [refused, [policy]]);
  }
  const wanted = [...policy].sort();
  if (wanted.join("\n") === [...refused].sort().join("\n")) return undefined;
  const by = wanted.length === 0 ? "that names no policy" : `by ${quoted(wanted)} and no other`;
  return fault(seen, `a refusal ${by}`, got, [[...refused].sort(), wanted]);
}

function retryAfterFault(seen: Seen, wanted: number | null): Fault | undefined {
  const { retryAfter } = seen.told;
  if ((retryAfter ?? null) === wanted) return undefined;
  const told = retryAfter === undefined ? "none" : `Retry-After: ${retryAfter}`;
  const what = wanted === null ? "no Retry-After" : `Retry-After: ${show(wanted)}`;
  return fault(seen, what, told, [retryAfter, wanted ?? undefined]);
}

function leftFault(seen: Seen, wanted: number | null, policy: string | undefined): Fault | undefined {
  const { limits } = seen.told;
  if (wanted === null) {
    if (limits.length === 0) return undefined;
    return fault(seen, "no count to be told", leftText(limits), [limits, []]);
  }
  const found = policy === undefined ? limits[0] : limits.find(({ name }) => name === policy);
  if (found?.remaining === wanted) return undefined;
  const what = `${show(wanted)} left${policy === undefined ? "" : ` of "${policy}"`}`;
  const got = found ? leftText([found]) : whyUntold(seen.told, policy);
  return fault(seen, what, got, [found?.remaining, wanted]);
}

function whyUntold({ limits, policies }: RateLimitTold, policy: string | undefined): string {
  if (limits.length === 0) return NO_COUNT;
  const why = policies.some(({ name }) => name === policy) ? ": a refusal tells of those that refused" : "";
  return `no word of "${policy}", ${leftText(limits)}${why}`;
}

const NO_COUNT =
  'no count: it never met the limiter, its headers are off, or the store could not be asked and the rule is "open"';

/** What a response that should have been refused says is left. */
function whatIsLeft({ limits, policies }: RateLimitTold): string {
  if (limits.length > 0) return ` with ${leftText(limits)}`;
  return policies.length > 0 ? ` with ${NO_COUNT}` : "";
}

function whyRefused({ status, limits, retryAfter }: RateLimitTold): string {
  const names = limits.flatMap(({ name }) => name ?? []);
  const by = status === 429 && names.length > 0 ? `: refused by ${quoted(names)}` : "";
  return `${by}${retryAfter === undefined ? "" : `, again in ${retryAfter} s`}`;
}

const leftText = (limits: RateLimitTold["limits"]): string =>
  limits
    .map(({ name, remaining }) => `${remaining} left${name === undefined ? "" : ` of "${name}"`}`)
    .join(", ");

const quoted = (names: readonly string[]): string => names.map((name) => `"${name}"`).join(", ");
