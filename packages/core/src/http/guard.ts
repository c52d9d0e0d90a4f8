import type { Policy } from "../algorithms/policy.ts";
import type { Config } from "../config.ts";
import type { Decision } from "../decision.ts";
import { NO_ADDRESS } from "../identity/address.ts";
import type { Identity, IdentitySource, MaybePromise, RequestContext } from "../identity/identity.ts";
import { ip, isThenable } from "../identity/sources.ts";
import { createEngine, type Limiter, limiterOf, type Part } from "../limiter.ts";
import { limitField, policyField, retryAfter } from "./headers.ts";
import { PROBLEM_TYPE, quotaExceeded, REDUCED_CAPACITY } from "./problem.ts";
import { userFunctions } from "./user-functions.ts";

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
  /** Each asked once per request, however many policies count by it. */
  const sources = [...new Set(policies.map(({ by }) => by))];
  const functions = userFunctions(settings, events);
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

  function warnOfNoAddress(): void {
    events.warnOnce(
      "TIDEGATE_NO_ADDRESS",
      `A request had no address (a Unix socket, or one already closed): such requests count together as ip:${NO_ADDRESS}. Give by a function if they should not.`,
    );
  }

  function rule(context: RequestContext<R>, done: (ruling: Ruling) => void): void {
    const deadline = performance.now() + settings.timeoutMs;
    then(functions.skips(context, deadline), (skip) => {
      if (skip) return done({ kind: "skip" });
      const identities = sources.map((source) => functions.identityOf(source, context, deadline));
      const chosen = policies.map((named) => functions.policyOf(named, context, deadline));
      const cost = functions.costOf(context, deadline);
      then(all(identities), (who) =>
        then(all(chosen), (which) =>
          then(cost, (units) => {
            if (who.some(isNobody)) warnOfNoAddress();
            const parts = policies.map(({ name, by }, i) => ({
              name,
              policy: which[i]!,
              identity: who[sources.indexOf(by)]!,
            }));
            engine.decide(parts, units, deadline, (decision) => done(rulingOf(decision, parts)));
          }),
        ),
      );
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

const isNobody = ({ kind, value }: Identity): boolean => kind === "ip" && value === NO_ADDRESS;

/** Goes on at once where there is nothing to wait for. */
function then<T>(value: MaybePromise<T>, go: (value: T) => void): void {
  if (isThenable(value)) void value.then(go);
  else go(value);
}

function all<T>(values: readonly MaybePromise<T>[]): MaybePromise<T[]> {
  return values.some(isThenable) ? Promise.all(values) : (values as T[]);
}
