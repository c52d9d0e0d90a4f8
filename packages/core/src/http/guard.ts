import type { Policy } from "../algorithms/policy.ts";
import type { Config, Extension, RouteOverride } from "../config.ts";
import { createEngine, type Engine } from "../engine.ts";
import type { Part } from "../explain.ts";
import { NO_ADDRESS } from "../identity/address.ts";
import type { Identity } from "../identity/identity.ts";
import { type Limiter, limiterOf } from "../limiter.ts";
import { type NamedPolicy, segmentOf } from "../named-policies.ts";
import { type Added, additionOf, checkExtension, extendedPlan, type Plan, routePlan } from "../plans.ts";
import { HttpContext } from "./context.ts";
import type { Asked, Exchange, Framework } from "./exchange.ts";
import { exposedFields } from "./headers.ts";
import { all, whenKnown } from "./maybe.ts";
import { type Prepared, prepare } from "./prepared.ts";
import { respond } from "./respond.ts";
import { routeTable } from "./route-table.ts";
import { type Ruling, rulingsOf } from "./ruling.ts";
import { share, type Shared, sharedOf } from "./shared.ts";
import { userFunctions } from "./user-functions.ts";
import { warningsOf } from "./warnings.ts";

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
  /** The same limits without HTTP, and what people do by hand: `peek`, `reset`, `block`, `health`, `close`. */
  readonly limiter: Limiter;
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
  const functions = userFunctions(settings, events);
  const rulings = rulingsOf(engine, functions);
  const warnings = warningsOf(events, settings.proxies || !framework ? "trustProxy" : framework.trustSetting);
  const partitioned = settings.headers.partitionKey !== undefined;
  const limiter = limiterOf(engine);
  const planInTable = routeTable(settings.routes, framework);
  const functionsMs = settings.functionTimeoutMs ?? settings.timeoutMs;
  const exposed = settings.headers.expose ? exposedFields(settings.headers) : [];
  const plans = new Map<Plan<R>, Plan<R>>();
  const ownPlans = new WeakMap<object, Plan<R>>();
  const preparations = new WeakMap<Plan<R>, Prepared<R>>();
  /** Route names that a reset knows. */
  const known = new Set<string>();
  for (const plan of [settings.plan, ...settings.routes.map(({ plan }) => plan)])
    if (plan) warnings.unverifiedKeys(preparedOf(extended(plan)));

  /** The plan with what this guard adds to it. */
  function extended(plan: Plan<R>): Plan<R> {
    if (!added) return plan;
    let whole = plans.get(plan);
    if (!whole) plans.set(plan, (whole = extendedPlan(plan, added)));
    return whole;
  }

  function preparedOf(plan: Plan<R>): Prepared<R> {
    let prepared = preparations.get(plan);
    if (!prepared)
      preparations.set(plan, (prepared = prepare(plan.policies, plan.failure.local, partitioned)));
    return prepared;
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
    warnings.unverifiedKeys(preparedOf(extended(plan)));
    return plan;
  }

  function rule(asked: Asked<R>, done: (ruling: Ruling) => void): void {
    if (!settings.countsPreflights && isPreflight(asked)) return done({ kind: "skip" });
    const plan = ownPlan(asked) ?? planInTable(asked) ?? settings.plan;
    if (plan === false) return done({ kind: "skip" });
    const context = new HttpContext(asked, settings.proxies, warnings.trust);
    if (settings.denies || settings.allows) {
      const address = context.address ?? context.peer;
      if (address !== undefined && settings.denies?.(address))
        return done(rulings.denied(extended(plan), asked, share(asked.raw)));
      if (address !== undefined && settings.allows?.(address)) return done({ kind: "skip" });
    }
    const begun = performance.now();
    if (!settings.skip) return decide(extended(plan), asked, context, begun, done);
    const deadline = begun + leftOf(functionsMs, sharedOf(asked.raw));
    whenKnown(functions.skips(context, deadline), (skip) => {
      if (skip) return done({ kind: "skip" });
      decide(extended(plan), asked, context, begun, done);
    });
  }

  /** @param begun when this limiter met the request, ms of `performance.now()` */
  function decide(
    plan: Plan<R>,
    asked: Asked<R>,
    context: HttpContext<R>,
    begun: number,
    done: (ruling: Ruling) => void,
  ): void {
    // Found once: where each request has a shape of its own, as in Express, every look at it is slow.
    const shared = share(asked.raw);
    const deadline = begun + leftOf(functionsMs, shared);
    const fresh = freshIn(plan, shared);
    if (fresh !== plan.policies) {
      if (!added) warnings.secondTime();
      if (fresh.length === 0) return done({ kind: "skip" });
    }
    const prepared =
      fresh === plan.policies ? preparedOf(plan) : prepare(fresh, plan.failure.local, partitioned);
    shared.asked.push(fresh);
    askFunctions(plan, prepared, context, deadline, (answers) => {
      if (answers.who.some(isNobody)) warnings.noAddress();
      const route = answers.who.some(({ perRoute }) => perRoute) ? routeOf(plan, asked) : undefined;
      const parts = partsOf(prepared, answers, route);
      const local = () => localPartsOf(prepared, answers);
      const start = performance.now();
      const question = {
        parts,
        cost: answers.units,
        // Where functions have a time of their own, the store has all of its.
        deadline:
          settings.functionTimeoutMs === undefined ? deadline : start + leftOf(settings.timeoutMs, shared),
        idempotencyKey: answers.idempotencyKey,
        failure: plan.failure.rule,
        local,
        fresh: plan.settle !== undefined,
      };
      engine.decide(question, (decision) => {
        shared.waitedMs += performance.now() - start;
        const told = decision.degraded?.rule === "local" ? local() : parts;
        done(rulings.of(decision, told, prepared, plan, asked, shared));
      });
    });
  }

  /** Asks the configuration's functions about a request. All are begun before one is waited for. */
  function askFunctions(
    plan: Plan<R>,
    { policies, sources, local, localAsks }: Prepared<R>,
    context: HttpContext<R>,
    deadline: number,
    go: (answers: Answers) => void,
  ): void {
    const { identityOf, policyOf, costOf, idempotencyKeyOf } = functions;
    const identities = all(sources.map((source) => identityOf(source, context, deadline)));
    const chosen = all(policies.map((named) => policyOf(named, context, deadline)));
    const cost = costOf(plan.cost, context, deadline);
    const key = idempotencyKeyOf(context, deadline);
    whenKnown(all([identities, chosen, cost, key] as const), ([who, which, units, idempotencyKey]) => {
      const own = which.map(({ cost }) => (cost === undefined ? units : costOf(cost, context, deadline)));
      if (!localAsks)
        return whenKnown(all(own), (costs) =>
          go({ who, which, units, costs, localCosts: undefined, idempotencyKey }),
        );
      // A share of a policy asks the same function as the policy: once is enough.
      const ofLocal = local.map(({ policy: { cost } }) => {
        if (typeof cost !== "function") return cost;
        const same = which.findIndex((policy) => policy.cost === cost);
        return same < 0 ? costOf(cost, context, deadline) : own[same]!;
      });
      whenKnown(all([all(own), all(ofLocal)] as const), ([costs, localCosts]) =>
        go({ who, which, units, costs, localCosts, idempotencyKey }),
      );
    });
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

/** What the functions of a configuration say of a request. */
interface Answers {
  /** By source. */
  readonly who: readonly Identity[];
  /** By policy. */
  readonly which: readonly Policy[];
  readonly costs: readonly number[];
  /** Of this process's own policies, where functions say so. */
  readonly localCosts: readonly (number | undefined)[] | undefined;
  /** What a request costs where a policy has no cost of its own. */
  readonly units: number;
  readonly idempotencyKey: string | undefined;
}

function partsOf(
  { policies, sources }: Prepared,
  { who, which, costs }: Answers,
  route: string | undefined,
): Part[] {
  return policies.map((named, i): Part => {
    const identity = who[sources.indexOf(named.by)]!;
    const policy = which[i]!;
    return {
      name: named.name,
      segment: segmentOf(named, identity.perRoute, route),
      policy,
      identity,
      cost: costs[i]!,
      ownCost: policy.cost !== undefined,
      varies: named.choose !== undefined,
    };
  });
}

/** Of this process's own policies. */
function localPartsOf({ local, sources }: Prepared, { who, units, localCosts }: Answers): Part[] {
  return local.map(({ name, segment, policy, by }, i): Part => {
    const own = localCosts ? localCosts[i] : (policy.cost as number | undefined);
    const identity = who[sources.indexOf(by)]!;
    return { name, segment, policy, identity, cost: own ?? units, ownCost: own !== undefined };
  });
}

/** The policies of a plan that nobody has asked about this request. */
function freshIn<R>({ policies }: Plan<R>, shared: Shared): readonly NamedPolicy<R>[] {
  if (shared.asked.length === 0) return policies;
  const isFresh = (policy: NamedPolicy<R>) => !shared.asked.some((asked) => asked.includes(policy));
  return policies.every(isFresh) ? policies : policies.filter(isFresh);
}

/** Limiters of one request share the time that one has, ms: what it has waited for others is taken from it. */
const leftOf = (ms: number, shared: Shared | undefined): number => Math.max(0, ms - (shared?.waitedMs ?? 0));

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

const isNobody = ({ kind, value }: Identity): boolean => kind === "ip" && value === NO_ADDRESS;
