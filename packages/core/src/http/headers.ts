import type { NamedLimit } from "./guard.ts";
import type { Decision, Verdict } from "../decision.ts";

/** The most that Retry-After and `t` say: beyond, `setTimeout` of many clients overflows and fires at once. */
const LONGEST_SECONDS = 2_147_483;

/** Whole seconds, rounded up: who waits that long is let in. */
const seconds = (ms: number): number => Math.ceil(ms / 1000);

/**
 * Every policy, in the order of the configuration; the same on every response.
 * source: draft-ietf-httpapi-ratelimit-headers-11 §3
 */
export function policyField(limits: readonly NamedLimit[]): string {
  return limits
    .map(({ name, limit, windowMs, unit }) => {
      const counted = unit === "requests" ? "" : `;qu="${unit}"`;
      return `"${name}";q=${limit}${counted}${windowMs === undefined ? "" : `;w=${windowSeconds(windowMs)}`}`;
    })
    .join(", ");
}

/** Rounded up, and at least 1: fewer seconds would promise a higher rate than there is. */
const windowSeconds = (windowMs: number): number => Math.max(1, seconds(windowMs));

/**
 * The state of the policies that `limits` names: of all when the request passed, of those that refused it otherwise.
 * The one that binds first comes first, for clients that read one.
 * `limits` and `costs`: of the policies that are shown, in their order.
 * source: draft-ietf-httpapi-ratelimit-headers-11 §4
 */
export function limitField(
  decision: Decision,
  limits: readonly NamedLimit[],
  costs: readonly number[],
): string {
  const items = decision.verdicts
    .filter(({ shadow }) => !shadow)
    .map((verdict, i) => ({
      verdict,
      t: effectiveWindow(verdict, limits[i]!),
      bound: Math.floor(verdict.remaining / (costs[i] || 1)),
    }))
    .filter(({ verdict }) => decision.allowed || !verdict.allowed);
  // The sort is stable: where all else is equal, the order of the configuration stands.
  items.sort((a, b) => a.bound - b.bound || (b.t ?? Infinity) - (a.t ?? Infinity));
  return items
    .map(
      ({ verdict: { policy, remaining }, t }) =>
        `"${policy}";r=${remaining}${t === undefined ? "" : `;t=${t}`}`,
    )
    .join(", ");
}

/**
 * Seconds within which the client can use no more than what remains; `undefined` when no wait helps.
 * Where units come back one by one, remaining / t never exceeds limit / window.
 */
function effectiveWindow(
  { remaining, limit, nextMs, allowed }: Verdict,
  { windowMs, rolling }: NamedLimit,
): number | undefined {
  if (nextMs === null) return undefined;
  const next = seconds(nextMs);
  if (!allowed || remaining === 0) return Math.min(next, LONGEST_SECONDS);
  if (windowMs === undefined) return undefined;
  const whole = windowSeconds(windowMs);
  if (!rolling) return Math.min(next || whole, LONGEST_SECONDS);
  return Math.min(Math.max(next, Math.ceil((remaining * whole) / limit)), LONGEST_SECONDS);
}

/**
 * Seconds of Retry-After for a refusal, 1 or more; `undefined` when no wait helps. Nobody knows when
 * a slot in flight comes free: then it is 1.
 */
export function retryAfter({ retryAfterMs, verdicts }: Decision): number | undefined {
  if (retryAfterMs !== null) return Math.min(Math.max(1, seconds(retryAfterMs)), LONGEST_SECONDS);
  const waits = verdicts.filter(({ allowed, shadow }) => !allowed && !shadow);
  if (waits.some(({ nextMs, reason }) => nextMs === null && reason !== "concurrency")) return undefined;
  return Math.min(Math.max(1, ...waits.map(({ nextMs }) => seconds(nextMs ?? 0))), LONGEST_SECONDS);
}
