/** What came of a simulation. Times are milliseconds since 1970. */
export interface SimulationReport {
  /** The first request's moment; `null` when there was none. */
  readonly from: number | null;
  /** The last request's moment; `null` when there was none. */
  readonly to: number | null;
  /** Requests in all: `admitted`, `refused` and `notLimited` together. */
  readonly requests: number;
  /** Requests that were let in. */
  readonly admitted: number;
  /** Requests answered 429, those of the `deny` list included. */
  readonly refused: number;
  /** Requests that the limiter leaves alone: `skip`, preflights, the `allow` list, `routes` that are `false`. */
  readonly notLimited: number;
  /** Requests that came after a later one, and were decided at its moment. */
  readonly outOfOrder: number;
  /** How many different identities any policy counted. */
  readonly identities: number;
  /** How many of these a policy had no room for at least once. Policies on trial do not count here. */
  readonly identitiesRefused: number;
  /** Requests let in and refused over time. */
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
  /** Where the first step begins, milliseconds since 1970: a multiple of `stepMs`. */
  readonly start: number;
  /** Requests let in, one number for each step. */
  readonly admitted: readonly number[];
  /** Requests refused, one number for each step. */
  readonly refused: readonly number[];
}

/** What one policy met and refused. */
export interface PolicyReport {
  /** Its name, as in the configuration. */
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
  /** Requests that it was asked about. */
  readonly requests: number;
  /** Requests that it had no room for, also on trial. */
  readonly refused: number;
  /** Units that were asked of it. */
  readonly units: number;
  /** How many different ones it counted. */
  readonly identities: number;
  /** How many of these it had no room for at least once. */
  readonly identitiesRefused: number;
  /** When it first had no room, milliseconds since 1970; `null`: never. */
  readonly firstRefusedAt: number | null;
  /** When it last had no room, milliseconds since 1970; `null`: never. */
  readonly lastRefusedAt: number | null;
  /** The most units that one identity asked within any one window, let in or not, and when that was reached. */
  readonly peak: Peak | null;
  /**
   * What says who is counted looked for these, and no request had one: `header x-api-key`, `query key`, `user` or
   * `tenant`. The log may not hold them, and then it does not tell who is counted in production.
   */
  readonly neverFound: readonly string[];
  /** Requests that it refused, in the steps of the report's timeline. */
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

/** The most units that one identity asked within any one window. */
export interface Peak {
  /** Units, let in or not. */
  readonly units: number;
  /** Who asked them: `kind:value`, as in keys. */
  readonly identity: string;
  /** When it was reached, milliseconds since 1970. */
  readonly at: number;
}

/** One identity, as one policy met it. */
export interface IdentityReport {
  /** `kind:value`, as in keys; where each route is counted for itself, the route in brackets behind it. */
  readonly identity: string;
  /** Requests that the policy was asked about. */
  readonly requests: number;
  /** Of these, the requests that it had no room for. */
  readonly refused: number;
  /** The most units within any one window. */
  readonly peak: number;
  /** When it was first refused, milliseconds since 1970; `null`: never. */
  readonly firstRefusedAt: number | null;
  /** When it was last refused, milliseconds since 1970; `null`: never. */
  readonly lastRefusedAt: number | null;
}

/** What one limit would refuse, in shares, 0 to 1. */
export interface CurvePoint {
  /** The limit that was tried, units. */
  readonly limit: number;
  /** Share of identities that would be refused at least once. */
  readonly identitiesRefused: number;
  /** Share of requests that would be refused. */
  readonly requestsRefused: number;
}

/** The least limit that spares all but a share of identities. */
export interface Suggestion {
  /** At most this share of identities is ever refused. */
  readonly share: number;
  /** The least limit of which that is true, units, 1 or more. */
  readonly limit: number;
  /** Share of requests that it refuses. */
  readonly requestsRefused: number;
}
