import { TAGS } from "./algorithms/index.ts";
import { ioredisClient, isIoredis } from "./clients/ioredis.ts";
import type { Config, Settlement } from "./config.ts";
import type { Charge, Decision } from "./decision.ts";
import { ConfigError, StoreError, type StoreErrorClass } from "./errors.ts";
import { explain, type Part } from "./explain.ts";
import { withDeadline } from "./failure/deadline.ts";
import { withBreaker } from "./failure/breaker.ts";
import { degradedDecision, inPlaceOf, LocalMemory } from "./failure/fallback.ts";
import { Health, type HealthReport } from "./failure/health.ts";
import { type Identity, identityText } from "./identity/identity.ts";
import { blockKeyOf, digest, keyOf, nonceKeyOf } from "./identity/key.ts";
import { uniqueId } from "./ids.ts";
import { Leases } from "./leases.ts";
import { decisionsAreWatched, tellBreaker, tellDecision, tellLate } from "./observe/channels.ts";
import { Events } from "./observe/events.ts";
import { type Failure } from "./failure-rules.ts";
import { segmentOf } from "./named-policies.ts";
import { type Plan } from "./plans.ts";
import { type Open, OwnReceipt } from "./receipt.ts";
import { type Settings, settingsOf } from "./settings.ts";
import { memoryStore } from "./stores/memory.ts";
import { redisStore } from "./stores/redis.ts";
import type { Changed, Check, Move, Outcome, Store } from "./stores/store.ts";
import { coalesce } from "./tiers/coalesce.ts";
import { direct } from "./tiers/tier.ts";

/** A question whose parts are known to be sound. */
export interface Question {
  /** What answers when the store cannot. */
  readonly failure: Failure["rule"];
  /** The parts of this process's own policies, should the rule be `local`. */
  readonly local: () => readonly Part[];
  readonly parts: readonly Part[];
  /** What the request costs where a policy has no cost of its own. */
  readonly cost: number;
  /** Milliseconds of `performance.now()`. The store gets a little time in any case. */
  readonly deadline: number;
  readonly peek?: boolean;
  /** The same question with the same key is charged once. */
  readonly idempotencyKey?: string | undefined;
}

/** The limiter inside: by callback, which may run at once. */
export interface Engine<R = any, S = any> {
  readonly settings: Settings<R, S>;
  readonly events: Events;
  decide(question: Question, done: (decision: Decision) => void): void;
  /**
   * What comes after a decision: once, whoever asks how often. Leases are given back in any case.
   * Tells how many units were moved.
   */
  settle(decision: Decision, outcome: Settlement, done: Changed): void;
  /** Policies that a reset is to find, besides those of the configuration and its routes. */
  learn(plan: Pick<Plan<R>, "policies">): void;
  /** Routes that a reset is to find where policies count each for itself, besides those of the configuration. */
  learnRoute(name: string): void;
  /** The names of all policies that a reset finds. */
  names(): string[];
  reset(identity: Identity, names: readonly string[] | undefined, done: Changed): void;
  /** For `ms`, or for ever when `Infinity`. */
  block(identity: Identity, ms: number, reason: string, done: Changed): void;
  unblock(identity: Identity, done: Changed): void;
  /** Whether the store answers. */
  health(): HealthReport;
  /** A decision whose units are to come back when the limiter is closed and nobody has settled it by then. */
  reserved(decision: Decision): void;
  /** Called whenever leases were given back: there may be room for who waits. */
  onRelease(listener: () => void): void;
  close(): Promise<void>;
}

