import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { ConfigError, type StoreErrorClass } from "../errors.ts";
import type { BatchMessage, BreakerMessage, DecisionMessage, LateMessage } from "./channels.ts";

/** A metric in the words of both libraries. */
export interface Metric {
  readonly prometheus: string;
  readonly openTelemetry: string;
  readonly unit: string;
  readonly help: string;
  /** Each has few values: prefixes and policy names stand in configurations, all others are words of ours. */
  readonly labels: readonly string[];
}

export const COUNTERS = {
  decisions: {
    prometheus: "tidegate_decisions_total",
    openTelemetry: "tidegate.decisions",
    unit: "{decision}",
    help: "What each policy said of each decision. rule: the failure rule that answered, or none.",
    labels: ["limiter", "policy", "outcome", "rule"],
  },
  degraded: {
    prometheus: "tidegate_degraded_decisions_total",
    openTelemetry: "tidegate.degraded_decisions",
    unit: "{decision}",
    help: "Decisions of a failure rule, by the rule and by what the store failed with.",
    labels: ["limiter", "rule", "reason"],
  },
  cachedRefusals: {
    prometheus: "tidegate_cached_refusals_total",
    openTelemetry: "tidegate.cached_refusals",
    unit: "{decision}",
    help: "Refusals that repeat an earlier one which still holds: the store was not asked.",
    labels: ["limiter"],
  },
  lateReplies: {
    prometheus: "tidegate_late_replies_total",
    openTelemetry: "tidegate.late_replies",
    unit: "{reply}",
    help: "late: granted when the failure rule had answered already. double: sent twice, charged once.",
    labels: ["limiter", "kind"],
  },
  storeErrors: {
    prometheus: "tidegate_store_errors_total",
    openTelemetry: "tidegate.store_errors",
    unit: "{error}",
    help: "Errors with which the store stopped answering, by class.",
    labels: ["limiter", "reason"],
  },
  recoveries: {
    prometheus: "tidegate_recoveries_total",
    openTelemetry: "tidegate.recoveries",
    unit: "{recovery}",
    help: "How often the store answered again.",
    labels: ["limiter"],
  },
} as const satisfies Record<string, Metric>;

export const DURATION = {
  prometheus: "tidegate_decision_duration_seconds",
  openTelemetry: "tidegate.decision.duration",
  unit: "s",
  help: "How long decisions took, without functions of your own, in seconds.",
  labels: ["limiter", "outcome", "rule"],
} as const satisfies Metric;

/** Of the duration, seconds. Close together below 0.05, the deadline that limiters have by default. */
export const BUCKETS: readonly number[] = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.25, 1,
];

export const BATCH = {
  prometheus: "tidegate_batch_decisions",
  openTelemetry: "tidegate.batch.decisions",
  unit: "{decision}",
  help: "How many decisions one run of the script made: those of one turn of the event loop travel together.",
  labels: ["limiter"],
} as const satisfies Metric;

/** Of a batch, decisions. Neighbours that ask the same are counted one by one, so that more than 64 may be in one. */
export const BATCH_BUCKETS: readonly number[] = [1, 2, 4, 8, 16, 32, 64, 256, 1024];

export const BREAKERS = {
  prometheus: "tidegate_breaker_open",
  openTelemetry: "tidegate.breaker.open",
  unit: "{breaker}",
  help: "How many breakers are open: their limiters do not ask the store.",
  labels: ["limiter"],
} as const satisfies Metric;

type Counters = typeof COUNTERS;
type CounterName = keyof Counters;
type LabelsOf<Of extends Metric> = Readonly<Record<Of["labels"][number], string>>;

/** One of something for each counter. */
export function forCounters<T>(make: (metric: Metric) => T): Readonly<Record<CounterName, T>> {
  const made = Object.entries(COUNTERS).map(([name, metric]) => [name, make(metric)]);
  return Object.fromEntries(made) as Record<CounterName, T>;
}

/** Where what was heard goes. Nothing here may throw: Node ends a process whose listener does. */
export interface Instruments {
  count<Name extends CounterName>(name: Name, labels: LabelsOf<Counters[Name]>): void;
  duration(seconds: number, labels: LabelsOf<typeof DURATION>): void;
  batch(decisions: number, labels: LabelsOf<typeof BATCH>): void;
}

export interface Watch {
  /** How many breakers are open, by limiter: of those that were heard of. */
  readonly openBreakers: ReadonlyMap<string, number>;
  stop(): void;
}

/** Hears of every limiter of this process, whichever copy of the package made it. */
export function watch(to: Instruments): Watch {
  const openBreakers = new Map<string, number>();
  const listeners = Object.entries(listenersOf(to, openBreakers));
  for (const [channel, listener] of listeners) subscribe(channel, listener);
  return {
    openBreakers,
    stop() {
      for (const [channel, listener] of listeners) unsubscribe(channel, listener);
    },
  };
}

interface EventMessage {
  readonly prefix: string;
}

interface StoreErrorMessage extends EventMessage {
  readonly reason: StoreErrorClass;
}

/** By channel. */
function listenersOf(to: Instruments, open: Map<string, number>): Record<string, (message: any) => void> {
  return {
    "tidegate:decision"(message: DecisionMessage) {
      // While a breaker is open no store is asked: one that has answered was.
      if (!message.rule && !open.has(message.prefix)) open.set(message.prefix, 0);
      tellDecision(to, message);
    },
    "tidegate:batch": ({ prefix, decisions }: BatchMessage) => to.batch(decisions, { limiter: prefix }),
    "tidegate:breaker"({ prefix, state }: BreakerMessage) {
      const count = (open.get(prefix) ?? 0) + (state === "open" ? 1 : -1);
      open.set(prefix, Math.max(0, count));
    },
    "tidegate:late": ({ prefix, kind }: LateMessage) => to.count("lateReplies", { limiter: prefix, kind }),
    "tidegate:storeError": ({ prefix, reason }: StoreErrorMessage) =>
      to.count("storeErrors", { limiter: prefix, reason }),
    "tidegate:recovered": ({ prefix }: EventMessage) => to.count("recoveries", { limiter: prefix }),
  };
}

function tellDecision(to: Instruments, message: DecisionMessage): void {
  const { prefix: limiter, allowed, policies, rule = "none", reason, cached, ms } = message;
  for (const { name: policy, outcome } of policies) to.count("decisions", { limiter, policy, outcome, rule });
  to.duration(ms / 1000, { limiter, outcome: allowed ? "allowed" : "refused", rule });
  if (cached) to.count("cachedRefusals", { limiter });
  if (reason) to.count("degraded", { limiter, rule, reason });
}

/** The one setting of an exporter cannot work. */
export const cannotUse = (option: "registry" | "meter", value: unknown, advice: string): ConfigError =>
  new ConfigError("TIDEGATE_OPTION_INVALID", option, value, advice);
