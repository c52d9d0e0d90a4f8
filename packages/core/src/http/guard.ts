import type { Policy, Unit } from "../algorithms/policy.ts";
import type { Config } from "../config.ts";
import type { Decision } from "../decision.ts";
import { createEngine } from "../engine.ts";
import type { Part } from "../explain.ts";
import { NO_ADDRESS } from "../identity/address.ts";
import type { Identity, IdentitySource, MaybePromise, RequestContext } from "../identity/identity.ts";
import { ip, isThenable } from "../identity/sources.ts";
import { type Limiter, limiterOf } from "../limiter.ts";
import { limitField, policyField, retryAfter } from "./headers.ts";
import { ABNORMAL_USAGE, PROBLEM_TYPE, quotaExceeded, REDUCED_CAPACITY } from "./problem.ts";
import { userFunctions } from "./user-functions.ts";

/** What headers tell of a policy. */
export interface NamedLimit {
  readonly name: string;
  readonly limit: number;
  /** `undefined`: there is no window. */
  readonly windowMs: number | undefined;
  readonly rolling: boolean;
  readonly unit: Unit;
}

/** What a framework does with a request: `headers` go onto the response, whoever writes it. */
export type Ruling =
  /** Not limited: the limiter leaves no trace. */
  | { readonly kind: "skip" }
  | {
      readonly kind: "pass";
      readonly decision: Decision;
      readonly headers: readonly Header[];
      /** To be called once the response is through, or the client gone; `undefined` when nothing is to be settled. */
      readonly settle: ((end: ResponseEnd) => void) | undefined;
    }
  | {
      readonly kind: "refuse";
      readonly decision: Decision;
      readonly headers: readonly Header[];
      readonly status: number;
      readonly body: string;
    };

export type Header = readonly [name: string, value: string];

/** How a response ended. */
export interface ResponseEnd {
  readonly status: number | undefined;
  readonly aborted: boolean;
}

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
  /** Each asked once per request, however many policies count by it. */
  const sources = [...new Set(policies.map(({ by }) => by))];
  const functions = userFunctions(settings, events);
  const fixedLimits = policies.some(({ choose }) => choose) ? undefined : shownLimits(policies);
  const fixedField = fixedLimits && policyField(fixedLimits);
  warnOfUnverifiedKeys();

  function warnOfUnverifiedKeys(): void {
    if (!policies.some(({ by }) => by.unverified)) return;
    if (policies.some(({ by, policy }) => by.address && policy.mode === "enforce")) return;
    events.warnOnce(
      "TIDEGATE_UNVERIFIED_KEY",
      "API keys are not verified, and no policy counts by address: whoever invents a key gets a new quota. Give apiKey({ verify }) or a policy with by: ip().",
    );
  }

  function warnOfNoAddress(): void {
    events.warnOnce(
      "TIDEGATE_NO_ADDRESS",
      `A request had no address (a Unix socket, or one already closed): such requests count together as ip:${NO_ADDRESS}. Give by a function if they should not.`,
    );
  }

  function rule(context: RequestContext<R>, done: (ruling: Ruling) => void): void {
    const deadline = performance.now() + settings.timeoutMs;
    const { skips, identityOf, policyOf, costOf, idempotencyKeyOf } = functions;
    then(skips(context, deadline), (skip) => {
      if (skip) return done({ kind: "skip" });
      // All are begun before one is waited for.
      const identities = all(sources.map((source) => identityOf(source, context, deadline)));
      const chosen = all(policies.map((named) => policyOf(named, context, deadline)));
      const cost = costOf(settings.cost, context, deadline);
      const key = idempotencyKeyOf(context, deadline);
      then(all([identities, chosen, cost, key] as const), ([who, which, units, idempotencyKey]) => {
        if (who.some(isNobody)) warnOfNoAddress();
        const own = all(
          which.map(({ cost }) => (cost === undefined ? units : costOf(cost, context, deadline))),
        );
        then(own, (costs) => {
          const parts = policies.map(({ name, by }, i): Part => ({
            name,
            policy: which[i]!,
            identity: who[sources.indexOf(by)]!,
            cost: costs[i]!,
            ownCost: which[i]!.cost !== undefined,
          }));
          const question = { parts, cost: units, deadline, idempotencyKey };
          engine.decide(question, (decision) => done(rulingOf(decision, parts, context)));
        });
      });
    });
  }

  function rulingOf(decision: Decision, parts: readonly Part[], context: RequestContext<R>): Ruling {
    const limits = fixedLimits ?? shownLimits(parts);
    const policyHeaders: Header[] =
      limits.length === 0 ? [] : [["RateLimit-Policy", fixedField ?? policyField(limits)]];
    if (decision.degraded) return degradedRuling(decision, policyHeaders);
    if (decision.blocked)
      return refusal(decision, 429, [...policyHeaders, ...waitHeaders(decision)], ABNORMAL_USAGE);
    const state = limitField(
      decision,
      limits,
      parts.filter(isShown).map(({ cost }) => cost),
    );
    const headers: Header[] = state === "" ? policyHeaders : [...policyHeaders, ["RateLimit", state]];
    if (decision.allowed) return { kind: "pass", decision, headers, settle: settlerOf(decision, context) };
    return refusal(decision, 429, [...headers, ...waitHeaders(decision)], quotaExceeded(decision));
  }

  function settlerOf(
    decision: Decision,
    { request }: RequestContext<R>,
  ): ((end: ResponseEnd) => void) | undefined {
    if (!decision.receipt || (!settings.settle && decision.receipt.lease === undefined)) return undefined;
    return ({ status, aborted }) => {
      const deadline = performance.now() + settings.timeoutMs;
      const outcome = functions.settlementOf({ request, status, aborted }, deadline);
      // A store that cannot be asked has been reported; the charge stays.
      then(outcome, (settlement) => engine.settle(decision, settlement, () => {}));
    };
  }

  return { rule, limiter: limiterOf(engine) };
}

