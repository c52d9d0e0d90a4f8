import type { Decision, Verdict } from "../decision.ts";
import { freeName } from "../names.ts";

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
  const names = told.length === 1 ? undefined : new Set<string>();
  for (const { decision, limits, costs, partitions } of told) {
    const verdicts = shownOf(decision);
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i]!;
      // Where this process's own policies refuse, nothing is known of the others.
      const verdict =
        verdicts.length === limits.length
          ? verdicts[i]
          : verdicts.find(({ policy }) => policy === limit.name);
      // Field by field: it is written for every response, and a spread costs fifty times as much.
      items.push({
        // Two limiters may have given one name: a field names each policy once.
        name: names ? freeName(limit.name, names) : limit.name,
        limit: limit.limit,
        windowMs: limit.windowMs,
        rolling: limit.rolling,
        unit: limit.unit,
        partition: partitions?.[i],
        verdict,
        bound: verdict ? Math.floor(verdict.remaining / (costs[i] || 1)) : 0,
        t: verdict && effectiveWindow(verdict, limit),
      });
    }
  }
  return items;
}

/** Verdicts that are shown: those on trial are not. */
function shownOf({ verdicts }: Decision): readonly Verdict[] {
  return verdicts.some(({ shadow }) => shadow) ? verdicts.filter(({ shadow }) => !shadow) : verdicts;
}

/**
 * The state of all policies when the request passed, of those that refused it otherwise. The one that binds first
 * comes first, for clients that read one.
 */
export function bindingFirst(items: readonly Item[], { allowed }: Decision): Item[] {
  const state = items.filter(({ verdict }) => verdict && (allowed || !verdict.allowed));
  if (state.length < 2) return state;
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

/** The policies that refused, by the names that fields give them, in the order of the configuration. */
export function violatedIn(told: readonly Told[]): string[] {
  const items = itemsOf(told);
  const ofLast = items.slice(items.length - told.at(-1)!.limits.length);
  return ofLast.filter(({ verdict }) => verdict && !verdict.allowed).map(({ name }) => name);
}
