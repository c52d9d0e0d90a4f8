import type { Algorithm } from "./algorithms/algorithm.ts";
import type { Policy } from "./algorithms/policy.ts";
import { ioredisClient, isIoredis } from "./clients/ioredis.ts";
import { type Config, isCost, type NamedPolicy, type Settings, settingsOf } from "./config.ts";
import type { Charge, Decision, Verdict } from "./decision.ts";
import { ConfigError, type RequestErrorCode, show, StoreError, TidegateError } from "./errors.ts";
import { withDeadline } from "./failure/deadline.ts";
import { degradedDecision } from "./failure/fallback.ts";
import { Health } from "./failure/health.ts";
import { type Identity, toIdentity } from "./identity/identity.ts";
import { keyOf } from "./identity/key.ts";
import { Events } from "./observe/events.ts";
import { memoryStore } from "./stores/memory.ts";
import { redisStore } from "./stores/redis.ts";
import type { Check, Outcome, Store } from "./stores/store.ts";
import { direct, type Tier } from "./tiers/tier.ts";

/** What to decide, without HTTP. */
export interface DecideRequest {
  /**
   * Who is counted: an identity, or text or a number of kind `id`; or, where policies count
   * different ones, a record from policy name to identity. Policies by `globally()` need none.
   */
  identity: IdentityInput | Readonly<Record<string, IdentityInput>>;
  /** Units to take: the configuration's by default, which is 1. 0 looks and takes nothing. */
  cost?: number;
}

export type IdentityInput = Identity | string | number;

export interface Limiter {
  /**
   * Decides, and charges when the decision is to allow. Always answers within the configuration's
   * `timeoutMs`, by the failure rule if need be; a store that fails is never an exception.
   *
   * @throws TidegateError (the promise rejects) when an identity is missing or the cost is no whole number
   */
  decide(request: DecideRequest): Promise<Decision>;
  /** Closes what the limiter opened. May be called twice. */
  close(): Promise<void>;
}

/** One policy as it stands for one request. */
export interface Part {
  readonly name: string;
  readonly policy: Policy;
  readonly identity: Identity;
}

/** The limiter inside: by callback, which may run at once, and for parts that are known to be sound. */
export interface Engine<R = any> {
  readonly settings: Settings<R>;
  readonly events: Events;
  /** @param deadline milliseconds of `performance.now()`. The store gets a little time in any case. */
  decide(parts: readonly Part[], cost: number, deadline: number, done: (decision: Decision) => void): void;
  close(): Promise<void>;
}

/**
 * A limiter for anything that is not an HTTP request: messages, jobs, calls.
 *
 * @throws ConfigError for the first setting that cannot work
 */
export function createLimiter(config: Config): Limiter {
  return limiterOf(createEngine(config));
}

export function limiterOf(engine: Engine): Limiter {
  const { settings } = engine;
  return {
    async decide(request) {
      const { identity, cost = typeof settings.cost === "number" ? settings.cost : 1 } = request ?? {};
      if (!isCost(cost))
        throw requestError("TIDEGATE_COST", `cost: give a whole number from 0, got ${show(cost)}.`);
      const parts = settings.policies.map((named) => ({
        name: named.name,
        policy: named.policy,
        identity: identityFor(named, identity),
      }));
      return new Promise((resolve) =>
        engine.decide(parts, cost, performance.now() + settings.timeoutMs, resolve),
      );
    },
    close: () => engine.close(),
  };
}

const requestError = (code: RequestErrorCode, message: string) => new TidegateError(code, message);

function identityFor(named: NamedPolicy, given: DecideRequest["identity"] | undefined): Identity {
  const constant = named.by?.constant;
  if (constant) return constant;
  const whole = toIdentity(given);
  const found = whole ?? toIdentity((given as Record<string, unknown> | null | undefined)?.[named.name]);
  if (found) return found;
  throw requestError(
    "TIDEGATE_IDENTITY_MISSING",
    `identity: policy ${named.name} needs one; give user(id), ipOf(address) or text that is not empty, or a record with ${named.name}, got ${show(given)}.`,
  );
}

/** @throws ConfigError for the first setting that cannot work */
export function createEngine<R>(config: Config<R>): Engine<R> {
  const settings = settingsOf(config);
  const events = new Events(settings.onEvent);
  const health = new Health(events);
  const store = storeOf(config);
  const ours = config.store === undefined;
  const tier: Tier = withDeadline(direct(store));

  // However long a request's own functions took, the store is asked: a slow one is no way to pass uncounted.
  const leastMs = settings.timeoutMs / 4;

  function decide(
    parts: readonly Part[],
    cost: number,
    deadline: number,
    done: (decision: Decision) => void,
  ): void {
    const check: Check = {
      policies: parts.map(({ policy }) => policy),
      keys: parts.map(({ name, policy, identity }) =>
        keyOf(settings.prefix, identity, name, policy.algorithm.tag),
      ),
      cost,
      deadline: Math.max(deadline, performance.now() + leastMs),
    };
    tier.decide(check, (error, outcome) => {
      if (outcome) {
        health.answered();
        done(explain(parts, check, outcome));
      } else {
        const { reason } = error ?? new StoreError("unknown", "the store gave no answer");
        if (error) health.failed(error);
        events.emit({ type: "degraded", rule: settings.onFailure, reason });
        done(degradedDecision(settings.onFailure, reason, cost));
      }
    });
  }

  return { settings, events, decide, close: async () => (ours ? store.close() : undefined) };
}

function storeOf({ redis, store }: Config): Store {
  if (store !== undefined) {
    if (typeof store?.decide === "function") return store;
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "store", store, "give a store such as memoryStore()");
  }
  if (redis === undefined) return memoryStore();
  if (typeof redis === "string" || isIoredis(redis)) return redisStore(ioredisClient(redis));
  throw new ConfigError(
    "TIDEGATE_CLIENT_UNKNOWN",
    "redis",
    redis,
    "give a URL such as redis://localhost:6379, or an ioredis client",
  );
}

/** The decision that raw state means. */
function explain(parts: readonly Part[], { keys, cost }: Check, { granted, now, words }: Outcome): Decision {
  const verdicts: Verdict[] = [];
  const charges: Charge[] = [];
  let retryAfterMs: number | null = 0;
  let at = 0;
  parts.forEach(({ name, policy }, i) => {
    const { numbers, limit } = policy;
    const algorithm: Algorithm<unknown> = policy.algorithm;
    const { remaining, nextMs, fullMs, reason } = algorithm.explain(numbers, words, at, now, cost, granted);
    const allowed = reason === "ok";
    verdicts.push({ policy: name, allowed, limit, remaining, nextMs, fullMs, reason });
    if (!allowed && retryAfterMs !== null)
      retryAfterMs = nextMs === null ? null : Math.max(retryAfterMs, nextMs);
    if (granted && cost > 0)
      charges.push({
        policy: name,
        key: keys[i]!,
        units: cost,
        mark: algorithm.mark(numbers, words, at, now, cost),
      });
    at += algorithm.words;
  });
  return {
    allowed: granted,
    cost,
    verdicts,
    retryAfterMs,
    degraded: undefined,
    receipt: granted && cost > 0 ? { at: now, charges } : undefined,
  };
}
