import type { Config, Extension, Refusal, RouteOverride } from "../config.ts";
import type { Decision } from "../decision.ts";
import { createEngine, type Engine } from "../engine.ts";
import { blockedDecision, type Part } from "../explain.ts";
import { NO_ADDRESS } from "../identity/address.ts";
import { type Identity, type IdentitySource, identityText, type MaybePromise } from "../identity/identity.ts";
import type { Trust } from "../identity/proxy.ts";
import { ip, isThenable } from "../identity/sources.ts";
import { type Limiter, limiterOf } from "../limiter.ts";
import {
  type Added,
  additionOf,
  checkExtension,
  extendedPlan,
  type NamedPolicy,
  type Plan,
  routePlan,
  segmentOf,
} from "../plans.ts";
import { HttpContext } from "./context.ts";
import type { Asked, Exchange, Framework } from "./exchange.ts";
import { exposedFields, fieldsOf, fixedPolicyField, retryAfter } from "./headers.ts";
import { type Header, type NamedLimit, type Told, violatedIn } from "./items.ts";
import { partitionOf } from "./partition.ts";
import { respond } from "./respond.ts";
import { routeTable } from "./route-table.ts";
import { share, type Shared, sharedOf } from "./shared.ts";
import { userFunctions } from "./user-functions.ts";

export type { Header } from "./items.ts";

/** What a framework does with a request: `headers` go onto the response, whoever writes it. */
export type Ruling =
  /** Not limited: the limiter leaves no trace. Also a request that this limiter has let pass before. */
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
      readonly refusal: Refusal;
    };

/** How a response ended. */
export interface ResponseEnd {
  readonly status: number | undefined;
  readonly aborted: boolean;
}

/** All that a middleware decides before it knows its framework. */
export interface Guard<R = any, S = any> {
  /** `done` may be called at once. It is called exactly once. */
  rule(asked: Asked<R>, done: (ruling: Ruling) => void): void;
  /**
   * Rules, and does to the response what the ruling says. `done` hears whether the request goes on; when it does not,
   * it is answered, or will be by whoever began to.
   */
  handle(exchange: Exchange<R, S>, done: (passes: boolean) => void): void;
  /**
   * A guard of these policies and more, in the same store. What this one has been asked about a request, that one does
   * not ask again.
   *
   * @throws ConfigError for the first setting that cannot work
   */
  with(extension: Extension<R>): Guard<R, S>;
  /**
   * Checks what a route says of its own limits, before any request meets it.
   *
   * @param name the route's, as {@link Asked.route}
   * @throws ConfigError for the first setting that cannot work
   */
  check(name: string, override: RouteOverride<R>): void;
  readonly limiter: Limiter;
}

/** Policies as a request meets them, and what is the same for every request. */
interface Prepared<R> {
  readonly policies: readonly (NamedPolicy<R> & { readonly by: IdentitySource<R> })[];
  /** Each asked once per request, however many policies count by it. */
  readonly sources: readonly IdentitySource<R>[];
  /** This process's own policies, for a time without a store. */
  readonly local: readonly (NamedPolicy<R> & { readonly by: IdentitySource<R> })[];
  readonly localLimits: readonly NamedLimit[];
  readonly limits: readonly NamedLimit[] | undefined;
  readonly policyField: string | undefined;
}

/**
 * The part of every framework's middleware that is the same.
 *
 * @throws ConfigError for the first setting that cannot work
 */
export function createGuard<R = any, S = any>(config: Config<R, S>, framework?: Framework<R>): Guard<R, S> {
  const engine = createEngine<R, S>(config);
  return guardOn(engine, config, framework, undefined);
}