/** Nothing is known of any quota, so nothing is said of one. */
function degradedRuling(decision: Decision, policyHeaders: readonly Header[]): Ruling {
  if (decision.allowed) return { kind: "pass", decision, headers: policyHeaders, settle: undefined };
  return refusal(decision, 503, [["Retry-After", RETRY_WHEN_CLOSED]], REDUCED_CAPACITY);
}

function waitHeaders(decision: Decision): Header[] {
  const wait = retryAfter(decision);
  return wait === undefined ? [] : [["Retry-After", String(wait)]];
}

function refusal(decision: Decision, status: number, headers: readonly Header[], body: string): Ruling {
  const all: Header[] = [...headers, ["Cache-Control", "no-store"], ["Content-Type", PROBLEM_TYPE]];
  return { kind: "refuse", decision, headers: all, status, body };
}

/** A policy on trial is not shown. */
const isShown = ({ policy }: { readonly policy: Policy }): boolean => policy.mode === "enforce";

const shownLimits = (parts: readonly { readonly name: string; readonly policy: Policy }[]): NamedLimit[] =>
  parts.filter(isShown).map(({ name, policy: { limit, windowMs, rolling, unit } }) => ({
    name,
    limit,
    windowMs,
    rolling,
    unit,
  }));

const isNobody = ({ kind, value }: Identity): boolean => kind === "ip" && value === NO_ADDRESS;

/** Goes on at once where there is nothing to wait for. */
function then<T>(value: MaybePromise<T>, go: (value: T) => void): void {
  if (isThenable(value)) void value.then(go);
  else go(value);
}

function all<T extends readonly unknown[]>(values: {
  readonly [K in keyof T]: MaybePromise<T[K]>;
}): MaybePromise<T> {
  const given = values as readonly MaybePromise<unknown>[];
  return (given.some(isThenable) ? Promise.all(given) : given) as MaybePromise<T>;
}
