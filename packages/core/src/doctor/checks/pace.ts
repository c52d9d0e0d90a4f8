/** How far away a server is, and what time it has. */
import type { Ping } from "../facts.ts";
import { type Found, found, well } from "../finding.ts";
import { msText } from "../text.ts";

export interface Pace {
  readonly roundTrips: number;
  /** Of the round trips, ms: half of them were shorter than `p50`. */
  readonly p50: number;
  readonly max: number;
  /** The server's clock less this machine's, ms; `undefined`: it may not be asked. */
  readonly offsetMs: number | undefined;
  /** By how much the offset may be wrong, ms. */
  readonly errorMs: number;
}

/** `undefined` when nothing answered. */
export function paceOf(pings: readonly Ping[]): Pace | undefined {
  const byTime = pings.toSorted((a, b) => a.roundTripMs - b.roundTripMs);
  const [best] = byTime;
  if (!best) return undefined;
  return {
    roundTrips: byTime.length,
    p50: byTime[Math.floor((byTime.length - 1) / 2)]!.roundTripMs,
    max: byTime.at(-1)!.roundTripMs,
    offsetMs: best.offsetMs,
    errorMs: best.roundTripMs / 2,
  };
}

/** @param timeoutMs how long a decision may take */
export function latencyFound(pace: Pace | undefined, timeoutMs: number): Found[] {
  if (!pace) return [];
  const { roundTrips, p50, max } = pace;
  const value = { p50Ms: rounded(p50), maxMs: rounded(max), timeoutMs };
  const message = `Of ${roundTrips} round trips, half took up to ${msText(p50)} and the longest ${msText(max)}; a decision may take ${msText(timeoutMs)}.`;
  if (max <= timeoutMs / 2) return [well("LATENCY", message, value)];
  const advice =
    "Raise timeoutMs, or bring the server nearer. SLOWLOG GET tells of commands that kept it busy; a busy event loop here looks the same.";
  if (p50 < timeoutMs) return [found("LATENCY", "warning", message, advice, value)];
  return [found("LATENCY", "must", `${message} So most decisions are the failure rule's.`, advice, value)];
}

/** By how much clocks may differ, ms. */
const CLOCK_MS = 1000;

export function clockFound(pace: Pace | undefined): Found[] {
  if (pace?.offsetMs === undefined) return [];
  const { offsetMs, errorMs } = pace;
  const value = { offsetMs: rounded(offsetMs) };
  const ahead = offsetMs > 0 ? "ahead of" : "behind";
  const message = `Its clock is ${msText(Math.abs(offsetMs))} ${ahead} this machine's.`;
  if (Math.abs(offsetMs) - errorMs <= CLOCK_MS) return [well("CLOCK", message, value)];
  const advice =
    "Have both set by NTP, such as by chrony. Limits go by the server's clock: calendar windows end by it.";
  return [found("CLOCK", "warning", message, advice, value)];
}

/** How much the clocks of a Cluster's servers differ. */
export function clockSpreadFound(paces: readonly (Pace | undefined)[]): Found[] {
  const clocks = paces.flatMap((pace) =>
    pace?.offsetMs === undefined ? [] : [{ ...pace, offsetMs: pace.offsetMs }],
  );
  if (clocks.length < 2) return [];
  const [first, ...rest] = clocks.toSorted((a, b) => a.offsetMs - b.offsetMs);
  const last = rest.at(-1)!;
  const spreadMs = last.offsetMs - first!.offsetMs;
  const value = { spreadMs: rounded(spreadMs) };
  const message = `The clocks of the servers differ by up to ${msText(spreadMs)}.`;
  if (spreadMs - first!.errorMs - last.errorMs <= CLOCK_MS) return [well("CLOCK_SPREAD", message, value)];
  const advice =
    "Have all set by NTP, such as by chrony. Where slots move to another server, limits go by another clock.";
  return [found("CLOCK_SPREAD", "warning", message, advice, value)];
}

/** Microseconds are as much as anybody reads. */
const rounded = (ms: number): number => Math.round(ms * 1000) / 1000;
