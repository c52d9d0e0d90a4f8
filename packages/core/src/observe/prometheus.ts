import { Counter, Gauge, Histogram, type OpenMetricsContentType, type Registry } from "prom-client";
import {
  BATCH,
  BATCH_BUCKETS,
  BREAKERS,
  BUCKETS,
  cannotUse,
  COUNTERS,
  DURATION,
  forCounters,
  type Metric,
  watch,
} from "./metrics.ts";

const METRICS = [...Object.values(COUNTERS), DURATION, BATCH, BREAKERS];

/**
 * Counts what all limiters of this process do from now on, as metrics in a registry of prom-client:
 *
 * - `tidegate_decisions_total{limiter,policy,outcome,rule}`: what each policy said of each decision. `outcome`:
 *   `allowed`, `refused`, `shadow-refused` or `unknown`. `rule`: `none` where the store answered, otherwise the
 *   failure rule that did, `open`, `closed` or `local`
 * - `tidegate_decision_duration_seconds{limiter,outcome,rule}`: a histogram of whole decisions. `outcome`: `allowed`
 *   or `refused`
 * - `tidegate_degraded_decisions_total{limiter,rule,reason}`: decisions of a failure rule. `reason`: a class of
 *   store error
 * - `tidegate_cached_refusals_total{limiter}`: refusals that repeat an earlier one which still holds
 * - `tidegate_batch_decisions{limiter}`: a histogram of how many decisions one run of the script made
 * - `tidegate_breaker_open{limiter}`: how many breakers are open
 * - `tidegate_late_replies_total{limiter,kind}`: `late` or `double`
 * - `tidegate_store_errors_total{limiter,reason}`: errors with which the store stopped answering
 * - `tidegate_recoveries_total{limiter}`: how often it answered again
 *
 * `limiter` is the configuration's `prefix`: limiters of one prefix are added up. No label names who was counted.
 *
 * A breaker that opened earlier is not known of: `tidegate_breaker_open` has no value for its limiter until the
 * store answers again.
 *
 * @returns a function that ends it and takes the metrics out of the registry
 * @throws ConfigError when there is no registry, or one of these metrics is in it already
 */
export function prometheusMetrics(registry: Registry | Registry<OpenMetricsContentType>): () => void {
  checkRegistry(registry);
  const settings = ({ prometheus: name, help, labels: labelNames }: Metric) => ({
    name,
    help,
    labelNames,
    registers: [registry],
  });
  const counters = forCounters((metric) => new Counter(settings(metric)));
  const duration = new Histogram({ ...settings(DURATION), buckets: [...BUCKETS] });
  const batch = new Histogram({ ...settings(BATCH), buckets: [...BATCH_BUCKETS] });
  const watching = watch({
    count: (name, labels) => counters[name].inc(labels),
    duration: (seconds, labels) => duration.observe(labels, seconds),
    batch: (decisions, labels) => batch.observe(labels, decisions),
  });
  const collect = () => {
    for (const [limiter, count] of watching.openBreakers) breakers.set({ limiter }, count);
  };
  const breakers = new Gauge({ ...settings(BREAKERS), collect });
  const ours: unknown[] = [...Object.values(counters), duration, batch, breakers];
  return () => {
    watching.stop();
    // Whoever began anew meanwhile has metrics of the same names.
    for (const { prometheus: name } of METRICS)
      if (ours.includes(registry.getSingleMetric(name))) registry.removeSingleMetric(name);
  };
}

function checkRegistry(registry: Registry | Registry<OpenMetricsContentType>): void {
  if (typeof (registry as Partial<Registry> | undefined)?.getSingleMetric !== "function")
    throw cannotUse("registry", registry, "give a Registry of prom-client");
  const taken = METRICS.find(({ prometheus }) => registry.getSingleMetric(prometheus));
  if (!taken) return;
  const advice = `it has a metric ${taken.prometheus} already; stop what wrote that, or give another registry`;
  throw cannotUse("registry", registry, advice);
}
