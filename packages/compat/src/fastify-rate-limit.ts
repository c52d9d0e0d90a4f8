import { type Decision, fixedWindow, type Limiter } from "@tidegate/core";
import { Counting, type CountingOptions, invalid, waitOf } from "./counting.ts";

export { type Algorithm, type CountingOptions, StoreUnavailableError } from "./counting.ts";

/** What @fastify/rate-limit gives a store of a limiter, or of a route. */
interface RateLimitOptions {
  readonly max?: unknown;
  readonly timeWindow?: unknown;
  readonly ban?: number;
  readonly continueExceeding?: boolean;
  readonly exponentialBackoff?: boolean;
  readonly groupId?: string;
  /** Of a route; empty for a limiter made by hand. */
  readonly routeInfo?: { readonly method?: string | readonly string[]; readonly url?: string };
}

/** `current`: hits of this window, also refused ones. `ttl`: milliseconds until it ends. */
interface Count {
  readonly current: number;
  readonly ttl: number;
}

type Callback = (error: Error | null, result?: Count) => void;

/** Refusals are counted for so long where they lengthen the wait, and no wait is made longer, milliseconds. */
const LONGEST_PENALTY_MS = 86_400_000;

/** Where the limiter of all routes counts that have none of their own. */
const EVERYWHERE = "all";

/** A store of one limiter. Its types stand here once more: those of the plugin and of `@tidegate/fastify` exclude each other. */
export interface TidegateFastifyStore {
  /** Counts a hit, also one that will be refused; with an algorithm, only one that passes. `timeWindow`: milliseconds. */
  incr(key: string, callback: Callback, timeWindow: number, max: number): void;
  /** What {@link incr} would find, and counts nothing: for `createRateLimit()` with `{ increment: false }`. */
  read(key: string, callback: Callback, timeWindow: number, max: number): void;
  /** The store of a route that has options of its own, or of a limiter made by hand. */
  child(routeOptions: object): TidegateFastifyStore;
}

/** The class that `@fastify/rate-limit` makes its stores of. All of them share one connection. */
export interface TidegateFastifyStoreClass {
  new (options: object): TidegateFastifyStore;
  /** For `health()` in a readiness endpoint, and for what people do by hand. */
  readonly limiter: Limiter;
  /** Closes what the stores opened. For `app.addHook("onClose", …)`: the plugin tells no store when it ends. May be called twice. */
  close(): Promise<void>;
}

/** What the stores of one class have in common. */
class Shared {
  readonly counting: Counting;
  readonly #options: CountingOptions;
  #penal: Counting | undefined;
  #places = new Map<string, number>();

  constructor(options: CountingOptions) {
    this.#options = options;
    this.counting = new Counting(options, { prefix: "frl" });
  }

