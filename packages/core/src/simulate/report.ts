/** What came of a simulation. Times are milliseconds since 1970. */
export interface SimulationReport {
  /** The first request's moment; `null` when there was none. */
  readonly from: number | null;
  /** The last request's moment; `null` when there was none. */
  readonly to: number | null;
  /** `admitted`, `refused` and `notLimited` together. */
  readonly requests: number;
  readonly admitted: number;
  /** Answered 429, those of the `deny` list included. */
  readonly refused: number;
  /** What the limiter leaves alone: `skip`, preflights, the `allow` list, `routes` that are `false`. */
  readonly notLimited: number;
  /** Came after a later one, and were decided at its moment. */
  readonly outOfOrder: number;
  /** Different ones that any policy counted. */
  readonly identities: number;
  /** Of these, those that a policy had no room for at least once. Policies on trial do not count here. */
  readonly identitiesRefused: number;
  readonly timeline: Timeline;
  /** In the order of the configuration, then of its routes. */
  readonly policies: readonly PolicyReport[];
  /** What these numbers do not tell, and why, for a reader. */
  readonly warnings: readonly string[];
}

/** Requests over time, in equal steps. */
export interface Timeline {
  /** A round span, milliseconds: such as 500 ms, 15 s, 10 minutes, 6 hours, 7 days. */
  readonly stepMs: number;
  /** Where the first step begins: a multiple of `stepMs`. */
  readonly start: number;
  readonly admitted: readonly number[];
  readonly refused: readonly number[];
}

/** What one policy met and refused. */
export interface PolicyReport {
  readonly name: string;
  /** The route that it counts for itself, as `routes` names it; several of a group, with commas between. */
  readonly route?: string;
  /** Its maker's name, such as `slidingWindow`. */
  readonly algorithm: string;
  /** Units: what a client may use at once. Of `perRequest`, its base's. */
  readonly limit: number;
  /** Milliseconds; of a bucket, from empty to full. `null` of `concurrency`. */
  readonly windowMs: number | null;
  /** Whether it is on trial, and refused nobody. */
  readonly shadow: boolean;
  /** That it was asked about. */
  readonly requests: number;
  /** That it had no room for, also on trial. */
  readonly refused: number;
  /** Units that were asked of it. */
  readonly units: number;
  readonly identities: number;
  /** Those that it had no room for at least once. */
  readonly identitiesRefused: number;
  readonly firstRefusedAt: number | null;
  readonly lastRefusedAt: number | null;
  /** The most units that one identity asked within any one window, let in or not, and when that was reached. */
  readonly peak: Peak | null;
  /** What it refused, in the steps of the report's timeline. */
  readonly timeline: readonly number[];
  /** Who was refused most; where that is equal, who asked most. */
  readonly top: readonly IdentityReport[];
  /**
   * What other limits would refuse: this policy alone, its rate in proportion. Where several policies stand together, a
   * request that another one refuses is not charged here, so that at its own limit it may refuse fewer than this says.
   */
  readonly curve: readonly CurvePoint[] | null;
  /** The least limits for a share of identities. A share that no limit reaches is left out. */
  readonly suggestions: readonly Suggestion[] | null;
}

export interface Peak {
  readonly units: number;
  readonly identity: string;
  readonly at: number;
}

export interface IdentityReport {
  /** `kind:value`, as in keys; where each route is counted for itself, the route in brackets behind it. */
  readonly identity: string;
  readonly requests: number;
  readonly refused: number;
  /** The most units within any one window. */
  readonly peak: number;
  readonly firstRefusedAt: number | null;
  readonly lastRefusedAt: number | null;
}

/** Shares, 0 to 1. */
export interface CurvePoint {
  readonly limit: number;
  /** Of identities, those that would be refused at least once. */
  readonly identitiesRefused: number;
  /** Of requests. */
  readonly requestsRefused: number;
}

export interface Suggestion {
  /** At most this share of identities is ever refused. */
  readonly share: number;
  /** The least limit of which that is true, 1 or more. */
  readonly limit: number;
  /** Share of requests that it refuses. */
  readonly requestsRefused: number;
}
