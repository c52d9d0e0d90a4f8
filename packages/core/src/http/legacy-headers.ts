import type { Decision } from "../decision.ts";
import { type Header, type Item, seconds, windowSeconds } from "./items.ts";

/** Earlier drafts know requests per window, and nothing else. */
const isPlain = ({ unit, windowMs }: Item): boolean => unit === "requests" && windowMs !== undefined;

/**
 * `RateLimit-Policy` and the state of the one policy that binds, as drafts 6 and 7 write them.
 *
 * @param items every policy, in order
 * @param state those whose state is told, the one that binds in front
 * source: draft-ietf-httpapi-ratelimit-headers-06 §3, -07 §3
 */
export function legacyFields(
  headers: Header[],
  standard: "draft-11" | "draft-7" | "draft-6",
  items: readonly Item[],
  state: readonly Item[],
  decision: Decision,
  retryAfter: number | undefined,
): void {
  if (standard === "draft-11") return;
  const plain = items.filter(isPlain);
  if (plain.length > 0) headers.push(["RateLimit-Policy", policyField(plain, state)]);
  const told = stateOf(state, decision, retryAfter);
  if (!told) return;
  const { limit, remaining } = told;
  const reset = Math.ceil(told.resetMs / 1000);
  if (standard === "draft-7") {
    headers.push(["RateLimit", `limit=${limit}, remaining=${remaining}, reset=${reset}`]);
    return;
  }
  headers.push(["RateLimit-Limit", String(limit)]);
  headers.push(["RateLimit-Remaining", String(remaining)]);
  headers.push(["RateLimit-Reset", String(reset)]);
}

/** `X-RateLimit-*`, with the moment of the reset in seconds since 1970, by the store's clock. */
export function unixFields(
  headers: Header[],
  state: readonly Item[],
  decision: Decision,
  retryAfter: number | undefined,
): void {
  const told = stateOf(state, decision, retryAfter);
  if (!told) return;
  headers.push(["X-RateLimit-Limit", String(told.limit)]);
  headers.push(["X-RateLimit-Remaining", String(told.remaining)]);
  headers.push(["X-RateLimit-Reset", String(seconds(decision.at + told.resetMs))]);
}

/** Two policies of one quota may not stand together: then the one that binds does. source: draft-06 §3.1 */
function policyField(plain: readonly Item[], state: readonly Item[]): string {
  const rank = (item: Item) => (state.includes(item) ? state.indexOf(item) : state.length);
  const shown = plain.filter(
    (item, i) =>
      !plain.some(
        (other, j) =>
          other !== item &&
          other.limit === item.limit &&
          (rank(other) < rank(item) || (rank(other) === rank(item) && j < i)),
      ),
  );
  return shown.map(({ limit, windowMs }) => `${limit};w=${windowSeconds(windowMs!)}`).join(", ");
}

function stateOf(
  state: readonly Item[],
  { allowed }: Decision,
  retryAfter: number | undefined,
): { limit: number; remaining: number; resetMs: number } | undefined {
  const binding = state.find(isPlain);
  if (!binding) return undefined;
  const { limit, verdict } = binding;
  const { remaining, nextMs, fullMs } = verdict!;
  if (!allowed) {
    return { limit, remaining: 0, resetMs: retryAfter === undefined ? fullMs : retryAfter * 1000 };
  }
  return { limit, remaining, resetMs: remaining >= 1 ? fullMs : (nextMs ?? fullMs) };
}
