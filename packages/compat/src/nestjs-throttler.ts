import { fixedWindow, type Limiter } from "@tidegate/core";
import type { ThrottlerStorage } from "@nestjs/throttler";
import { Counting, type CountingOptions, type Hit, waitOf } from "./counting.ts";

export { type Algorithm, type CountingOptions, StoreUnavailableError } from "./counting.ts";

/** What `@nestjs/throttler` wants to know of a request. Times are whole seconds, rounded up. */
export interface ThrottlerRecord {
  /** Requests that this window let pass, this one with them; one more than the limit when it is refused. */
  totalHits: number;
  /** How long until the window ends, seconds. */
  timeToExpire: number;
  /** Whether the request is refused. */
  isBlocked: boolean;
  /** How long it stays refused, seconds; 0 when it is let in. */
  timeToBlockExpire: number;
}

/** A storage for `@nestjs/throttler` 6. Made by {@link tidegateStore}. */
export class TidegateThrottlerStorage implements ThrottlerStorage {
  readonly #options: CountingOptions;
  #counting: Counting;

  /** @throws ConfigError for the first option that cannot work */
  constructor(options: CountingOptions) {
    this.#options = options;
    this.#counting = countingOf(options);
  }

  /** For `health()` in a readiness endpoint, and for what people do by hand. */
  get limiter(): Limiter {
    return this.#counting.limiter;
  }

  /** Nest calls it when an application begins: a storage in a module that tests start again and again begins anew. */
  onModuleInit(): void {
    if (this.#counting.isClosed) this.#counting = countingOf(this.#options);
  }

  /**
   * Decides about a request. Refused ones are not counted. Who is refused stays blocked for `blockDuration`, and then
   * begins anew; with 0, until the window ends.
   *
   * @param ttl the window, milliseconds
   * @param blockDuration milliseconds
   * @throws StoreUnavailableError (the promise rejects) when Redis is away and the rule is `"closed"`
   */
  async increment(
    key: string,
    ttl: number,
    limit: number,
    blockDuration: number,
    throttlerName: string,
  ): Promise<ThrottlerRecord> {
    const identity = JSON.stringify([throttlerName, key]);
    const policy = this.#counting.policyFor(limit, ttl, this.#counting.algorithm ?? fixedWindow);
    const hit: Hit = { identity, place: throttlerName, policy, cost: 1 };
    const decision = await this.#counting.ask(hit);
    const waitMs = waitOf(decision, ttl);
    const seconds = Math.ceil(waitMs / 1000);
    if (decision.allowed) {
      const totalHits = this.#counting.hitsOf(decision, limit);
      return { totalHits, timeToExpire: seconds, isBlocked: totalHits > limit, timeToBlockExpire: 0 };
    }
    const begins = blockDuration > 0 && !decision.blocked && !decision.degraded;
    if (begins) this.#block(hit.identity, Math.ceil(blockDuration), waitMs);
    const blockedFor = begins ? Math.ceil(blockDuration / 1000) : seconds;
    return { totalHits: limit + 1, timeToExpire: seconds, isBlocked: true, timeToBlockExpire: blockedFor };
  }

  /** Closes the connection that this storage opened. Nest calls it when the application closes. May be called twice. */
  async onApplicationShutdown(): Promise<void> {
    await this.#counting.close();
  }

  /** Told to Redis without being waited for: whoever comes before it is refused by the window, which is full. */
  #block(identity: Hit["identity"], ms: number, windowLeftMs: number): void {
    this.limiter.block(identity, ms, "over the limit").catch(() => {});
    if (ms < windowLeftMs) this.#counting.forget(identity).catch(() => {});
  }
}

/** A block may end before the window: then a remembered refusal would outlast it. */
const countingOf = (options: CountingOptions): Counting =>
  new Counting(options, { prefix: "nest", blocking: true, remembers: false });

/**
 * A storage for `@nestjs/throttler` 6 that decides with tidegate.
 *
 * @example ThrottlerModule.forRoot({ throttlers, storage: tidegateStore({ redis: process.env.REDIS_URL }) })
 * @throws ConfigError for the first option that cannot work
 */
export const tidegateStore = (options: CountingOptions = {}): TidegateThrottlerStorage =>
  new TidegateThrottlerStorage(options);
