/** Requests at a steady rate, each of them watched: when it was asked, how long it took, and what answered. */
import type { Decision } from "@tidegate/core";
import { expect } from "vitest";

export interface Watched {
  readonly name: string;
  /** When it was asked, milliseconds of `performance.now()`. */
  readonly at: number;
  readonly ms: number;
  /** Whether it had no answer yet when a bare timer of this process had fired, and all that were due by then. */
  readonly late: boolean;
  /** Whether a bare question to its server, asked in the same turn, was kept waiting too. */
  readonly held: boolean;
  readonly decision: Decision;
}

export interface Steady {
  /** Ends, and waits for the answers: in the order in which they were asked for. */
  end(): Promise<Watched[]>;
}

export interface SteadyOptions {
  readonly perSecond: number;
  readonly timeoutMs: number;
  /** A question to the server of a name that costs it nothing, past the limiter; where there is a server. */
  readonly control?: (name: string) => Promise<unknown> | undefined;
}

/** How much longer than its deadline a decision may take, milliseconds. */
const BEYOND_MS = 25;

/** A server on this machine answers within less, unless the machine is busy with something else. */
const HELD_MS = 25;

/**
 * Asks for these names in turn. A process that is held up asks for what it missed afterwards, so that
 * the rate holds on the whole.
 */
export function steady(
  ask: (name: string) => Promise<Decision>,
  names: readonly string[],
  options: SteadyOptions,
): Steady {
  const start = performance.now();
  const asked: Promise<Watched>[] = [];
  const timer = setInterval(() => {
    const due = ((performance.now() - start) * options.perSecond) / 1000;
    while (asked.length < due) asked.push(watch(ask, names[asked.length % names.length]!, options));
  }, 1);
  return {
    async end() {
      clearInterval(timer);
      return Promise.all(asked);
    },
  };
}

/** What a process is held up by is not the limiter's: the limiter's own timer is as late as the bare one. */
async function watch(
  ask: (name: string) => Promise<Decision>,
  name: string,
  { timeoutMs, control }: SteadyOptions,
): Promise<Watched> {
  const at = performance.now();
  let [answered, late] = [false, false];
  const answer = ask(name);
  const asked = control ? controlled(() => control(name), at) : false;
  const look = () => setImmediate(() => (late = !answered));
  const bare = setTimeout(look, timeoutMs + BEYOND_MS);
  const decision = await answer;
  answered = true;
  const ms = performance.now() - at;
  clearTimeout(bare);
  return { name, at, ms, late, held: await asked, decision };
}

/** Asks in the turn in which batches go out. */
async function controlled(control: () => Promise<unknown> | undefined, at: number): Promise<boolean> {
  await new Promise((resolve) => setImmediate(resolve));
  await control()?.catch(() => {});
  return performance.now() - at > HELD_MS;
}

/** For so long after a server was kept waiting too long, its breaker may be open. */
const AFTERWARDS_MS = 300;

/** Those that nothing but the limiter had a hand in. */
export function undisturbed(requests: readonly Watched[]): Watched[] {
  let until = -Infinity;
  return requests.filter((request) => {
    const { at, ms, held } = request;
    if (held && isDegraded(request)) until = Math.max(until, at + ms + AFTERWARDS_MS);
    return !held && at > until;
  });
}

export const isDegraded = ({ decision }: Watched): boolean => decision.degraded !== undefined;

/** All that was decided is counted, and what was too late for its answer is counted once at the most. */
export async function expectCounted(
  requests: readonly Watched[],
  unitsOf: (name: string) => Promise<number>,
): Promise<void> {
  for (const name of new Set(requests.map((request) => request.name))) {
    const own = requests.filter((request) => request.name === name);
    const units = await unitsOf(name);
    expect(units).toBeGreaterThanOrEqual(own.filter((request) => !isDegraded(request)).length);
    expect(units).toBeLessThanOrEqual(own.length);
  }
}
