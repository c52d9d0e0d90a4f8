import type { Algorithm } from "./algorithms/algorithm.ts";
import type { Policy } from "./algorithms/policy.ts";
import type { Charge, Decision, Verdict } from "./decision.ts";
import type { Identity } from "./identity/identity.ts";
import { listOf } from "./lists.ts";
import { OwnReceipt } from "./receipt.ts";
import type { Check, Outcome } from "./stores/store.ts";

/** One policy as it stands for one request. */
export interface Part {
  readonly name: string;
  /** What stands for the policy in keys. */
  readonly segment: string;
  readonly policy: Policy;
  readonly identity: Identity;
  readonly cost: number;
  /** Whether that is the policy's own cost, whatever the request's is. */
  readonly ownCost: boolean;
  /** Whether the request chose the policy's numbers. */
  readonly varies?: boolean;
}

/** The decision that raw state means. `cost`: what the request asked where a policy has no cost of its own. */
export function explain(parts: readonly Part[], cost: number, check: Check, outcome: Outcome): Decision {
  const { granted, words, blockedUs } = outcome;
  if (blockedUs !== undefined) return blockedDecision(parts, cost, blockedUs, outcome.now);
  const verdicts = listOf<Verdict>(outcome.places?.length ?? parts.length);
  let charges: Charge[] | undefined;
  let told = 0;
  let at = 0;
  for (let i = 0; i < parts.length; i++) {
    if (outcome.places && !outcome.places.includes(i)) continue;
    const { name, policy, cost } = parts[i]!;
    const { limit, mode } = policy;
    const algorithm: Algorithm<unknown> = policy.algorithm;
    // A shard has numbers of its own.
    const { numbers } = check.policies[i]!;
    const now = outcome.nows?.[i] ?? outcome.now;
    const shadow = mode === "shadow";
    const charged = granted && (!shadow || words[at + algorithm.words] === 1);
    const { remaining, nextMs, fullMs, reason } = algorithm.explain(numbers, words, at, now, cost, charged);
    verdicts[told++] = {
      policy: name,
      allowed: reason === "ok",
      limit,
      remaining,
      nextMs,
      fullMs,
      reason,
      shadow,
    };
    if (charged && cost > 0) {
      const mark = algorithm.mark(numbers, words, at, now, cost);
      const charge = { policy: name, key: check.keys[i]!, units: cost, mark };
      if (charges) charges.push(charge);
      else charges = [charge];
    }
    at += algorithm.words + (shadow ? 1 : 0);
  }
  const receipt =
    charges && !check.peek && !outcome.replayed
      ? new OwnReceipt(outcome.now, charges, check.lease)
      : undefined;
  return {
    allowed: granted,
    at: outcome.now / 1000,
    cost,
    verdicts,
    retryAfterMs: granted ? 0 : longestWait(verdicts),
    degraded: undefined,
    blocked: false,
    replayed: outcome.replayed,
    cached: outcome.cached ?? false,
    receipt,
  };
}

/** The longest wait of the policies that refused; `null` when one of them knows none. */
function longestWait(verdicts: readonly Verdict[]): number | null {
  let longest: number | null = 0;
  for (const { allowed, shadow, nextMs } of verdicts) {
    if (allowed || shadow || longest === null) continue;
    longest = nextMs === null ? null : Math.max(longest, nextMs);
  }
  return longest;
}

/**
 * The decision about an identity that is blocked, whatever its limits.
 *
 * @param blockedUs what is left of the block, µs, or `Infinity`
 * @param now µs
 */
export function blockedDecision(
  parts: readonly Pick<Part, "name" | "policy">[],
  cost: number,
  blockedUs: number,
  now: number,
): Decision {
  const nextMs = blockedUs === Infinity ? null : Math.ceil(blockedUs / 1000);
  return {
    allowed: false,
    at: now / 1000,
    cost,
    verdicts: parts.map(({ name, policy: { limit, mode } }) => ({
      policy: name,
      allowed: false,
      limit,
      remaining: 0,
      nextMs,
      fullMs: nextMs ?? 0,
      reason: "blocked",
      shadow: mode === "shadow",
    })),
    retryAfterMs: nextMs,
    degraded: undefined,
    blocked: true,
    replayed: false,
    cached: false,
    receipt: undefined,
  };
}
