import type { Decision } from "../decision.ts";
import type { NamedPolicy } from "../named-policies.ts";
import type { Told } from "./items.ts";

/** What the limiters that one request meets know of each other. */
export interface Shared {
  /** Policies that have been asked about this request, by limiter: none is asked twice. */
  readonly asked: (readonly NamedPolicy[])[];
  /** What each limiter had to tell, in the order in which they were met. */
  readonly told: Told[];
  /** How long the request has waited for its limiters, milliseconds: their deadlines are one. */
  waitedMs: number;
  /** The last decision, where an exchange keeps it here. */
  decision: Decision | undefined;
  /** What is to happen before the head is written, where an exchange keeps it here. */
  beforeHead: (() => void)[] | undefined;
}

/** `Symbol.for`: two copies of this package may meet on one request. */
const SHARED = Symbol.for("tidegate.request");

type Raw = { [SHARED]?: Shared };

/** What is shared already; `undefined` when no limiter has seen this request. */
export const sharedOf = (raw: object): Shared | undefined => (raw as Raw)[SHARED];

/** What the limiters of a request share, from the first of them on. */
export function share(raw: object): Shared {
  return ((raw as Raw)[SHARED] ??= {
    asked: [],
    told: [],
    waitedMs: 0,
    decision: undefined,
    beforeHead: undefined,
  });
}
