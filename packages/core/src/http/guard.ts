import { isPolicy, type Policy } from "../algorithms/policy.ts";
import { type Config, isCost, type NamedPolicy } from "../config.ts";
import type { Decision } from "../decision.ts";
import { show } from "../errors.ts";
import { NO_ADDRESS } from "../identity/address.ts";
import {
  type Identity,
  type IdentitySource,
  ipOf,
  type MaybePromise,
  type RequestContext,
  toIdentity,
} from "../identity/identity.ts";
import { ip, isThenable } from "../identity/sources.ts";
import { createEngine, type Limiter, limiterOf, type Part } from "../limiter.ts";
import type { WarningCode } from "../observe/events.ts";
import { limitField, policyField, retryAfter } from "./headers.ts";
import { PROBLEM_TYPE, quotaExceeded, REDUCED_CAPACITY } from "./problem.ts";

/** What headers tell of a policy. */
export interface NamedLimit {
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
  readonly rolling: boolean;
}

/** What a framework does with a request: `headers` go onto the response, whoever writes it. */
export type Ruling =
  /** Not limited: the limiter leaves no trace. */
  | { readonly kind: "skip" }
  | { readonly kind: "pass"; readonly decision: Decision; readonly headers: readonly Header[] }
  | {
      readonly kind: "refuse";
      readonly decision: Decision;
      readonly headers: readonly Header[];
      readonly status: number;
      readonly body: string;
    };

export type Header = readonly [name: string, value: string];

/** All that a middleware decides before it knows its framework. */
export interface Guard<R = any> {
  /** `done` may be called at once. It is called exactly once. */
  rule(context: RequestContext<R>, done: (ruling: Ruling) => void): void;
  readonly limiter: Limiter;
}

/** Seconds of Retry-After while the store cannot be asked. */
const RETRY_WHEN_CLOSED = "5";

/**
 * The part of every framework's middleware that is the same.
 *
 * @throws ConfigError for the first setting that cannot work
 */