  /** For limits whose refusals lengthen the wait: it heeds blocks, and is made when the first of them is. */
  get penal(): Counting {
    return (this.#penal ??= new Counting(this.#options, { prefix: "frl", blocking: true }));
  }

  async close(): Promise<void> {
    await Promise.all([this.counting.close(), this.#penal?.close()]);
  }

  /** Where a limiter counts: with its group, its route, or by itself when it is made by hand. */
  placeOf({ groupId, routeInfo, max, timeWindow }: RateLimitOptions): string {
    if (groupId) return `group ${groupId}`;
    if (routeInfo?.url !== undefined) return `${String(routeInfo.method)} ${routeInfo.url}`;
    const numbers = `${textOf(max)} per ${textOf(timeWindow)}`;
    const before = this.#places.get(numbers) ?? 0;
    this.#places.set(numbers, before + 1);
    return `${numbers} ${before}`;
  }
}

const textOf = (value: unknown): string => (typeof value === "number" ? String(value) : "function");

/** A store whose refused hits change nothing but the count. */
class PlainStore implements TidegateFastifyStore {
  readonly #shared: Shared;
  readonly #counting: Counting;
  readonly #place: string;

  constructor(shared: Shared, options: RateLimitOptions, place: string) {
    this.#shared = shared;
    this.#counting = shared.counting;
    this.#place = place;
    if (this.#counting.algorithm && (options.ban ?? -1) >= 0) {
      const advice = "leave ban out, or algorithm: with an algorithm refused requests are not counted";
      throw invalid("ban", options.ban, advice);
    }
  }

  incr(key: string, callback: Callback, timeWindow: number, max: number): void {
    answer(callback, this.#count(key, timeWindow, max, 1));
  }

  read(key: string, callback: Callback, timeWindow: number, max: number): void {
    answer(callback, this.#count(key, timeWindow, max, 0));
  }

  child(options: RateLimitOptions): TidegateFastifyStore {
    return storeOf(this.#shared, options, this.#shared.placeOf(options));
  }

  async #count(key: string, timeWindow: number, max: number, cost: 0 | 1): Promise<Count> {
    const policy = this.#counting.policyFor(max, timeWindow);
    const decision = await this.#counting.ask({ identity: key, place: this.#place, policy, cost });
    return { current: this.#counting.hitsOf(decision, max), ttl: waitOf(decision, timeWindow) };
  }
}

/** A store of `continueExceeding` or `exponentialBackoff`: who is refused has to keep away for a time. */
class PenalStore implements TidegateFastifyStore {
  readonly #shared: Shared;
  readonly #counting: Counting;
  readonly #place: string;
  readonly #doubles: boolean;

  constructor(shared: Shared, { continueExceeding }: RateLimitOptions, place: string) {
    this.#shared = shared;
    this.#counting = shared.penal;
    this.#place = place;
    this.#doubles = !continueExceeding;
  }

  incr(key: string, callback: Callback, timeWindow: number, max: number): void {
    answer(callback, this.#count(key, timeWindow, max));
  }

  read(key: string, callback: Callback, timeWindow: number, max: number): void {
    answer(callback, this.#look(key, timeWindow, max));
  }

  child(options: RateLimitOptions): TidegateFastifyStore {
    return storeOf(this.#shared, options, this.#shared.placeOf(options));
  }

  async #count(key: string, timeWindow: number, max: number): Promise<Count> {
    const decision = await this.#ask(key, timeWindow, max, 1);
    const current = this.#counting.hitsOf(decision, max);
    // Without a store there is nobody to tell of a penalty.
    if (!decision.allowed && !decision.degraded) return this.#penalty(key, timeWindow, max);
    // A window has begun anew: what was refused before it is forgotten.
    if (current === 1 && !decision.degraded) this.#forgetRefused(key);
    return { current, ttl: waitOf(decision, timeWindow) };
  }

  async #look(key: string, timeWindow: number, max: number): Promise<Count> {
    const decision = await this.#ask(key, timeWindow, max, 0);
    if (decision.allowed)
      return { current: this.#counting.hitsOf(decision, max), ttl: waitOf(decision, timeWindow) };
    return { current: max + (await this.#refused(key, 0)), ttl: waitOf(decision, timeWindow) };
  }

  /** One attempt more that was refused: its wait begins now, and is told to Redis without being waited for. */
  async #penalty(key: string, timeWindow: number, max: number): Promise<Count> {
    const refused = await this.#refused(key, 1);
    const longest = Math.max(timeWindow, LONGEST_PENALTY_MS);
    const span = this.#doubles ? Math.min(timeWindow * 2 ** (refused - 1), longest) : timeWindow;
    const ttl = Math.max(1, Math.ceil(span));
    this.#counting.limiter.block(this.#whoIs(key), ttl, `refused ${refused} times`).catch(() => {});
    return { current: max + refused, ttl };
  }

  #ask(key: string, timeWindow: number, max: number, cost: 0 | 1): Promise<Decision> {
    const algorithm = this.#counting.algorithm ?? fixedWindow;
    const policy = this.#counting.policyFor(max, timeWindow, algorithm);
    return this.#counting.ask({ identity: this.#whoIs(key), place: EVERYWHERE, policy, cost });
  }

  /** How often somebody was refused, this time with it. */
  async #refused(key: string, cost: 0 | 1): Promise<number> {
    const identity = JSON.stringify([this.#place, key, "refused"]);
    const policy = this.#counting.policyFor(0, LONGEST_PENALTY_MS, undefined);
    const decision = await this.#counting.ask({ identity, place: "refused", policy, cost });
    return Math.max(1, this.#counting.hitsOf(decision, 0));
  }

  #forgetRefused(key: string): void {
    this.#counting.forget(JSON.stringify([this.#place, key, "refused"])).catch(() => {});
  }

  /** A block is of an identity, and must not be of other places. */
  #whoIs(key: string): string {
    return JSON.stringify([this.#place, key]);
  }
}

function storeOf(shared: Shared, options: RateLimitOptions, place: string): TidegateFastifyStore {
  const { continueExceeding, exponentialBackoff } = options;
  const Kind = continueExceeding || exponentialBackoff ? PenalStore : PlainStore;
  return new Kind(shared, options, place);
}

/** The callback is called once, whatever it throws itself. */
function answer(callback: Callback, count: Promise<Count>): void {
  count.then(
    (result) => callback(null, result),
    (error: Error) => callback(error),
  );
}

/**
 * A class of stores for `@fastify/rate-limit` 10 and 11 that count with tidegate.
 *
 * @example app.register(rateLimit, { max: 100, store: tidegateStore({ redis: process.env.REDIS_URL }) })
 * @throws ConfigError for the first option that cannot work
 */
export function tidegateStore(options: CountingOptions = {}): TidegateFastifyStoreClass {
  let shared = new Shared(options);
  function TidegateStore(rules: RateLimitOptions) {
    // An application that begins after another has ended, as in tests.
    if (shared.counting.isClosed) shared = new Shared(options);
    return storeOf(shared, rules, EVERYWHERE);
  }
  Object.defineProperty(TidegateStore, "limiter", { get: () => shared.counting.limiter });
  return Object.assign(TidegateStore, {
    close: () => shared.close(),
  }) as unknown as TidegateFastifyStoreClass;
}
