import {
  type Config,
  ConfigError,
  createGuard,
  type Decision,
  fixedWindow,
  flag,
  type Guard,
  type Identity,
  type Limiter,
  oneOf,
  perRequest,
  type Policy,
  type RouteOptions,
  StoreError,
  type StoreErrorClass,
  TidegateError,
} from "@tidegate/core";

/**
 * What every store of this package takes: where it counts, and what answers when that is away. Each is as in tidegate's
 * own configuration.
 */
export interface CountingOptions extends Pick<
  Config,
  | "redis"
  | "shareConnection"
  | "scripting"
  | "store"
  | "timeoutMs"
  | "instances"
  | "onEvent"
  | "coalesce"
  | "denyCache"
> {
  /**
   * Begins every key. Two limiters that are not to count together give different ones. `"erl"`, `"frl"` or `"nest"` by
   * default: each library's own.
   */
  prefix?: string;
  /**
   * What answers when Redis cannot, `timeoutMs` (50 by default) after it was asked at the latest:
   * - `"open"` (the default): the request passes, as the first of its window
   * - `"closed"`: the call fails with a {@link StoreUnavailableError}, and the library does what it does about errors
   * - `"local"`: this process counts in its own memory; needs `instances`, how many processes share the limits
   */
  onFailure?: "open" | "closed" | "local";
  /**
   * Decides by another algorithm than the library's own: `slidingWindow`, `gcra`, `slidingLog` or `fixedWindow` of
   * `@tidegate/core` as they are, or a function of `limit` and `window` (milliseconds) that returns a policy. A refused
   * request then costs nothing.
   */
  algorithm?: Algorithm;
}

/**
 * Makes the policy of a limit: `slidingWindow`, `gcra`, `slidingLog` or `fixedWindow` of `@tidegate/core` as they are,
 * or a function of yours.
 *
 * @param numbers `limit`: units per window; `window`: its length, milliseconds
 */
export type Algorithm = (numbers: { limit: number; window: number }) => Policy;

/** The store could not be asked, and the rule is `"closed"`. Frameworks answer it with 503. */
export class StoreUnavailableError extends StoreError {
  /** What Express, Fastify and Nest answer with when nobody handles the error. */
  readonly statusCode = 503;
  /** What they answer besides, where they heed it: seconds. */
  readonly headers: Readonly<Record<string, string>> = { "Retry-After": "5" };

  constructor(reason: StoreErrorClass) {
    super(reason, `The store of the rate limiter gave no decision (${reason}), and its rule is "closed".`);
  }
}

/** One question: who, where, by which numbers, and for how many units. */
export interface Hit {
  readonly identity: string | number | Identity;
  /** What is counted for itself: a route, a named limiter. */
  readonly place: string;
  readonly policy: Policy;
  /** 1 counts, 0 looks. */
  readonly cost: 0 | 1;
}

/** The one policy by its name in keys. */
const POLICY = "hits";

/** The largest number of hits that a window counts, and no limit at all. */
const UNLIMITED = 999_999_999_999_999;

const LONGEST_MS = 10 * 365 * 86_400_000;

/** Sets of numbers that a place keeps a plan for. Beyond these the rule `"local"` goes by the first. */
const MOST_PLANS = 100;

const OPTIONS = [
  "redis",
  "shareConnection",
  "scripting",
  "store",
  "timeoutMs",
  "instances",
  "onEvent",
  "coalesce",
  "denyCache",
  "prefix",
  "onFailure",
  "algorithm",
];

/** What a store adds to the options of its user. */
export interface Own {
  /** Where the user gives none. */
  readonly prefix: string;
  readonly blocking?: boolean;
  /** Whether a refusal may be remembered: not where something else than the window ends it. */
  readonly remembers?: boolean;
}

/** Counts for a library that decides by itself, or decides for it: one limiter whose numbers come with each question. */
export class Counting {
  readonly limiter: Limiter;
  /** Whether no other process sees what is counted here. */
  readonly isLocal: boolean;
  /** The user's own algorithm; `undefined`: every hit is counted, and the library compares. */
  readonly algorithm: Algorithm | undefined;
  readonly prefix: string;
  readonly #guard: Guard<Hit>;
  readonly #instances: number;
  readonly #plans = new Map<string, Map<string, RouteOptions<Hit>>>();
  #isClosed = false;

