import type { Decision } from "../decision.ts";
import type { HeaderSettings } from "../header-options.ts";
import {
  bindingFirst,
  type Header,
  type Item,
  itemsOf,
  LONGEST_SECONDS,
  type NamedLimit,
  seconds,
  type Told,
  windowSeconds,
} from "./items.ts";
import { legacyFields, unixFields } from "./legacy-headers.ts";

/** Of each form of header: what says how much is left, and is not true of another request. */
const STATE_FIELDS = {
  "draft-11": ["RateLimit"],
  "draft-7": ["RateLimit"],
  "draft-6": ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"],
};
const UNIX_FIELDS = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

/** The fields that tell of one request's state: they go when the response is a redirect. */
export const stateFields = ({ standard, x }: HeaderSettings): string[] => [
  ...(standard ? STATE_FIELDS[standard] : []),
  ...(x ? UNIX_FIELDS : []),
];

/** All fields that a script of another origin may want to read. */
export const exposedFields = (settings: HeaderSettings): string[] => [
  ...stateFields(settings),
  ...(settings.standard ? ["RateLimit-Policy"] : []),
  ...(settings.retryAfter ? ["Retry-After"] : []),
];

/**
 * The fields of a response, out of what all limiters of its request have told; the last one has just decided.
 *
 * @param retryAfter seconds
 * source: draft-ietf-httpapi-ratelimit-headers-11 §3, §4
 */
export function fieldsOf(
  told: readonly Told[],
  settings: HeaderSettings,
  retryAfter: number | undefined,
): Header[] {
  const { decision } = told.at(-1)!;
  const headers: Header[] = [];
  const closed = decision.degraded?.rule === "closed";
  if (closed) clear(headers, told, settings);
  else {
    if (settings.standard === "draft-11") draft11Fields(headers, told);
    if (settings.standard === "draft-7" || settings.standard === "draft-6" || settings.x) {
      const items = itemsOf(told);
      const state = decision.blocked ? [] : bindingFirst(items, decision);
      if (settings.standard) legacyFields(headers, settings.standard, items, state, decision, retryAfter);
      if (settings.x) unixFields(headers, state, decision, retryAfter);
    }
  }
  if (retryAfter !== undefined && settings.retryAfter) headers.push(["Retry-After", String(retryAfter)]);
  return headers;
}

/** Nothing is known of any quota, so nothing that an earlier limiter said of one may stand. */
function clear(headers: Header[], told: readonly Told[], settings: HeaderSettings): void {
  if (told.length < 2) return;
  if (settings.standard) headers.push(["RateLimit-Policy", undefined]);
  for (const name of stateFields(settings)) headers.push([name, undefined]);
}

function draft11Fields(headers: Header[], told: readonly Told[]): void {
  const last = told.at(-1)!;
  const { decision } = last;
  const items = itemsOf(told);
  if (items.length === 0) return;
  const fixed = told.length === 1 ? last.policyField : undefined;
  headers.push(["RateLimit-Policy", fixed ?? policyField(items)]);
  if (decision.blocked) {
    if (told.length > 1) headers.push(["RateLimit", undefined]);
    return;
  }
  const state = bindingFirst(items, decision);
  if (state.length > 0) headers.push(["RateLimit", limitField(state)]);
}

/** `RateLimit-Policy` for limits that every request meets. */
export const fixedPolicyField = (limits: readonly NamedLimit[]): string =>
  policyField(limits.map((limit) => ({ ...limit, partition: undefined })));

function policyField(items: readonly Pick<Item, keyof NamedLimit | "partition">[]): string {
  return items
    .map(({ name, limit, windowMs, unit, partition }) => {
      const counted = unit === "requests" ? "" : `;qu="${unit}"`;
      const window = windowMs === undefined ? "" : `;w=${windowSeconds(windowMs)}`;
      return `"${name}";q=${limit}${counted}${window}${partitionText(partition)}`;
    })
    .join(", ");
}

function limitField(items: readonly Item[]): string {
  return items
    .map(({ name, verdict, t, partition }) => {
      const window = t === undefined ? "" : `;t=${t}`;
      return `"${name}";r=${verdict!.remaining}${window}${partitionText(partition)}`;
    })
    .join(", ");
}

const partitionText = (partition: string | undefined): string =>
  partition === undefined ? "" : `;pk=:${partition}:`;

/**
 * Seconds of Retry-After for a refusal, 1 or more; `undefined` when no wait helps. Nobody knows when
 * a slot in flight comes free: then it is the configuration's guess.
 */
export function retryAfter(
  { retryAfterMs, verdicts, degraded }: Decision,
  { concurrencySeconds, closedSeconds, jitterSeconds }: HeaderSettings,
): number | undefined {
  if (degraded?.rule === "closed") return closedSeconds;
  const refusing = verdicts.filter(({ allowed, shadow }) => !allowed && !shadow);
  let wait = retryAfterMs === null ? undefined : seconds(retryAfterMs);
  if (wait === undefined) {
    if (refusing.length === 0) return undefined;
    if (refusing.some(({ nextMs, reason }) => nextMs === null && reason !== "concurrency")) return undefined;
    wait = Math.max(
      ...refusing.map(({ nextMs }) => (nextMs === null ? concurrencySeconds : seconds(nextMs))),
    );
  }
  const jitter = jitterSeconds === 0 ? 0 : Math.floor(Math.random() * (jitterSeconds + 1));
  return Math.min(Math.max(1, wait) + jitter, LONGEST_SECONDS);
}
