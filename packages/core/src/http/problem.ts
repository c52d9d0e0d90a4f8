import type { Answer, Refusal } from "../config.ts";

const PROBLEM_TYPE = "application/problem+json";

const TYPES = "https://iana.org/assignments/http-problem-types#";

/**
 * What each kind of refusal is, unless somebody says otherwise.
 * source: draft-ietf-httpapi-ratelimit-headers-11 §5
 */
const PROBLEMS = {
  limit: { type: `${TYPES}quota-exceeded`, title: "Quota Exceeded" },
  blocked: { type: `${TYPES}abnormal-usage-detected`, title: "Abnormal Usage Detected" },
  closed: { type: `${TYPES}temporary-reduced-capacity`, title: "Temporary Reduced Capacity" },
} as const;

export interface Body {
  readonly status: number;
  readonly contentType: string;
  readonly text: string;
}

/**
 * The answer to a refusal: a problem, or what a user made of it.
 * source: RFC 9457
 */
export function bodyOf(refusal: Refusal, answer: Answer): Body {
  const { kind, violatedPolicies } = refusal;
  const { status = refusal.status, body, contentType } = answer;
  if (typeof body === "string") {
    return { status, contentType: contentType ?? "text/plain; charset=utf-8", text: body };
  }
  if (body !== undefined) {
    return { status, contentType: contentType ?? "application/json", text: JSON.stringify(body) };
  }
  const { type = PROBLEMS[kind].type, title = PROBLEMS[kind].title } = answer;
  const problem = { type, title, status };
  // Only a limit is violated: a block and a store that is away are not of the client's count.
  const told = kind === "limit" ? { ...problem, "violated-policies": violatedPolicies } : problem;
  return { status, contentType: PROBLEM_TYPE, text: JSON.stringify(told) };
}
