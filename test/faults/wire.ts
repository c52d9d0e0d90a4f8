/** What the tests of failing wires have in common. */
import { channel } from "node:diagnostics_channel";
import { inspect } from "node:util";
import { type Config, createLimiter, type Decision, fixedWindow, type TidegateEvent } from "@tidegate/core";
import { Redis, type RedisOptions } from "ioredis";
import { expect, onTestFinished, vi } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { freshPrefix } from "../harness/pair.ts";

/** Nobody but the limiter and the server is to hear of this identity. */
export const SECRET = "secret-customer";

/** More than any test asks for: whoever is refused here is refused by a fault. */
const LIMIT = 1000;

export type Subject = ReturnType<typeof limiterOn>;

/** A limiter on a wire, and all that it tells. It is patient, unless a test is about its deadline. */
export function limiterOn(redis: string | Redis, more: Partial<Config> = {}) {
  const prefix = freshPrefix();
  const events: TidegateEvent[] = [];
  const limiter = createLimiter({
    redis,
    prefix,
    policies: { p: fixedWindow({ limit: LIMIT, window: "1h" }) },
    timeoutMs: 10_000,
    onEvent: (event) => events.push(event),
    ...more,
  });
  onTestFinished(() => limiter.close());
  const decide = (cost = 1) => limiter.decide({ identity: SECRET, cost });
  return {
    limiter,
    prefix,
    events,
    decide,
    /** So many at once. */
    decisions: (count: number) => Promise.all(Array.from({ length: count }, () => decide())),
    told: (type: TidegateEvent["type"]) => events.filter((event) => event.type === type),
    /** Waits until Redis decides, which is known without charging anything. */
    ready: () => eventually("Redis decides", async () => !(await decide(0)).degraded),
  };
}

/** What an application may set of its client. */
export type TheirOptions = Omit<RedisOptions, "replyMapping">;

/**
 * Whose connection a limiter uses: one of its own, or that of an application that has made its client
 * by ioredis's own settings, with `options` on top.
 */
export const connections: [name: string, make: typeof limiterSharing][] = [
  ["its own connection", (port, more) => limiterOn(`redis://127.0.0.1:${port}`, more)],
  ["a shared connection", limiterSharing],
];

export function limiterSharing(
  port: number,
  more: Partial<Config> = {},
  options: TheirOptions = {},
): Subject {
  return limiterOn(theirClient(port, options), { shareConnection: true, ...more });
}

/** A client as applications make them, with a listener for its errors. */
export function theirClient(port: number, options: TheirOptions = {}): Redis {
  const client = new Redis(port, "127.0.0.1", options);
  client.on("error", () => {});
  onTestFinished(() => client.disconnect());
  return client;
}

/** Units charged to the identity of these tests, as Redis has them. */
export async function charged(client: Redis, { prefix }: Subject): Promise<number> {
  return Number(await client.get(`${prefix}:{id:${SECRET}}:p:fw`));
}

/** How many decisions were degraded, by reason, and how many were not: as `allowed`. */
export function outcomes(decisions: readonly Decision[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { degraded, allowed } of decisions) {
    const outcome = degraded?.reason ?? (allowed ? "allowed" : "refused");
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
  return counts;
}

const CHANNELS = ["decision", "breaker", "late", "degraded", "storeError", "recovered", "warning"];

/** What a limiter says besides its events, until the test is over: on channels, as warnings, to the console. */
export function listening(): { said: unknown[]; late: string[] } {
  const said: unknown[] = [];
  const late: string[] = [];
  const hear = (...words: unknown[]) => void said.push(words);
  const hearLate = (message: unknown) => void late.push((message as { kind: string }).kind);
  for (const name of CHANNELS) channel(`tidegate:${name}`).subscribe(hear);
  channel("tidegate:late").subscribe(hearLate);
  process.on("warning", hear);
  const spies = (["log", "info", "warn", "error", "debug"] as const).map((name) =>
    vi.spyOn(console, name).mockImplementation(hear),
  );
  onTestFinished(() => {
    for (const name of CHANNELS) channel(`tidegate:${name}`).unsubscribe(hear);
    channel("tidegate:late").unsubscribe(hearLate);
    process.off("warning", hear);
    for (const spy of spies) spy.mockRestore();
  });
  return { said, late };
}

/** That nothing of this names anybody, however deep one looks. */
export function expectDiscreet(...things: unknown[]): void {
  expect(inspect(things, { depth: 20, maxArrayLength: null, showHidden: true })).not.toContain(SECRET);
}

export async function timed<T>(act: () => Promise<T>): Promise<{ result: T; ms: number }> {
  const start = performance.now();
  const result = await act();
  return { result, ms: performance.now() - start };
}
