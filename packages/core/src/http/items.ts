import type { Decision, Verdict } from "../decision.ts";

/** What headers tell of a policy. */
export interface NamedLimit {
  readonly name: string;
  readonly limit: number;
  /** `undefined`: there is no window. */
  readonly windowMs: number | undefined;
  readonly rolling: boolean;
  readonly unit: "requests" | "content-bytes" | "concurrent-requests";
}

/** What one limiter has to tell of a request. Policies on trial are not in it. */
export interface Told {
  readonly decision: Decision;
  readonly limits: readonly NamedLimit[];
  /** Units asked of each. */
  readonly costs: readonly number[];
  /** The partition key of each, in base64; `undefined` where they are not shown. */
  readonly partitions: readonly (string | undefined)[] | undefined;
  /** `RateLimit-Policy` for these alone, where it is the same for every request. */
  readonly policyField: string | undefined;
}

/** A field; `undefined` takes away what an earlier limiter of this request has set. */
export type Header = readonly [name: string, value: string | undefined];

/** One policy as fields tell of it. */
export interface Item extends NamedLimit {
  readonly partition: string | undefined;
  /** `undefined`: nothing is known of its state. */
  readonly verdict: Verdict | undefined;
  /** How many more requests of this cost fit. */
  readonly bound: number;
  /** Seconds. */
  readonly t: number | undefined;
}

/** The most that Retry-After and `t` say: beyond, `setTimeout` of many clients overflows and fires at once. */
export const LONGEST_SECONDS = 2_147_483;

/** Whole seconds, rounded up: who waits that long is let in. */
export const seconds = (ms: number): number => Math.ceil(ms / 1000);

/** Every policy that was asked about this request, in the order of the configurations. */
export function itemsOf(told: readonly Told[]): Item[] {
  const items: Item[] = [];
  const names = new Set<string>();
  for (const { decision, limits, costs, partitions } of told) {
    const verdicts = decision.verdicts.some(({ shadow }) => shadow)
      ? decision.verdicts.filter(({ shadow }) => !shadow)
      : decision.verdicts;
    for (const [i, limit] of limits.entries()) {
      const verdict = verdicts[i];
      items.push({
        ...limit,
        name: told.length === 1 ? limit.name : ownName(limit.name, names),
        partition: partitions?.[i],
        verdict,
        bound: verdict ? Math.floor(verdict.remaining / (costs[i] || 1)) : 0,
        t: verdict && effectiveWindow(verdict, limit),
      });
    }
  }
  return items;
}

/** Two limiters may have given one name: a field names each policy once. */
function ownName(name: string, names: Set<string>): string {
  let own = name;
  for (let i = 2; names.has(own.toLowerCase()); i++) own = `${name}-${i}`;
  names.add(own.toLowerCase());
  return own;
}

/**
 * The state of all policies when the request passed, of those that refused it otherwise. The one that binds first
 * comes first, for clients that read one.
 */
export function bindingFirst(items: readonly Item[], { allowed }: Decision): Item[] {
  const state = items.filter(({ verdict }) => verdict && (allowed || !verdict.allowed));
  // The sort is stable: where all else is equal, the order of the configuration stands.
  return state.sort((a, b) => a.bound - b.bound || (b.t ?? Infinity) - (a.t ?? Infinity));
}

/** Rounded up, and at least 1: fewer seconds would promise a higher rate than there is. */
export const windowSeconds = (windowMs: number): number => Math.max(1, seconds(windowMs));

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