  /** @throws ConfigError for the first option that cannot work */
  constructor(options: CountingOptions, { prefix, blocking = false, remembers = true }: Own) {
    checkOptions(options);
    const { algorithm, onFailure = "open", denyCache, ...rest } = options;
    this.algorithm = algorithm;
    this.prefix = options.prefix ?? prefix;
    this.isLocal = options.redis === undefined && options.store === undefined;
    this.#instances = onFailure === "local" ? options.instances! : 1;
    this.#guard = createGuard<Hit>({
      ...rest,
      prefix: this.prefix,
      onFailure,
      blocking,
      headers: { standard: false, retryAfter: false },
      by: ({ identity }) => identity,
      cost: ({ cost }) => cost,
      // Never asked: every question brings its own.
      policies: { [POLICY]: fixedWindow({ limit: 0, window: 1 }) },
      ...(remembers ? denyCache !== undefined && { denyCache } : { denyCache: false }),
    });
    this.limiter = this.#guard.limiter;
  }

  /**
   * What these numbers mean. Without an algorithm of the user's every hit is counted, and nobody is refused here.
   *
   * @param windowMs milliseconds
   * @throws ConfigError when there is no such window or limit
   */
  policyFor(limit: number, windowMs: number, algorithm: Algorithm | undefined = this.algorithm): Policy {
    const window = clamp(Math.ceil(windowMs), 1, LONGEST_MS);
    const counted = algorithm ? clamp(Math.floor(limit), 0, UNLIMITED) : UNLIMITED;
    return (algorithm ?? fixedWindow)({ limit: counted, window });
  }

  /**
   * @throws TidegateError (the promise rejects) when there is nobody to count
   * @throws StoreUnavailableError (the promise rejects) when the store cannot be asked and the rule is `"closed"`
   */
  async ask(hit: Hit): Promise<Decision> {
    const { identity } = hit;
    if (identity === undefined || identity === null || identity === "") {
      const advice = "the function that makes the key has to return text that is not empty, or a number";
      throw new TidegateError("TIDEGATE_IDENTITY_MISSING", `key: ${advice}, got ${String(identity)}.`);
    }
    const decision = await this.#decide(hit);
    if (decision.degraded?.rule === "closed") throw new StoreUnavailableError(decision.degraded.reason);
    return decision;
  }

  /**
   * How many hits a decision stands for, where the library compares that with its limit: above it exactly when the
   * request is refused.
   */
  hitsOf(decision: Decision, limit: number): number {
    const [verdict] = decision.verdicts;
    if (!decision.allowed) return Math.floor(limit) + 1;
    if (!verdict) return 1; // Nothing is known of the count: the rule "open".
    const own = verdict.limit - verdict.remaining;
    if (!decision.degraded) return own;
    // As if the other processes saw as much; but one request passes in each, however small the limit.
    const share = own === 1 ? 1 : own * this.#instances;
    return this.algorithm ? Math.min(share, limit) : share;
  }

  /** Whether {@link close} was called: then nothing is counted any more. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return this.limiter.close();
  }

  /** Forgets what was counted for somebody, wherever that was. */
  forget(identity: Hit["identity"]): Promise<void> {
    return this.limiter.reset(identity, POLICY);
  }

  /** Has {@link forget} find what earlier processes counted at a place by these numbers. */
  learn(place: string, policy: Policy): void {
    this.#guard.check(place, this.#planFor(place, policy).rateLimit || {});
  }

  #decide(hit: Hit): Promise<Decision> {
    const asked = { ...NOBODY, request: hit, raw: hit, route: hit.place };
    return new Promise((resolve, reject) => {
      this.#guard.rule({ ...asked, routeOptions: this.#planFor(hit.place, hit.policy) }, (ruling) =>
        ruling.kind === "skip"
          ? reject(new StoreError("unknown", "nothing was asked"))
          : resolve(ruling.decision),
      );
    });
  }

  /** The same object for the same numbers: by it the limiter knows a plan again. */
  #planFor(place: string, policy: Policy): RouteOptions<Hit> {
    let plans = this.#plans.get(place);
    if (!plans) this.#plans.set(place, (plans = new Map()));
    const numbers = `${policy.algorithm.tag} ${policy.limit}/${policy.windowMs}`;
    const known = plans.get(numbers) ?? (plans.size < MOST_PLANS ? undefined : plans.values().next().value);
    if (known) return known;
    const made = { rateLimit: { policies: { [POLICY]: perRequest<Hit>(policy, (hit) => hit.policy) } } };
    plans.set(numbers, made);
    return made;
  }
}

/** What there is to a request besides the hit. */
const NOBODY = {
  method: "GET",
  url: "/",
  peer: undefined,
  address: undefined,
  trust: { whom: "nobody" },
  state: {},
  header: () => undefined,
} as const;

const clamp = (value: number, least: number, most: number): number => Math.min(Math.max(value, least), most);

/** What is wrong here would else be told of by names that the user has not written. */
function checkOptions(options: CountingOptions): void {
  if (typeof options !== "object" || options === null || Array.isArray(options))
    throw invalid(
      "tidegateStore",
      options,
      "give an object of options, such as { redis: process.env.REDIS_URL }",
    );
  for (const [name, value] of Object.entries(options))
    if (!OPTIONS.includes(name))
      throw new ConfigError(
        "TIDEGATE_OPTION_UNKNOWN",
        name,
        value,
        `there is no such option; known are ${OPTIONS.join(", ")}`,
      );
  const { onFailure, algorithm, coalesce } = options;
  if (onFailure !== undefined) oneOf("onFailure", onFailure, ["open", "closed", "local"]);
  if (coalesce !== undefined) flag("coalesce", coalesce);
  if (algorithm !== undefined && typeof algorithm !== "function")
    throw invalid("algorithm", algorithm, "give slidingWindow or another of @tidegate/core, or a function");
}

export const invalid = (option: string, value: unknown, advice: string): ConfigError =>
  new ConfigError("TIDEGATE_OPTION_INVALID", option, value, advice);

/** Milliseconds until a client may hope again: for its headers, never below 0. */
export function waitOf(decision: Decision, windowMs: number): number {
  if (!decision.allowed) return decision.retryAfterMs ?? windowMs;
  return decision.verdicts[0]?.fullMs ?? windowMs;
}
