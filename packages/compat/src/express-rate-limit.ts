import { ConfigError, type Decision, type Limiter, type Policy, TidegateError } from "@tidegate/core";
import type { ClientRateLimitInfo, Store } from "express-rate-limit";
import { Counting, type CountingOptions, invalid, waitOf } from "./counting.ts";
import { Tickets } from "./tickets.ts";

export { type Algorithm, type CountingOptions, StoreUnavailableError } from "./counting.ts";

/** The one place that a limiter of express-rate-limit counts at. */
const PLACE = "all";

/** What this store reads of the options of express-rate-limit. */
interface LimiterOptions {
  readonly windowMs: number;
  readonly limit?: unknown;
  readonly skipFailedRequests?: boolean;
  readonly skipSuccessfulRequests?: boolean;
}

/** A store for express-rate-limit 7 and 8. Made by {@link tidegateStore}. */
export class TidegateStore implements Store {
  /** True in this process's memory: no other store sees its keys. */
  readonly localKeys: boolean;
  /** Begins every key. */
  readonly prefix: string;
  readonly #options: CountingOptions;
  #counting: Counting;
  #tickets = new Tickets();
  #rules:
    | { windowMs: number; limit: number; policy: Policy; gives: boolean; givesRefused: boolean }
    | undefined;
  #fault: Error | undefined;

  /** @throws ConfigError for the first option that cannot work */
  constructor(options: CountingOptions) {
    this.#options = options;
    this.#counting = new Counting(options, { prefix: "erl" });
    this.localKeys = this.#counting.isLocal;
    this.prefix = this.#counting.prefix;
  }

  /** For `health()` in a readiness endpoint, and for what people do by hand. */
  get limiter(): Limiter {
    return this.#counting.limiter;
  }

  /**
   * Called by express-rate-limit; after {@link shutdown} it begins anew. What it throws is only logged there, so every later call throws it again.
   *
   * @throws ConfigError when the window is none, or the limit a function and the algorithm is to decide
   */
  init(options: LimiterOptions): void {
    try {
      if (this.#counting.isClosed) this.#reopen();
      this.#rules = this.#rulesOf(options);
      this.#fault = undefined;
      this.#counting.learn(PLACE, this.#rules.policy);
    } catch (error) {
      this.#fault = error as Error;
      throw error;
    }
  }

  /**
   * Counts a hit, also one that will be refused; with an algorithm, only one that passes.
   *
   * @throws StoreUnavailableError (the promise rejects) when Redis is away and the rule is `"closed"`
   */
  async increment(key: string): Promise<ClientRateLimitInfo> {
    const { policy, limit, windowMs, gives, givesRefused } = this.#ready();
    const decision = await this.#counting.ask({ identity: key, place: PLACE, policy, cost: 1 });
    if (gives && (decision.receipt || givesRefused)) this.#tickets.put(key, decision);
    return this.#infoOf(decision, limit, windowMs);
  }

  /** What was counted so far; `undefined` for a key that has no window. Counts nothing. */
  async get(key: string): Promise<ClientRateLimitInfo | undefined> {
    const { policy, limit, windowMs } = this.#ready();
    const decision = await this.#counting.ask({ identity: key, place: PLACE, policy, cost: 0 });
    const [verdict] = decision.verdicts;
    if (!verdict || verdict.remaining === verdict.limit) return undefined;
    return this.#infoOf(decision, limit, windowMs);
  }

  /**
   * Takes back the latest hit of a key that this process counted and has not taken back. Only within its own window: of
   * a window that is over nothing comes back, and no key is made.
   *
   * @throws TidegateError (the promise rejects) when neither `skipFailedRequests` nor `skipSuccessfulRequests` is set
   * @throws StoreError (the promise rejects) when Redis cannot be asked; express-rate-limit logs it
   */
  async decrement(key: string): Promise<void> {
    if (!this.#ready().gives) {
      const advice =
        "set skipFailedRequests or skipSuccessfulRequests, so that the store keeps what it needs for it";
      throw new TidegateError("TIDEGATE_SETTLEMENT", `decrement: nothing is kept to give back; ${advice}.`);
    }
    const decision = this.#tickets.take(key);
    if (decision?.receipt) await this.limiter.settle(decision, "giveBack");
  }

  /** Forgets a key, for all processes. */
  async resetKey(key: string): Promise<void> {
    this.#tickets.drop(key);
    await this.#counting.forget(key);
  }

  /** Closes the connection that this store opened. May be called twice. */
  shutdown(): Promise<void> {
    return this.#counting.close();
  }

  #reopen(): void {
    this.#counting = new Counting(this.#options, { prefix: "erl" });
    this.#tickets = new Tickets();
  }

  #ready() {
    if (this.#rules) return this.#rules;
    throw (
      this.#fault ?? invalid("store", undefined, "give this store to rateLimit({ store }), which begins it")
    );
  }

  #rulesOf({ windowMs, limit, skipFailedRequests, skipSuccessfulRequests }: LimiterOptions) {
    if (typeof windowMs !== "number" || !(windowMs >= 1))
      throw invalid("windowMs", windowMs, "give milliseconds from 1");
    const known = typeof limit === "number" ? limit : Infinity;
    if (this.#counting.algorithm && known === Infinity) {
      const advice =
        "give a number, or leave algorithm out: a function's limit is known after the store was asked";
      throw new ConfigError("TIDEGATE_OPTION_INVALID", "limit", limit, advice);
    }
    const policy = this.#counting.policyFor(known, windowMs);
    const unsaid = skipFailedRequests === undefined && skipSuccessfulRequests === undefined;
    const gives = unsaid || Boolean(skipFailedRequests || skipSuccessfulRequests);
    // A refusal is a failed request: it is taken back too, and must not take another's unit.
    return { windowMs, limit: known, policy, gives, givesRefused: gives && skipFailedRequests === true };
  }

  #infoOf(decision: Decision, limit: number, windowMs: number): ClientRateLimitInfo {
    const resetTime =
      decision.degraded?.rule === "open" ? undefined : new Date(Date.now() + waitOf(decision, windowMs));
    return { totalHits: this.#counting.hitsOf(decision, limit), resetTime };
  }
}

/**
 * A store for express-rate-limit 7 and 8 that counts with tidegate. One for each limiter, each with a prefix of its own.
 *
 * @example rateLimit({ windowMs: 60_000, limit: 100, store: tidegateStore({ redis: process.env.REDIS_URL }) })
 * @throws ConfigError for the first option that cannot work
 */
export const tidegateStore = (options: CountingOptions = {}): TidegateStore => new TidegateStore(options);
