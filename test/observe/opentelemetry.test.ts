import { type Meter, metrics } from "@opentelemetry/api";
import { type Histogram, MeterProvider } from "@opentelemetry/sdk-metrics";
import { createLimiter, fixedWindow } from "@tidegate/core";
import { openTelemetryMetrics } from "@tidegate/core/opentelemetry";
import { describe, expect, it, onTestFinished } from "vitest";
import { TestReader } from "./exporters.ts";

function started() {
  const reader = new TestReader();
  const provider = new MeterProvider({ readers: [reader] });
  const meter = provider.getMeter("test");
  const stop = openTelemetryMetrics(meter);
  onTestFinished(() => {
    stop();
    return provider.shutdown();
  });
  const collect = async () => {
    const { resourceMetrics, errors } = await reader.collect();
    expect(errors).toEqual([]);
    return resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics);
  };
  return { meter, stop, collect };
}

async function decide(times: number): Promise<void> {
  const policies = { day: fixedWindow({ limit: 100, window: "1d" }) };
  const limiter = createLimiter({ prefix: "shop", policies });
  onTestFinished(() => limiter.close());
  for (let i = 0; i < times; i++) await limiter.decide({ identity: "somebody" });
}

/** Values by name, where there is one value of each. */
async function valuesOf(collect: ReturnType<typeof started>["collect"]): Promise<Record<string, unknown>> {
  return Object.fromEntries(
    (await collect()).map(({ descriptor: { name }, dataPoints: [point] }) => [name, point?.value]),
  );
}

/** Five failures open the breaker: everything but late replies and recoveries has a value then. */
async function outage(): Promise<void> {
  const limiter = createLimiter({
    redis: "redis://127.0.0.1:1",
    prefix: "shop",
    policies: { day: fixedWindow({ limit: 100, window: "1d" }) },
    timeoutMs: 10_000,
  });
  onTestFinished(() => limiter.close());
  for (let i = 0; i < 5; i++) await limiter.decide({ identity: "somebody" });
}

describe("openTelemetryMetrics", () => {
  it("records by these instruments, in these units", async () => {
    const { collect } = started();
    await decide(1);
    await outage();
    const told = (await collect()).map(({ descriptor: { name, unit }, dataPoints }) => {
      const labels = new Set(dataPoints.flatMap(({ attributes }) => Object.keys(attributes)));
      return `${name} in ${unit} by ${[...labels].join(", ")}`;
    });
    expect(told.toSorted((a, b) => (a < b ? -1 : 1))).toEqual([
      "tidegate.batch.decisions in {decision} by limiter",
      "tidegate.breaker.open in {breaker} by limiter",
      "tidegate.decision.duration in s by limiter, outcome, rule",
      "tidegate.decisions in {decision} by limiter, policy, outcome, rule",
      "tidegate.degraded_decisions in {decision} by limiter, rule, reason",
      "tidegate.store_errors in {error} by limiter, reason",
    ]);
  });

  it("sorts durations from half a millisecond to a second, in seconds", async () => {
    const { collect } = started();
    await decide(3);
    const duration = (await collect()).find(({ descriptor }) => descriptor.name.endsWith("duration"));
    const { buckets, count } = duration!.dataPoints[0]!.value as Histogram;
    expect(buckets.boundaries).toEqual([
      0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.25, 1,
    ]);
    expect(count).toBe(3);
  });

  it("leaves the last values when it stops", async () => {
    const { stop, collect } = started();
    await decide(2);
    stop();
    await decide(1);
    expect(await valuesOf(collect)).toMatchObject({ "tidegate.decisions": 2 });
  });

  it("records nothing, and harms nothing, where no provider has been set up", async () => {
    const stop = openTelemetryMetrics(metrics.getMeter("nobody's"));
    onTestFinished(stop);
    await decide(1);
    stop();
  });
});

describe("A meter that cannot be used", () => {
  const thrownFor = (meter: unknown): unknown => {
    try {
      onTestFinished(openTelemetryMetrics(meter as Meter));
    } catch (error) {
      return error;
    }
    return undefined;
  };
  const refusal = (message: string) =>
    expect.objectContaining({ code: "TIDEGATE_OPTION_INVALID", option: "meter", message });

  it("is one that counts already; once the first has stopped it counts on", async () => {
    const { meter, stop, collect } = started();
    const twice = refusal(
      "meter: it counts already; stop that, or give another meter, got an object (Meter).",
    );
    expect(thrownFor(meter)).toEqual(twice);
    await decide(1);
    stop();
    onTestFinished(openTelemetryMetrics(meter));
    stop();
    expect(thrownFor(meter)).toEqual(twice);
    await decide(1);
    expect(await valuesOf(collect)).toMatchObject({ "tidegate.decisions": 2, "tidegate.breaker.open": 0 });
  });

  it.each([
    [undefined, "undefined"],
    [null, "null"],
    [{}, "an object (Object)"],
  ])("is %o", (meter, shown) => {
    expect(thrownFor(meter)).toEqual(refusal(`meter: give a Meter of OpenTelemetry, got ${shown}.`));
  });
});
