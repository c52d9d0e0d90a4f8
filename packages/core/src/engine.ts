import type { Backend, BackendOptions, Watcher } from "./backends/backend.ts";
import { clusterBackend } from "./backends/cluster.ts";
import { withDenyCache } from "./backends/deny-cache.ts";
import { oneStore } from "./backends/one-store.ts";
import { withProcess } from "./backends/with-process.ts";
import type { ScriptClient } from "./clients/client.ts";
import { connectionOf } from "./clients/connection.ts";
import type { Config, Settlement } from "./config.ts";
import type { Charge, Decision } from "./decision.ts";
import { ConfigError, type StoreErrorClass } from "./errors.ts";
import { explain, type Part } from "./explain.ts";
import { degradedDecision, inPlaceOf, LocalMemory } from "./failure/fallback.ts";
import { Health, type HealthReport } from "./failure/health.ts";
import { nonceBeside } from "./identity/key.ts";
import { Leases } from "./leases.ts";
import { decisionsAreWatched, tellBatch, tellBreaker, tellDecision, tellLate } from "./observe/channels.ts";
import { Events } from "./observe/events.ts";
import { type Manage, manageOf } from "./manage.ts";
import { checkOf, type Question, seedOf } from "./question.ts";
import { type Open, OwnReceipt } from "./receipt.ts";
import { type Settings, settingsOf } from "./settings.ts";
import { otherShards, type Shards, someShards, sooner } from "./shards.ts";
import { memoryStore } from "./stores/memory.ts";
import { redisStore } from "./stores/redis.ts";
import type { Changed, Check, Move, Outcome, Store } from "./stores/store.ts";

/** The limiter inside: by callback, which may run at once. */
export interface Engine<R = any, S = any> extends Manage<R> {
  readonly settings: Settings<R, S>;
  readonly events: Events;
  decide(question: Question, done: (decision: Decision) => void): void;
  /**
   * What comes after a decision: once, whoever asks how often. Leases are given back in any case.
   * Tells how many units were moved.
   */
  settle(decision: Decision, outcome: Settlement, done: Changed): void;
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
  const overflowed = () =>
    events.warnOnce(
      "TIDEGATE_MEMORY_FULL",
      "The memory of this process is full of identities that are refused: whoever is new is counted together with all others who are. Give memoryStore({ maxEntries }) more, or limit earlier, by address.",
    );
  const local = new LocalMemory(overflowed, config.store?.nowUs);
  const health = new Health(events, settings.plan.failure.rule, () => local.drop());
  let breakersOpen = 0;
  const watcher: Watcher = {
    answered: (server) => health.answered(server),
    failed: (error, server) => health.failed(error, server),
    asked: (decisions) => tellBatch(settings.prefix, decisions),
    breaker(isOpen) {
      const before = breakersOpen;
      breakersOpen += isOpen ? 1 : -1;
      if (before === 0 || breakersOpen === 0) tellBreaker(settings.prefix, isOpen);
    },
  };
  const ofProcess = memoryStore({ nowUs: config.store?.nowUs });
  for (const memory of [ofProcess, config.store]) memory?.onOverflow?.(overflowed);
  const { timeoutMs, coalesces } = settings;
  const backend = backendOf(config, settings.denyMs, ofProcess, { timeoutMs, watcher, coalesces });
  const reservations = new Set<Decision>();
  /** Decisions whose slots in flight this process holds. */
  const inFlight = new Set<Decision>();
  let closing: Promise<void> | undefined;
  const leases = new Leases(backend);
  const releaseListeners: (() => void)[] = [];
  if (config.redis === undefined && config.store === undefined && process.env["NODE_ENV"] === "production") {
    events.warnOnce(
      "TIDEGATE_NO_SHARED_STORE",
      "There is no redis in the configuration, and NODE_ENV is production: every process counts for itself. Give redis, or store: memoryStore() if that is meant.",
    );
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
    const shards = someShards(question.parts, seedOf(question));
    if (!shards || question.idempotencyKey !== undefined) return askShards(question, shards, done);
    askShards(question, shards, (decision) => {
      const others =
        decision.allowed || decision.degraded || decision.blocked
          ? undefined
          : otherShards(question.parts, shards, decision);
      if (!others) return done(decision);
      askShards(question, others, (second) => done(second.allowed ? second : sooner(decision, second)));
    });
  }