export function createGuard<R>(config: Config<R>): Guard<R> {
  const engine = createEngine<R>(config);
  const { settings, events } = engine;
  const byAddress: IdentitySource<R> = ip();
  const policies = settings.policies.map((named) => ({ ...named, by: named.by ?? byAddress }));
  const fixedLimits = policies.some(({ choose }) => choose)
    ? undefined
    : policies.map(({ name, policy }) => limitOf(name, policy));
  const fixedField = fixedLimits && policyField(fixedLimits);
  warnOfUnverifiedKeys();

  function warnOfUnverifiedKeys(): void {
    if (!policies.some(({ by }) => by.unverified) || policies.some(({ by }) => by.address)) return;
    events.warnOnce(
      "TIDEGATE_UNVERIFIED_KEY",
      "API keys are not verified, and no policy counts by address: whoever invents a key gets a new quota. Give apiKey({ verify }) or a policy with by: ip().",
    );
  }

  /** The value of a user's function, or `instead` with a warning: never an exception, never later than the deadline. */
  function soundly<T>(
    ask: () => MaybePromise<unknown>,
    accept: (value: unknown) => T | undefined,
    instead: () => T,
    code: WarningCode,
    what: string,
  ): MaybePromise<T> {
    const refuse = (how: string): T => {
      events.fault(code, `${what} ${how}`);
      return instead();
    };
    const judge = (value: unknown): T => {
      const accepted = accept(value);
      return accepted === undefined ? refuse(`gave ${show(value)}`) : accepted;
    };
    const thrown = (error: unknown) => refuse(`threw ${error instanceof Error ? error.name : show(error)}`);
    try {
      const value = ask();
      if (!isThenable(value)) return judge(value);
      return inTime(value, settings.timeoutMs).then(
        (late) => (late === TOO_LATE ? refuse(`took more than ${settings.timeoutMs} ms`) : judge(late)),
        thrown,
      );
    } catch (error) {
      return thrown(error);
    }
  }

  function skips({ request }: RequestContext<R>): MaybePromise<boolean> {
    const { skip } = settings;
    if (!skip) return false;
    return soundly(
      () => skip(request),
      (value) => Boolean(value),
      () => false,
      "TIDEGATE_SKIP_FAULT",
      "The skip function",
    );
  }

  function costOf({ request }: RequestContext<R>): MaybePromise<number> {
    const { cost } = settings;
    if (typeof cost === "number") return cost;
    return soundly(
      () => cost(request),
      (value) => (isCost(value) ? value : undefined),
      () => 1,
      "TIDEGATE_COST_FAULT",
      "The cost function",
    );
  }

  function policyOf(
    { name, policy, choose }: NamedPolicy<R>,
    { request }: RequestContext<R>,
  ): MaybePromise<Policy> {
    if (!choose) return policy;
    return soundly(
      () => choose(request),
      // Who is counted is settled beforehand, by the base: another answer here would be passed over in silence.
      (value) => (isPolicy(value) && (value.by ?? policy.by) === policy.by ? value : undefined),
      () => policy,
      "TIDEGATE_POLICY_FAULT",
      `The function of policy ${name}`,
    );
  }

  function identityOf(source: IdentitySource<R>, context: RequestContext<R>): MaybePromise<Identity> {
    if (source.address && context.address === undefined) warnOfNoAddress();
    return soundly(
      () => source.identify(context),
      (value) => toIdentity(value),
      () => ipOf(context.address),
      "TIDEGATE_IDENTITY_FAULT",
      "The function that says who is counted",
    );
  }

  function warnOfNoAddress(): void {
    events.warnOnce(
      "TIDEGATE_NO_ADDRESS",
      `A request had no address (a Unix socket, or one already closed): such requests count together as ip:${NO_ADDRESS}. Give by a function if they should not.`,
    );
  }

  function rule(context: RequestContext<R>, done: (ruling: Ruling) => void): void {
    then(skips(context), (skip) => {
      if (skip) return done({ kind: "skip" });
      const sources = [...new Set(policies.map(({ by }) => by))];
      const asked = [
        costOf(context),
        ...policies.map((named) => policyOf(named, context)),
        ...sources.map((source) => identityOf(source, context)),
      ];
      then(all(asked), ([cost, ...found]) => {
        const chosen = found.slice(0, policies.length) as Policy[];
        const identities = found.slice(policies.length) as Identity[];
        const parts = policies.map(({ name, by }, i) => ({
          name,
          policy: chosen[i]!,
          identity: identities[sources.indexOf(by)]!,
        }));
        engine.decide(parts, cost as number, (decision) => done(rulingOf(decision, parts)));
      });
    });
  }

  function rulingOf(decision: Decision, parts: readonly Part[]): Ruling {
    const limits = fixedLimits ?? parts.map(({ name, policy }) => limitOf(name, policy));
    const policyHeader: Header = ["RateLimit-Policy", fixedField ?? policyField(limits)];
    if (decision.degraded) return degradedRuling(decision, policyHeader);
    const headers: Header[] = [policyHeader, ["RateLimit", limitField(decision, limits)]];
    if (decision.allowed) return { kind: "pass", decision, headers };
    const wait = retryAfter(decision);
    if (wait !== undefined) headers.push(["Retry-After", String(wait)]);
    return refusal(decision, 429, headers, quotaExceeded(decision));
  }

  return { rule, limiter: limiterOf(engine) };
}

/** Nothing is known of any quota, so nothing is said of one. */
function degradedRuling(decision: Decision, policyHeader: Header): Ruling {
  if (decision.allowed) return { kind: "pass", decision, headers: [policyHeader] };
  return refusal(decision, 503, [["Retry-After", RETRY_WHEN_CLOSED]], REDUCED_CAPACITY);
}

function refusal(decision: Decision, status: number, headers: readonly Header[], body: string): Ruling {
  const all: Header[] = [...headers, ["Cache-Control", "no-store"], ["Content-Type", PROBLEM_TYPE]];
  return { kind: "refuse", decision, headers: all, status, body };
}

const limitOf = (name: string, { limit, windowMs, rolling }: Policy): NamedLimit => ({
  name,
  limit,
  windowMs,
  rolling,
});

const TOO_LATE = Symbol("too late");

function inTime<T>(promise: PromiseLike<T>, ms: number): Promise<T | typeof TOO_LATE> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<typeof TOO_LATE>((resolve) => {
    timer = setTimeout(resolve, ms, TOO_LATE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Goes on at once where there is nothing to wait for. */
function then<T>(value: MaybePromise<T>, go: (value: T) => void): void {
  if (isThenable(value)) void value.then(go);
  else go(value);
}

function all<T>(values: readonly MaybePromise<T>[]): MaybePromise<T[]> {
  return values.some(isThenable) ? Promise.all(values) : (values as T[]);
}
