import type { Decision } from "../decision.ts";
import type { StoreErrorClass } from "../errors.ts";

/**
 * What answers when the store cannot:
 * - `open`: the request passes
 * - `closed`: it does not, and HTTP says 503
 */
export type FailureRule = "open" | "closed";

/** The failure rule's answer. It knows nothing of counts, and invents none. */
export const degradedDecision = (rule: FailureRule, reason: StoreErrorClass, cost: number): Decision => ({
  allowed: rule === "open",
  at: Date.now(),
  cost,
  verdicts: [],
  retryAfterMs: rule === "open" ? 0 : null,
  degraded: { rule, reason },
  blocked: false,
  replayed: false,
  receipt: undefined,
});