function guardOn<R, S>(
  engine: Engine<R, S>,
  config: Config<R, S>,
  framework: Framework<R> | undefined,
  added: Added<R> | undefined,
): Guard<R, S> {
  const { settings, events } = engine;
  const byAddress: IdentitySource<R> = ip();
  const functions = userFunctions(settings, events);
  const limiter = limiterOf(engine);
  const planInTable = routeTable(settings.routes, framework);
  const exposed = settings.headers.expose ? exposedFields(settings.headers) : [];
  const plans = new Map<Plan<R>, Plan<R>>();
  const ownPlans = new WeakMap<object, Plan<R>>();
  const preparations = new WeakMap<Plan<R>, Prepared<R>>();
  /** Route names that a reset knows. */
  const known = new Set<string>();
  for (const plan of [settings.plan, ...settings.routes.map(({ plan }) => plan)])
    if (plan) warnOfUnverifiedKeys(preparedOf(extended(plan)));

  function warnOfUnverifiedKeys({ policies }: Prepared<R>): void {
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

  function warnOfTrust(whom: Trust["whom"]): void {
    const setting = settings.proxies || !framework ? "trustProxy" : framework.trustSetting;
    if (whom === "nobody") {
      events.warnOnce(
        "TIDEGATE_FORWARDED_UNTRUSTED",
        `A request came with X-Forwarded-For, and no proxy is believed: the address of its peer was counted. Behind a proxy set ${setting}, or everybody counts as that proxy.`,
      );
    } else if (whom === "everybody") {
      events.warnOnce(
        "TIDEGATE_TRUSTS_EVERYBODY",
        `Every proxy is believed, so clients choose their own address by X-Forwarded-For: name your proxies in ${setting}.`,
      );
    }
  }

  /** The plan with what this guard adds to it. */
  function extended(plan: Plan<R>): Plan<R> {
    if (!added) return plan;
    let whole = plans.get(plan);
    if (!whole) plans.set(plan, (whole = extendedPlan(plan, added)));
    return whole;
  }

  function preparedOf(plan: Plan<R>): Prepared<R> {
    let prepared = preparations.get(plan);
    if (!prepared) preparations.set(plan, (prepared = prepare(plan.policies, plan.failure.local)));
    return prepared;
  }

  function prepare(named: readonly NamedPolicy<R>[], ofThisProcess: readonly NamedPolicy<R>[]): Prepared<R> {
    const withBy = (policy: NamedPolicy<R>) => ({ ...policy, by: policy.by ?? byAddress });
    const [policies, local] = [named.map(withBy), ofThisProcess.map(withBy)];
    const limits = policies.some(({ choose }) => choose) ? undefined : shownLimits(policies);
    return {
      policies,
      local,
      sources: [...new Set([...policies, ...local].map(({ by }) => by))],
      localLimits: shownLimits(local),
      limits,
      policyField: limits && !settings.headers.partitionKey ? fixedPolicyField(limits) : undefined,
    };
  }

  /** What the matched route says of its own limits. Worked out once for each: its options never change. */
  function ownPlan({ routeOptions, route = "404" }: Asked<R>): Plan<R> | false | undefined {
    const override = routeOptions?.rateLimit;
    if (!routeOptions || override === undefined) return undefined;
    if (override === false) return false;
    let plan = ownPlans.get(routeOptions);
    if (!plan) ownPlans.set(routeOptions, (plan = checkedPlan(route, override)));
    return plan;
  }

  function checkedPlan(name: string, override: RouteOverride<R>): Plan<R> {
    const plan = routePlan(config, settings.plan, name, override);
    engine.learn(plan);
    warnOfUnverifiedKeys(preparedOf(extended(plan)));
    return plan;
  }

  function rule(asked: Asked<R>, done: (ruling: Ruling) => void): void {
    if (!settings.countsPreflights && isPreflight(asked)) return done({ kind: "skip" });
    const plan = ownPlan(asked) ?? planInTable(asked) ?? settings.plan;
    if (plan === false) return done({ kind: "skip" });
    const context = new HttpContext(asked, settings.proxies, warnOfTrust);
    if (settings.denies || settings.allows) {
      const address = context.address ?? context.peer;
      if (address !== undefined && settings.denies?.(address)) return deny(extended(plan), asked, done);
      if (address !== undefined && settings.allows?.(address)) return done({ kind: "skip" });
    }
    const deadline = performance.now() + (settings.functionTimeoutMs ?? settings.timeoutMs);
    then(functions.skips(context, deadline), (skip) => {
      if (skip) return done({ kind: "skip" });
      decide(extended(plan), asked, context, deadline, done);
    });
  }

  function decide(
    plan: Plan<R>,
    asked: Asked<R>,
    context: HttpContext<R>,
    deadline: number,
    done: (ruling: Ruling) => void,
  ): void {
    const fresh = freshIn(plan, sharedOf(asked.raw));
    if (fresh !== plan.policies) {
      if (!added) noteSecondTime();
      if (fresh.length === 0) return done({ kind: "skip" });
    }
    const prepared = fresh === plan.policies ? preparedOf(plan) : prepare(fresh, plan.failure.local);
    share(asked.raw).asked.push(fresh);
    const { identityOf, policyOf, costOf, idempotencyKeyOf } = functions;
    const { policies, sources } = prepared;
    // All are begun before one is waited for.
    const identities = all(sources.map((source) => identityOf(source, context, deadline)));
    const chosen = all(policies.map((named) => policyOf(named, context, deadline)));
    const cost = costOf(plan.cost, context, deadline);
    const key = idempotencyKeyOf(context, deadline);
    then(all([identities, chosen, cost, key] as const), ([who, which, units, idempotencyKey]) => {
      if (who.some(isNobody)) warnOfNoAddress();
      const own = all(
        which.map(({ cost }) => (cost === undefined ? units : costOf(cost, context, deadline))),
      );
      const route = who.some(({ perRoute }) => perRoute) ? routeOf(plan, asked) : undefined;
      then(own, (costs) => {
        const parts = policies.map((named, i): Part => {
          const identity = who[sources.indexOf(named.by)]!;
          return {
            name: named.name,
            segment: segmentOf(named, identity.perRoute, route),
            policy: which[i]!,
            identity,
            cost: costs[i]!,
            ownCost: which[i]!.cost !== undefined,
          };
        });
        const local = () =>
          prepared.local.map(({ name, segment, policy, by }): Part => {
            const own = typeof policy.cost === "number" ? policy.cost : undefined;
            const identity = who[sources.indexOf(by)]!;
            return { name, segment, policy, identity, cost: own ?? units, ownCost: own !== undefined };
          });
        const { rule: failure } = plan.failure;
        const question = {
          parts,
          cost: units,
          deadline: storeDeadline(deadline),
          idempotencyKey,
          failure,
          local,
        };
        engine.decide(question, (decision) => {
          const told = decision.degraded?.rule === "local" ? local() : parts;
          done(rulingOf(decision, told, prepared, plan, asked));
        });
      });
    });
  }

  /** Where functions have a time of their own, the store has all of its. */
  const storeDeadline = (ofFunctions: number): number =>
    settings.functionTimeoutMs === undefined ? ofFunctions : performance.now() + settings.timeoutMs;

  function noteSecondTime(): void {
    events.note(
      "TIDEGATE_COUNTED_ONCE",
      "A request met this limiter more than once, and was counted once: it may be mounted on the application and on a route.",
    );
  }

  /** The name under which a policy counts this route for itself. */
  function routeOf({ route }: Plan<R>, asked: Asked<R>): string | undefined {
    const name = route ?? asked.route;
    if (name !== undefined && !known.has(name)) {
      known.add(name);
      engine.learnRoute(name);
    }
    return name;
  }

  function deny(plan: Plan<R>, asked: Asked<R>, done: (ruling: Ruling) => void): void {
    const decision = blockedDecision(plan.policies, 1, Infinity, Date.now() * 1000);
    const limits = shownLimits(plan.policies);
    done(
      refuse(decision, { decision, limits, costs: [], partitions: undefined, policyField: undefined }, asked),
    );
  }

  function rulingOf(
    decision: Decision,
    parts: readonly Part[],
    { limits, policyField, localLimits }: Prepared<R>,
    plan: Plan<R>,
    asked: Asked<R>,
  ): Ruling {
    const shown = parts.filter(isShown);
    const local = decision.degraded?.rule === "local";
    const told: Told = {
      decision,
      limits: local ? localLimits : (limits ?? shownLimits(shown)),
      costs: shown.map(({ cost }) => cost),
      partitions: partitionsOf(shown, asked),
      policyField: local ? undefined : policyField,
    };
    if (!decision.allowed) return refuse(decision, told, asked);
    const { told: everybody } = share(asked.raw);
    everybody.push(told);
    const headers = fieldsOf(everybody, settings.headers, undefined);
    return { kind: "pass", decision, headers, settle: settlerOf(decision, plan, asked) };
  }

  function refuse(decision: Decision, told: Told, asked: Asked<R>): Ruling {
    const { told: everybody } = share(asked.raw);
    everybody.push(told);
    const closed = decision.degraded?.rule === "closed";
    const retryAfterSeconds = retryAfter(decision, settings.headers);
    const headers = fieldsOf(everybody, settings.headers, retryAfterSeconds);
    const refusal: Refusal = {
      kind: closed ? "closed" : decision.blocked ? "blocked" : "limit",
      decision,
      status: closed ? 503 : 429,
      retryAfterSeconds,
      violatedPolicies: violatedIn(everybody),
    };
    return { kind: "refuse", decision, headers: [...headers, ["Cache-Control", "no-store"]], refusal };
  }

  function partitionsOf(parts: readonly Part[], { request }: Asked<R>): Told["partitions"] {
    const setting = settings.headers.partitionKey;
    if (!setting) return undefined;
    return parts.map(({ name, identity }) => {
      try {
        const partition = partitionOf(setting, name, identityText(identity), request);
        if (partition === undefined)
          events.fault("TIDEGATE_PARTITION_FAULT", "The partition key function gave no Uint8Array");
        return partition;
      } catch (error) {
        const kind = error instanceof Error ? error.name : typeof error;
        events.fault("TIDEGATE_PARTITION_FAULT", `The partition key function threw ${kind}`);
        return undefined;
      }
    });
  }

  function settlerOf(
    decision: Decision,
    { settle }: Plan<R>,
    { request }: Asked<R>,
  ): ((end: ResponseEnd) => void) | undefined {
    if (!decision.receipt || (!settle && decision.receipt.lease === undefined)) return undefined;
    return ({ status, aborted }) => {
      const deadline = performance.now() + settings.timeoutMs;
      const outcome = functions.settlementOf(settle, { request, status, aborted }, deadline);
      // A store that cannot be asked has been reported; the charge stays.
      then(outcome, (settlement) => engine.settle(decision, settlement, () => {}));
    };
  }

  return {
    rule,
    handle(exchange, done) {
      rule(exchange, (ruling) => respond(exchange, ruling, { settings, events, functions, exposed }, done));
    },
    with(extension) {
      const more = additionOf(config, settings.plan, extension);
      checkExtension([...settings.plan.policies, ...(added?.policies ?? [])], more.policies);
      engine.learn(more);
      return guardOn(engine, config, framework, joined(added, more));
    },
    check: (name, override) => void checkedPlan(name, override),
    limiter,
  };
}

/** The policies of a plan that nobody has asked about this request. */
function freshIn<R>({ policies }: Plan<R>, shared: Shared | undefined): readonly NamedPolicy<R>[] {
  if (!shared || shared.asked.length === 0) return policies;
  const isFresh = (policy: NamedPolicy<R>) => !shared.asked.some((asked) => asked.includes(policy));
  return policies.every(isFresh) ? policies : policies.filter(isFresh);
}

/** What one limiter adds, and another on top of it. */
const joined = <R>(first: Added<R> | undefined, second: Added<R>): Added<R> => ({
  policies: [...(first?.policies ?? []), ...second.policies],
  cost: second.cost ?? first?.cost,
  onFailure: second.onFailure ?? first?.onFailure,
  settle: second.settle ?? first?.settle,
  sharing: second.sharing,
});

/** A CORS preflight. It carries no credentials, and a browser makes it before the request that counts. source: Fetch §3.2 */
const isPreflight = (asked: Asked): boolean =>
  asked.method === "OPTIONS" &&
  asked.header("origin") !== undefined &&
  asked.header("access-control-request-method") !== undefined;

/** A policy on trial is not shown. */
const isShown = ({ policy }: { readonly policy: NamedPolicy["policy"] }): boolean =>
  policy.mode === "enforce";

const shownLimits = (
  parts: readonly { readonly name: string; readonly policy: NamedPolicy["policy"] }[],
): NamedLimit[] =>
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
