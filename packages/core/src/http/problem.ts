import type { Decision } from "../decision.ts";

export const PROBLEM_TYPE = "application/problem+json";

const TYPES = "https://iana.org/assignments/http-problem-types#";

/**
 * The body of a refusal.
 * source: RFC 9457; draft-ietf-httpapi-ratelimit-headers-11 §5
 */
export function quotaExceeded({ verdicts }: Decision): string {
  return JSON.stringify({
    type: `${TYPES}quota-exceeded`,
    title: "Quota Exceeded",
    status: 429,
    "violated-policies": verdicts
      .filter(({ allowed, shadow }) => !allowed && !shadow)
      .map(({ policy }) => policy),
  });
}

/** The body when nothing is known of the client's quota, and the rule is to let nobody pass. */
export const REDUCED_CAPACITY = JSON.stringify({
  type: `${TYPES}temporary-reduced-capacity`,
  title: "Temporary Reduced Capacity",
  status: 503,
});

/** The body for an identity that is blocked. No policy was violated, so none is named. */
export const ABNORMAL_USAGE = JSON.stringify({
  type: `${TYPES}abnormal-usage-detected`,
  title: "Abnormal Usage Detected",
  status: 429,
});
