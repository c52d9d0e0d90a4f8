/** How the cases ask: every algorithm, a guard without a framework, a look at what was used. */
import {
  concurrency,
  type Config,
  createGuard,
  createLimiter,
  fixedWindow,
  gcra,
  type Guard,
  type Limiter,
  type Policy,
  type PolicyOptions,
  type Ruling,
  slidingLog,
  slidingWindow,
  type TidegateEvent,
  tokenBucket,
} from "@tidegate/core";
import { onTestFinished } from "vitest";
import { PATIENT } from "../harness/http.ts";

/** Every algorithm that has a window, at `limit` units per window. */
export const windows = (limit: number, windowMs: number, more: PolicyOptions = {}): [string, Policy][] => [
  [
    "tokenBucket",
    tokenBucket({ capacity: limit, refillPerSecond: (Math.max(1, limit) * 1000) / windowMs, ...more }),
  ],
  ["gcra", gcra({ limit, window: windowMs, ...more })],
  ["slidingWindow", slidingWindow({ limit, window: windowMs, ...more })],
  ["slidingLog", slidingLog({ limit, window: windowMs, ...more })],
  ["fixedWindow", fixedWindow({ limit, window: windowMs, ...more })],
  ["fixedWindow by the clock", fixedWindow({ limit, window: windowMs, align: "clock", ...more })],
];

/** Every algorithm, and each way a fixed window may lie. */
export const everything = (limit: number, windowMs = 3_600_000): [string, Policy][] => [
  ...windows(limit, windowMs),
  ["fixedWindow by the calendar", fixedWindow({ limit, window: "day", timeZone: "Europe/Berlin" })],
  ["concurrency", concurrency({ limit, leaseMs: windowMs })],
];

/** A limiter with all the time it needs, and what it told. */
export function limiterOf(config: Config): Limiter & { events: TidegateEvent[] } {
  const events: TidegateEvent[] = [];
  const limiter = createLimiter({ ...PATIENT, onEvent: (event) => events.push(event), ...config });
  if (!config.store) onTestFinished(() => limiter.close());
  return Object.assign(limiter, { events });
}

/** A guard, and what it told. */
export function guardOf(config: Config): Guard & { events: TidegateEvent[] } {
  const events: TidegateEvent[] = [];
  const guard = createGuard({ ...PATIENT, onEvent: (event) => events.push(event), ...config });
  if (!config.store) onTestFinished(() => guard.limiter.close());
  return Object.assign(guard, { events });
}

/** A request as a case needs it. */
export interface Asked {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** A request from `address`, with no framework around it. */
export const askedOf = (request: Asked, address = "203.0.113.7") =>
  ({
    request,
    raw: {},
    method: request.method ?? "GET",
    url: "/",
    peer: address,
    address,
    trust: { whom: "nobody" },
    state: request,
    route: undefined,
    header: (name: string) => request.headers?.[name],
  }) as const;

/** What the guard rules of it. */
export const ruling = (guard: Guard, request: Asked = {}, address?: string): Promise<Ruling> =>
  new Promise((resolve) => guard.rule(askedOf(request, address), resolve));

/** Units used of each policy, by a look that charges nothing. */
export async function used(limiter: Limiter, identity: Parameters<Limiter["peek"]>[0]["identity"] = "x") {
  const { verdicts, degraded } = await limiter.peek({ identity });
  if (degraded) throw new Error(`the look was degraded: ${degraded.reason}`);
  return verdicts.map(({ limit, remaining }) => limit - remaining);
}

/** How many of `times` requests, one after the other, are let in. Throws when the store could not be asked. */
export async function admitted(limiter: Limiter, times: number, identity = "x"): Promise<number> {
  let count = 0;
  for (let i = 0; i < times; i++) {
    const { allowed, degraded } = await limiter.decide({ identity });
    if (degraded) throw new Error(`a decision was degraded: ${degraded.reason}`);
    if (allowed) count++;
  }
  return count;
}
