import { createLimiter, fixedWindow } from "@tidegate/core";
import { prometheusMetrics } from "@tidegate/core/prometheus";
import { Counter, type OpenMetricsContentType, Registry } from "prom-client";
import { describe, expect, it, onTestFinished } from "vitest";
import { read, sectionOf, tablesOf } from "../docs/markdown.ts";

function started(registry = new Registry()) {
  const stop = prometheusMetrics(registry);
  onTestFinished(stop);
  return { registry, stop };
}

async function decideOnce(prefix: string): Promise<void> {
  const limiter = createLimiter({ prefix, policies: { day: fixedWindow({ limit: 1, window: "1d" }) } });
  onTestFinished(() => limiter.close());
  await limiter.decide({ identity: "somebody" });
}

/** Every metric that is there, with its kind and labels, as prom-client keeps them. */
const metricsIn = (registry: Registry) =>
  (registry.getMetricsAsArray() as unknown as { name: string; type: string; labelNames: string[] }[]).map(
    ({ name, type, labelNames }) => ({ name, type, labels: labelNames.join(", ") }),
  );

const OURS = [
  { name: "tidegate_decisions_total", type: "counter", labels: "limiter, policy, outcome, rule" },
  { name: "tidegate_degraded_decisions_total", type: "counter", labels: "limiter, rule, reason" },
  { name: "tidegate_cached_refusals_total", type: "counter", labels: "limiter" },
  { name: "tidegate_late_replies_total", type: "counter", labels: "limiter, kind" },
  { name: "tidegate_store_errors_total", type: "counter", labels: "limiter, reason" },
  { name: "tidegate_recoveries_total", type: "counter", labels: "limiter" },
  { name: "tidegate_decision_duration_seconds", type: "histogram", labels: "limiter, outcome, rule" },
  { name: "tidegate_batch_decisions", type: "histogram", labels: "limiter" },
  { name: "tidegate_breaker_open", type: "gauge", labels: "limiter" },
];

describe("prometheusMetrics", () => {
  it("registers these metrics, and no others", () => {
    expect(metricsIn(started().registry)).toEqual(OURS);
  });

  it("is documented, metric by metric and label by label", () => {
    const rows = tablesOf(sectionOf(read("docs/operations.md"), "What is counted"))[0]!;
    const documented = rows.map(({ metric, labels }) => ({
      name: metric,
      labels: labels!.replaceAll("`", ""),
    }));
    const byName = (a: { name?: string | undefined }, b: { name?: string | undefined }) =>
      a.name! < b.name! ? -1 : 1;
    expect(documented.toSorted(byName)).toEqual(
      OURS.map(({ name, labels }) => ({ name, labels })).toSorted(byName),
    );
  });

  it("writes a scrape as Prometheus reads it", async () => {
    const { registry } = started();
    await decideOnce("shop");
    const lines = (await registry.metrics()).split("\n");
    expect(lines).toEqual(
      expect.arrayContaining([
        "# TYPE tidegate_decisions_total counter",
        'tidegate_decisions_total{limiter="shop",policy="day",outcome="allowed",rule="none"} 1',
        "# TYPE tidegate_decision_duration_seconds histogram",
        'tidegate_decision_duration_seconds_bucket{le="+Inf",limiter="shop",outcome="allowed",rule="none"} 1',
        'tidegate_decision_duration_seconds_count{limiter="shop",outcome="allowed",rule="none"} 1',
        "# TYPE tidegate_breaker_open gauge",
        'tidegate_breaker_open{limiter="shop"} 0',
      ]),
    );
  });

  it("sorts durations from half a millisecond to a second, in seconds", async () => {
    const { registry } = started();
    await decideOnce("shop");
    const text = await registry.getSingleMetricAsString("tidegate_decision_duration_seconds");
    const bounds = [...text.matchAll(/\ble="([^"]+)"/g)].map(([, bound]) => Number(bound));
    expect(bounds.slice(0, -1)).toEqual([
      0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.25, 1,
    ]);
  });

  it("writes OpenMetrics too", async () => {
    const registry = new Registry<OpenMetricsContentType>();
    registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
    onTestFinished(prometheusMetrics(registry));
    await decideOnce("shop");
    for (let scrapes = 0; scrapes < 2; scrapes++)
      expect(await registry.metrics()).toContain(
        'tidegate_decisions_total{limiter="shop",policy="day",outcome="allowed",rule="none"} 1',
      );
  });

  it("counts into several registries at once", async () => {
    const registries = [started().registry, started().registry];
    await decideOnce("shop");
    for (const registry of registries) expect(await registry.metrics()).toContain('{limiter="shop"} 0');
  });

  it("goes on after the registry's values were reset", async () => {
    const { registry } = started();
    await decideOnce("shop");
    registry.resetMetrics();
    expect(await registry.metrics()).toContain('tidegate_breaker_open{limiter="shop"} 0');
    await decideOnce("shop");
    expect(await registry.metrics()).toContain('outcome="allowed",rule="none"} 1');
  });
});

describe("A registry that cannot be used", () => {
  const refusal = (message: string) =>
    expect.objectContaining({ code: "TIDEGATE_OPTION_INVALID", option: "registry", message });
  const taken = (name: string) =>
    refusal(
      `registry: it has a metric ${name} already; stop what wrote that, or give another registry, got an object (Registry).`,
    );

  const thrownFor = (registry: unknown): unknown => {
    try {
      onTestFinished(prometheusMetrics(registry as Registry));
    } catch (error) {
      return error;
    }
    return undefined;
  };

  it("is one with these metrics in it; once the first has stopped it takes them again", async () => {
    const { registry, stop } = started();
    expect(thrownFor(registry)).toEqual(taken("tidegate_decisions_total"));
    stop();
    expect(metricsIn(registry)).toEqual([]);
    const again = started(registry);
    stop();
    expect(metricsIn(again.registry)).toEqual(OURS);
    await decideOnce("shop");
    expect(await registry.metrics()).toContain('policy="day",outcome="allowed",rule="none"} 1');
  });

  it("is one with somebody else's metric of a name of ours; nothing is added to it", () => {
    const registry = new Registry();
    const theirs = new Counter({ name: "tidegate_recoveries_total", help: "theirs", registers: [registry] });
    expect(thrownFor(registry)).toEqual(taken("tidegate_recoveries_total"));
    expect(registry.getMetricsAsArray()).toEqual([theirs]);
  });

  it.each([
    [undefined, "undefined"],
    [null, "null"],
    [{}, "an object (Object)"],
  ])("is %o", (registry, shown) => {
    expect(thrownFor(registry)).toEqual(refusal(`registry: give a Registry of prom-client, got ${shown}.`));
  });
});
