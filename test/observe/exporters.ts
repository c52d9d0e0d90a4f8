/** Both exporters, read back alike: what one counts, the other counts. */
import { MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import { openTelemetryMetrics } from "@tidegate/core/opentelemetry";
import { prometheusMetrics } from "@tidegate/core/prometheus";
import { Registry } from "prom-client";
import { onTestFinished } from "vitest";

export interface Running {
  /**
   * What is counted for a limiter, as in `{ "decisions policy=p outcome=allowed rule=none": 1 }`. Of a histogram, how
   * often it was given a value; without that of batches, which also run to look whether a store is there.
   */
  values(limiter: string): Promise<Record<string, number>>;
  /** How long all decisions of a limiter took together, seconds. */
  seconds(limiter: string): Promise<number>;
  /** How many runs of the script there were for a limiter, and how many decisions they made together. */
  batches(limiter: string): Promise<[runs: number, decisions: number]>;
  /** All that anybody gets to see. */
  text(): Promise<string>;
  stop(): void;
}

/** Each starts one that ends with the test. */
export const exporters: readonly (readonly [name: string, start: () => Running])[] = [
  ["Prometheus", startPrometheus],
  ["OpenTelemetry", startOpenTelemetry],
];

interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, unknown>>;
  readonly value: number;
}

function startPrometheus(): Running {
  const registry = new Registry();
  const stop = prometheusMetrics(registry);
  onTestFinished(stop);
  /** @param part of a histogram */
  const samples = async (part: "count" | "sum"): Promise<Sample[]> =>
    (await registry.getMetricsAsJSON()).flatMap(({ name, values }) =>
      (values as (Sample & { metricName?: string })[])
        .filter(({ metricName }) => metricName === undefined || metricName === `${name}_${part}`)
        .map(({ labels, value }) => ({ name, labels, value })),
    );
  return {
    values: async (limiter) => told(await samples("count"), limiter),
    seconds: async (limiter) => sumOf(await samples("sum"), "decision_duration", limiter),
    batches: async (limiter) => [
      sumOf(await samples("count"), BATCHES, limiter),
      sumOf(await samples("sum"), BATCHES, limiter),
    ],
    text: () => registry.metrics(),
    stop,
  };
}

function startOpenTelemetry(): Running {
  const reader = new TestReader();
  const provider = new MeterProvider({ readers: [reader] });
  const stop = openTelemetryMetrics(provider.getMeter("test"));
  onTestFinished(() => {
    stop();
    return provider.shutdown();
  });
  return {
    values: async (limiter) => told(await samplesOf(reader, "count"), limiter),
    seconds: async (limiter) => sumOf(await samplesOf(reader, "sum"), "decision_duration", limiter),
    batches: async (limiter) => [
      sumOf(await samplesOf(reader, "count"), BATCHES, limiter),
      sumOf(await samplesOf(reader, "sum"), BATCHES, limiter),
    ],
    text: async () => JSON.stringify((await reader.collect()).resourceMetrics.scopeMetrics),
    stop,
  };
}

/** Reads when it is asked to. */
export class TestReader extends MetricReader {
  protected async onForceFlush(): Promise<void> {}
  protected async onShutdown(): Promise<void> {}
}

async function samplesOf(reader: TestReader, part: "count" | "sum"): Promise<Sample[]> {
  const { resourceMetrics } = await reader.collect();
  return resourceMetrics.scopeMetrics
    .flatMap(({ metrics }) => metrics)
    .flatMap(({ descriptor: { name }, dataPoints }) =>
      dataPoints.map(({ attributes: labels, value }) => ({
        name,
        labels,
        value: typeof value === "number" ? value : value[part]!,
      })),
    );
}

const ORDER = ["policy", "outcome", "rule", "reason", "kind"];

function told(samples: readonly Sample[], limiter: string): Record<string, number> {
  const own = samples.filter(
    ({ name, labels }) => labels["limiter"] === limiter && shortName(name) !== BATCHES,
  );
  return Object.fromEntries(
    own.map(({ name, labels, value }) => {
      const { limiter: _, ...others } = labels;
      const words = Object.entries(others)
        .toSorted(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b))
        .map(([label, word]) => ` ${label}=${String(word)}`);
      return [`${shortName(name)}${words.join("")}`, value];
    }),
  );
}

const BATCHES = "batch_decisions";

const sumOf = (samples: readonly Sample[], wanted: string, limiter: string): number =>
  samples
    .filter(({ name, labels }) => shortName(name) === wanted && labels["limiter"] === limiter)
    .reduce((sum, { value }) => sum + value, 0);

/** `tidegate_decisions_total` and `tidegate.decisions` are both `decisions`. */
const shortName = (name: string): string =>
  name
    .replaceAll(".", "_")
    .replace(/^tidegate_/, "")
    .replace(/_(total|seconds)$/, "");