/** @throws ConfigError for the first setting that cannot work */
export function createEngine<R, S>(config: Config<R, S>): Engine<R, S> {
  const settings = settingsOf(config);
  const events = new Events(settings.onEvent, settings.prefix);
  const local = new LocalMemory();
  const health = new Health(events, () => local.drop());
  const store = storeOf(config);
  const ours = config.store === undefined;
  const breaker = withBreaker(
    withDeadline(store.batches ? coalesce(store) : direct(store)),
    settings.timeoutMs,
    {
      changed: (isOpen) => tellBreaker(settings.prefix, isOpen),
      answered: () => health.answered(),
    },
  );
  store.onConnected?.(() => breaker.look());
  const reservations = new Set<Decision>();
  /** Decisions whose slots in flight this process holds. */
  const inFlight = new Set<Decision>();
  let closing: Promise<void> | undefined;
  const leases = new Leases(store);
  const releaseListeners: (() => void)[] = [];
  const policies = new Set(settings.plan.policies);
  const routes = new Set(settings.routes.map(({ name }) => name));
  for (const { plan } of settings.routes) if (plan) learn(plan);
  if (config.redis === undefined && config.store === undefined && process.env["NODE_ENV"] === "production") {
    events.warnOnce(
      "TIDEGATE_NO_SHARED_STORE",
      "There is no redis in the configuration, and NODE_ENV is production: every process counts for itself. Give redis, or store: memoryStore() if that is meant.",
    );
  }
  // However long a request's own functions took, the store is asked: a slow one is no way to pass uncounted.
  const leastMs = settings.timeoutMs / 4;

  function checkOf({ parts, deadline, peek = false, idempotencyKey }: Question): Check {
    const identities = parts.map(({ identity }) => identity);
    const takesLease = !peek && parts.some(({ policy, cost }) => policy.algorithm.renew && cost > 0);
    // Two requests in flight are two, whatever key they bring: a slot is never shared.
    const replayable = idempotencyKey !== undefined && !takesLease;
    const nonce = replayable && nonceKeyOf(settings.prefix, identities[0]!, binding(idempotencyKey, parts));
    return {
      policies: parts.map(({ policy }) => policy),
      keys: parts.map(({ segment, policy, identity }) =>
        keyOf(settings.prefix, identity, segment, policy.algorithm.tag),
      ),
      costs: parts.map(({ cost }) => cost),
      deadline: Math.max(deadline, performance.now() + leastMs),
      peek,
      blocks: settings.blocking
        ? [...new Set(identities.map((identity) => blockKeyOf(settings.prefix, identity)))]
        : [],
      lease: takesLease ? uniqueId() : undefined,
      nonce: nonce ? { key: nonce, keepMs: settings.idempotencyMs } : undefined,
    };
  }

  function decide(question: Question, done: (decision: Decision) => void): void {
    if (!decisionsAreWatched()) return ask(question, done);
    const start = performance.now();
    ask(question, (decision) => {
      const names = question.parts.map(({ name }) => name);
      tellDecision(settings.prefix, names, decision, performance.now() - start);
      done(decision);
    });
  }

  function ask(question: Question, done: (decision: Decision) => void): void {
    const { parts, cost } = question;
    const check = checkOf(question);
    let passed = false;
    const decisionOf = (outcome: Outcome): Decision => {
      const decision = explain(parts, cost, check, outcome);
      if (decision.receipt) remember(decision, parts, check.nonce?.key, store);
      return decision;
    };
    breaker.decide(
      check,
      (error, outcome) => {
        if (outcome) {
          health.answered();
          return done(decisionOf(outcome));
        }
        const failure = error ?? new StoreError("unknown", "the store gave no answer");
        health.failed(failure);
        events.emit({ type: "degraded", rule: question.failure, reason: failure.reason });
        degrade(question, failure.reason, (decision) => {
          passed = decision.allowed;
          done(decision);
        });
      },
      // The rule has answered. What passed by it stays charged, what did not is given back, and a slot
      // in flight that nobody knows of is free again.
      (outcome) => {
        tellLate(settings.prefix, "late");
        settle(decisionOf(outcome), passed ? "keep" : "giveBack", () => {});
      },
    );
  }

  /** The failure rule's answer. */
  function degrade(question: Question, reason: StoreErrorClass, done: (decision: Decision) => void): void {
    const { failure: rule, cost } = question;
    if (rule !== "local") return done(degradedDecision(rule, reason, cost));
    const parts = question.local();
    const check = checkOf({ ...question, parts, idempotencyKey: undefined });
    const memory = local.store;
    memory.decide(
      [check],
      [
        (_, outcome) => {
          if (!outcome) return done(degradedDecision("closed", reason, cost));
          const decision = inPlaceOf(explain(parts, cost, check, outcome), { rule, reason });
          if (decision.receipt) remember(decision, parts, undefined, memory);
          done(decision);
        },
      ],
    );
  }

  function remember(
    decision: Decision,
    parts: readonly Part[],
    nonce: string | undefined,
    where: Store,
  ): void {
    const { charges, lease } = decision.receipt!;
    OwnReceipt.open(decision.receipt!, { parts, nonce, store: where });
    if (lease === undefined) return;
    inFlight.add(decision);
    const leased = charges.flatMap((charge) => {
      const { policy } = partOf(charge, parts);
      return policy.algorithm.renew ? [{ charge, policy }] : [];
    });
    if (leased.length > 0 && where === store) leases.hold(lease, leased);
  }

  function settle(decision: Decision, outcome: Settlement, done: Changed): void {
    const { receipt } = decision;
    const known = receipt && OwnReceipt.take(receipt);
    if (!known) return done(undefined, 0);
    inFlight.delete(decision);
    reservations.delete(decision);
    const moves = receipt.charges.flatMap((charge): Move[] => {
      const { key, units, mark, policy: name } = charge;
      const { policy, ownCost } = partOf(charge, known.parts);
      const move = { policy, key, mark, lease: receipt.lease };
      if (policy.algorithm.renew) return [{ ...move, kind: "credit", units }];
      const less = units - actualOf(outcome, name, units, ownCost);
      if (less === 0) return [];
      return [{ ...move, kind: less > 0 ? "credit" : "debit", units: Math.abs(less) }];
    });
    if (receipt.lease !== undefined) leases.drop(receipt.lease);
    if (moves.length === 0) return done(undefined, 0);
    // What was given back whole may not be had again for nothing: the next try is charged.
    if (known.nonce !== undefined && outcome === "giveBack") store.forget([known.nonce], () => {});
    known.store.settle(moves, (error, changed) => {
      if (error) health.failed(error);
      if (receipt.lease !== undefined) for (const listener of releaseListeners) listener();
      done(error, changed);
    });
  }

  function learn(plan: Pick<Plan<R>, "policies">): void {
    for (const policy of plan.policies) policies.add(policy);
  }

  function audit(
    action: "reset" | "block" | "unblock",
    identity: Identity,
    reason: string,
    done: Changed,
  ): Changed {
    return (error, changed) => {
      if (!error) events.emit({ type: "audit", action, identity: identityText(identity), reason });
      done(error, changed);
    };
  }

  /** Gives back what this process holds, for as long as a decision may take, and then lets go. */
  async function close(): Promise<void> {
    leases.stop();
    breaker.stop();
    // Whoever watches is not to take a limiter that has gone for one in trouble.
    if (breaker.isOpen) tellBreaker(settings.prefix, false);
    const left: [Decision, Settlement][] = [
      ...[...reservations].map((decision): [Decision, Settlement] => [decision, "giveBack"]),
      ...[...inFlight].map((decision): [Decision, Settlement] => [decision, "keep"]),
    ];
    const given = left.map(
      ([decision, outcome]) => new Promise<void>((resolve) => settle(decision, outcome, () => resolve())),
    );
    if (given.length > 0) await atMost(settings.timeoutMs, Promise.all(given));
    local.drop();
    if (ours) await store.close();
  }

  return {
    settings,
    events,
    decide,
    settle,
    learn,
    learnRoute: (name) => void routes.add(name),
    names: () => [...new Set([...policies].map(({ name }) => name))],
    reset(identity, names, done) {
      const chosen = [...policies].filter(({ name }) => names?.includes(name) ?? true);
      const keys = chosen.flatMap((named) => {
        const { policy, choose, by } = named;
        // A policy that counts all together is forgotten when it is asked for by name.
        const who = (names && by?.constant) ?? identity;
        const places = by?.perRoute ? [undefined, ...routes] : [undefined];
        const segments = places.map((route) => segmentOf(named, by?.perRoute, route));
        const tags = choose ? TAGS : [policy.algorithm.tag];
        return segments.flatMap((segment) => tags.map((tag) => keyOf(settings.prefix, who, segment, tag)));
      });
      const told = [...new Set(chosen.map(({ name }) => name))].join(", ");
      store.forget([...new Set(keys)], audit("reset", identity, told, done));
    },
    block(identity, ms, reason, done) {
      store.block(blockKeyOf(settings.prefix, identity), ms, reason, audit("block", identity, reason, done));
    },
    unblock(identity, done) {
      store.forget([blockKeyOf(settings.prefix, identity)], audit("unblock", identity, "", done));
    },
    onRelease: (listener) => void releaseListeners.push(listener),
    health: () => health.report(breaker.isOpen, store.isConnected?.() ?? true),
    reserved: (decision) => void (decision.receipt && reservations.add(decision)),
    close: () => (closing ??= close()),
  };
}

