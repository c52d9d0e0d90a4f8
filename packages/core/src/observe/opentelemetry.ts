import type { Meter, ObservableResult } from "@opentelemetry/api";
import {
  BATCH,
  BATCH_BUCKETS,
  BREAKERS,
  BUCKETS,
  cannotUse,
  DURATION,
  forCounters,
  type Metric,
  type Watch,
  watch,
} from "./metrics.ts";

/** Two at once would count everything twice, as a meter hands out the same instruments again. */
const running = new WeakMap<Meter, Watch>();

/**
 * Counts what all limiters of this process do from now on, by instruments of an OpenTelemetry meter:
 *
 * - `tidegate.decisions{limiter,policy,outcome,rule}`: what each policy said of each decision. `outcome`: `allowed`,
 *   `refused`, `shadow-refused` or `unknown`. `rule`: `none` where the store answered, otherwise the failure rule that
 *   did, `open`, `closed` or `local`
 * - `tidegate.decision.duration{limiter,outcome,rule}`: a histogram of whole decisions, seconds. `outcome`: `allowed`
 *   or `refused`
 * - `tidegate.degraded_decisions{limiter,rule,reason}`: decisions of a failure rule. `reason`: a class of store error
 * - `tidegate.cached_refusals{limiter}`: refusals that repeat an earlier one which still holds
 * - `tidegate.batch.decisions{limiter}`: a histogram of how many decisions one run of the script made
 * - `tidegate.breaker.open{limiter}`: how many breakers are open, a gauge
 * - `tidegate.late_replies{limiter,kind}`: `late` or `double`
 * - `tidegate.store_errors{limiter,reason}`: errors with which the store stopped answering
 * - `tidegate.recoveries{limiter}`: how often it answered again
 *
 * `limiter` is the configuration's `prefix`: limiters of one prefix are added up. No attribute names who was counted.
 *
 * A breaker that opened earlier is not known of: `tidegate.breaker.open` has no value for its limiter until the store
 * answers again.
 *
 * @param meter of a provider that has been set up: the meter of none records nothing
 * @returns a function that ends it. The meter goes on telling the last values
 * @throws ConfigError when there is no meter, or it counts already
 */
export function openTelemetryMetrics(meter: Meter): () => void {
  checkMeter(meter);
  const settings = ({ unit, help: description }: Metric) => ({ unit, description });
  const counters = forCounters((metric) => meter.createCounter(metric.openTelemetry, settings(metric)));
  const duration = meter.createHistogram(DURATION.openTelemetry, {
    ...settings(DURATION),
    advice: { explicitBucketBoundaries: [...BUCKETS] },
  });
  const batch = meter.createHistogram(BATCH.openTelemetry, {
    ...settings(BATCH),
    advice: { explicitBucketBoundaries: [...BATCH_BUCKETS] },
  });
  const breakers = meter.createObservableGauge(BREAKERS.openTelemetry, settings(BREAKERS));
  const watching = watch({
    count: (name, labels) => counters[name].add(1, labels),
    duration: (seconds, labels) => duration.record(seconds, labels),
    batch: (decisions, labels) => batch.record(decisions, labels),
  });
  const observe = (result: ObservableResult) => {
    for (const [limiter, count] of watching.openBreakers) result.observe(count, { limiter });
  };
  breakers.addCallback(observe);
  running.set(meter, watching);
  return () => {
    watching.stop();
    breakers.removeCallback(observe);
    // Somebody may have begun anew meanwhile.
    if (running.get(meter) === watching) running.delete(meter);
  };
}

function checkMeter(meter: Meter): void {
  if (typeof (meter as Partial<Meter> | undefined)?.createHistogram !== "function")
    throw cannotUse("meter", meter, "give a Meter of OpenTelemetry");
  if (running.has(meter))
    throw cannotUse("meter", meter, "it counts already; stop that, or give another meter");
}