  function askShards(
    question: Question,
    shards: Shards | undefined,
    done: (decision: Decision) => void,
  ): void {
    const { parts, cost } = question;
    const check = checkOf(settings, question, shards);
    let passed = false;
    const decisionOf = (outcome: Outcome): Decision => {
      const decision = explain(parts, cost, check, outcome);
      if (decision.receipt)
        remember(decision, shards ? asAsked(parts, check) : parts, check.nonce?.key, backend);
      return decision;
    };
    backend.decide(
      check,
      (error, outcome) => {
        if (outcome) return done(decisionOf(outcome));
        const reason = error?.reason ?? "unknown";
        events.emit({ type: "degraded", rule: question.failure, reason });
        degrade(question, reason, (decision) => {
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
    // What this process counts alone holds without a store too.
    const own = () => question.parts.filter(({ policy }) => policy.scope === "process");
    const parts = rule === "local" ? question.local() : rule === "open" ? own() : [];
    if (rule !== "local" && parts.length === 0) return done(degradedDecision(rule, reason, cost));
    const check = checkOf(settings, { ...question, parts, idempotencyKey: undefined });
    const memory = rule === "local" ? local.store : ofProcess;
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
    where: Backend | Store,
  ): void {
    const { charges, lease } = decision.receipt!;
    OwnReceipt.open(decision.receipt!, { parts, nonce, store: where });
    if (lease === undefined) return;
    inFlight.add(decision);
    const leased = charges.flatMap((charge) => {
      const { policy } = partOf(charge, parts);
      return policy.algorithm.renew ? [{ charge, policy }] : [];
    });
    if (leased.length > 0 && where === backend) leases.hold(lease, leased);
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
    if (known.nonce !== undefined && outcome === "giveBack") revoke(known.nonce, receipt.charges);
    known.store.settle(moves, (error, changed) => {
      if (receipt.lease !== undefined) for (const listener of releaseListeners) listener();
      done(error, changed);
    });
  }

  function revoke(nonce: string, charges: readonly Charge[]): void {
    const nonces = charges.map(({ key }) => nonceBeside(nonce, key));
    backend.revoke([...new Set([nonce, ...nonces])], () => {});
  }

  /** Gives back what this process holds, for as long as a decision may take, and then lets go. */
  async function close(): Promise<void> {
    events.end();
    leases.stop();
    backend.stop();
    const left: [Decision, Settlement][] = [
      ...[...reservations].map((decision): [Decision, Settlement] => [decision, "giveBack"]),
      ...[...inFlight].map((decision): [Decision, Settlement] => [decision, "keep"]),
    ];
    const given = left.map(
      ([decision, outcome]) => new Promise<void>((resolve) => settle(decision, outcome, () => resolve())),
    );
    if (given.length > 0) await atMost(settings.timeoutMs, Promise.all(given));
    local.drop();
    await backend.close();
  }

  return {
    settings,
    events,
    decide,
    settle,
    ...manageOf(settings, backend, events),
    onRelease: (listener) => void releaseListeners.push(listener),
    health: () => health.report(backend.isOpen, backend.isConnected),
    reserved: (decision) => void (decision.receipt && reservations.add(decision)),
    close: () => (closing ??= close()),
  };
}

/** The parts of a question, each with the shard's policy where there is one: units go back to where they came from. */
const asAsked = (parts: readonly Part[], { policies }: Check): Part[] =>
  parts.map((part, i) => ({ ...part, policy: policies[i]! }));

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
export function actualOf(outcome: Settlement, name: string, units: number, ownCost: boolean): number {
  if (outcome === "keep") return units;
  if (outcome === "giveBack") return 0;
  if (typeof outcome === "number") return ownCost ? units : outcome;
  return outcome[name] ?? units;
}

function backendOf(
  { redis, store, shareConnection, scripting = "scripts" }: Config,
  denyMs: number | undefined,
  ofProcess: Store,
  options: BackendOptions,
): Backend {
  const remembering = (backend: Backend) =>
    denyMs === undefined ? backend : withDenyCache(backend, { maxMs: denyMs });
  if (store !== undefined) {
    if (typeof store?.decide === "function")
      return withProcess(remembering(oneStore(store, { ...options, keepsStore: true })), ofProcess);
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "store", store, "give a store such as memoryStore()");
  }
  if (redis === undefined) return oneStore(ofProcess, options);
  const connection = connectionOf(redis, { share: shareConnection ?? false });
  const storeFor = (client: ScriptClient) => redisStore(client, { scripting });
  const backend =
    "cluster" in connection
      ? clusterBackend(connection.cluster, storeFor, options)
      : oneStore(storeFor(connection.client), options);
  return withProcess(remembering(backend), ofProcess);
}