/** Waits for a promise, or so long. */
async function atMost(ms: number, promise: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)));
  await Promise.race([promise, over]);
  clearTimeout(timer);
}

const partOf = ({ policy }: Charge, parts: Open["parts"]): Open["parts"][number] =>
  parts.find(({ name }) => name === policy)!;

/** What a request turned out to cost a policy. */
function actualOf(outcome: Settlement, name: string, units: number, ownCost: boolean): number {
  if (outcome === "keep") return units;
  if (outcome === "giveBack") return 0;
  if (typeof outcome === "number") return ownCost ? units : outcome;
  return outcome[name] ?? units;
}

/** An idempotency key together with everything that the question is made of. */
function binding(key: string, parts: readonly Part[]): string {
  const asked = parts.map(({ segment, policy: { algorithm, mode, numbers, calendar }, identity, cost }) => [
    segment,
    algorithm.tag,
    mode,
    numbers.a,
    numbers.b,
    numbers.c,
    calendar,
    identityText(identity),
    cost,
  ]);
  return digest(JSON.stringify([key, asked]));
}

function storeOf({ redis, store, shareConnection }: Config): Store {
  if (store !== undefined) {
    if (typeof store?.decide === "function") return store;
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "store", store, "give a store such as memoryStore()");
  }
  if (redis === undefined) return memoryStore();
  if (typeof redis === "string" || isIoredis(redis))
    return redisStore(ioredisClient(redis, { share: shareConnection ?? false }));
  const advice = "give a URL such as redis://localhost:6379, or an ioredis client";
  throw new ConfigError("TIDEGATE_CLIENT_UNKNOWN", "redis", redis, advice);
}
