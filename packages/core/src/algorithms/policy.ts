import { ConfigError } from "../errors.ts";
import type { By, MaybePromise } from "../identity/identity.ts";
import { type Duration, duration, isCost, LONGEST_MS, oneOf, onlyKnown, wholeNumber } from "../options.ts";
import type { Algorithm, Numbers } from "./algorithm.ts";

/**
 * Whether a policy refuses:
 * - `enforce`: it refuses what it has no room for
 * - `shadow`: it never refuses and is charged only for what passes: a limit on trial
 */
export type Mode = "enforce" | "shadow";

/**
 * What a policy counts: `qu` in `RateLimit-Policy`, which does not show `requests`. source:
 * draft-ietf-httpapi-ratelimit-headers-11 §3.1.2
 */
export type Unit = "requests" | "content-bytes" | "concurrent-requests";

/**
 * What answers when the store cannot:
 * - `open`: the request passes
 * - `closed`: it does not, and HTTP says 503
 * - `local`: this process decides from its own memory, by an equal share of each limit; needs `instances`
 * - `{ local: policies }`: the same by policies of your own, which should be tighter
 */
export type FailureRule = "open" | "closed" | "local" | LocalRule;

/** The failure rule that this process decides by policies of its own. */
export interface LocalRule {
  /**
   * The policies by name, counted in this process's memory: every process has them whole, so they should be tighter.
   */
  readonly local: Readonly<Record<string, Policy>>;
}

/** A named limit's algorithm and numbers. Made by {@link tokenBucket} and its siblings, and not changed after. */
export interface Policy {
  /** How it counts. For stores: any version may change it. */
  readonly algorithm: Algorithm<any>;
  /** What the algorithm counts with. For stores: any version may change them. */
  readonly numbers: Numbers;
  /** The numbers at a moment, where they depend on it (ms since 1970): calendar windows. */
  readonly numbersAt: ((ms: number) => Numbers) | undefined;
  /** The part of the calendar and the time zone, where the window is one. */
  readonly calendar: string | undefined;
  /** Units: what a client may use at once. */
  readonly limit: number;
  /** Milliseconds: the span the limit belongs to; for a bucket, from empty to full; `undefined` for concurrency. */
  readonly windowMs: number | undefined;
  /** Whether units come back one by one, and not all at the window's end. */
  readonly rolling: boolean;
  /** Who it counts; `undefined`: whoever the configuration says. */
  readonly by: By | undefined;
  /** Whether it refuses, or is on trial. */
  readonly mode: Mode;
  /** What it counts, for clients to read. */
  readonly unit: Unit;
  /** Units a request takes of this policy, where it is not what it takes of the others. */
  readonly cost: Cost | undefined;
  /** What answers for it when the store cannot, where it is not what answers for the others. */
  readonly onFailure: FailureRule | undefined;
  /** Where the policy is counted. */
  readonly scope: Scope;
  /** The parts among which the limit is split, each counted under a key of its own; `undefined`: it is not split. */
  readonly shards: readonly Policy[] | undefined;
  /**
   * The same policy with one of so many equal parts of its limit, rounded down, and at least 1 where there was any.
   * With `index`, from 0, the parts are not quite equal, and together make the whole.
   */
  shareOf(instances: number, index?: number): Policy;
  /** The same policy with another limit: its rate and its burst change in proportion, its window does not. */
  ofLimit(limit: number): Policy;
}

/**
 * Where a policy is counted:
 * - `shared`: in the store, for all processes together
 * - `process`: in this process's memory, for this process alone
 */
export type Scope = "shared" | "process";

/** Units a request takes: a whole number from 0, or a function of the request that finds it. */
export type Cost<R = any> = number | ((request: R) => MaybePromise<number>);

/** What every policy takes besides its numbers. */
export interface PolicyOptions<R = any> {
  /** Who this policy counts, where it is not who the others count. */
  by?: By<R>;
  /** Units a request takes of this policy, where it is not what it takes of the others. */
  cost?: Cost<R>;
  /** Whether it refuses, or is on trial. `"enforce"` by default. */
  mode?: Mode;
  /** What is counted, for clients to read. `"requests"` by default. */
  unit?: Unit;
  /** What answers when the store cannot. Of all policies of a request the strictest rule holds. The configuration's by default. */
  onFailure?: FailureRule;
  /**
   * Where it is counted. `"shared"` by default. `"process"`: in this process's memory, which costs nothing and asks
   * nobody; where the configuration has `instances`, each takes an equal share of the limit.
   */
  scope?: Scope;
  /**
   * Splits the limit into so many parts under keys of their own, for an identity that is too much for one server of a
   * Cluster: 2 to 64. A request is counted by one part, or by another when that has no room: never more than the limit
   * in all, and near it perhaps less. One key by default.
   */
  shards?: number;
}

/** What {@link slidingWindow} and {@link slidingLog} take. */
export interface WindowOptions<R = any> extends PolicyOptions<R> {
  /** Units per window. Whole, 0 or more. */
  limit: number;
  /** The window: whole milliseconds, or text such as `"1m"`. 1 ms to ten years. */
  window: Duration;
}

/** What a bucket may hold: millionths of a token have to be counted exactly. */
export const MOST_TOKENS = Math.floor(Number.MAX_SAFE_INTEGER / 1_000_000);

/** The largest integer a header field may carry. source: RFC 9651 §3.3.1 */
export const MOST_IN_FIELD = 999_999_999_999_999;

/** Options that every maker knows. */
export const COMMON = ["by", "cost", "mode", "unit", "onFailure", "scope", "shards"];

/** Checks what policies with a window have in common. `most`: units; `more`: options of this maker alone. */
export function windowed(
  name: string,
  options: WindowOptions,
  most: number,
  hint: string,
  more: string[] = [],
) {
  onlyKnown(name, options, ["limit", "window", ...more, ...COMMON]);
  return {
    limit: wholeNumber(`${name}.limit`, options.limit, 0, most, hint),
    window: duration(`${name}.window`, options.window),
  };
}

/** From empty to full takes at most ten years. */
export function notTooSlow(option: string, value: number, windowMs: number): void {
  if (windowMs <= LONGEST_MS) return;
  const advice = "from empty to full would take more than ten years; raise the rate or lower the capacity";
  throw new ConfigError("TIDEGATE_OPTION_INVALID", option, value, advice);
}

type Made = Pick<Policy, "algorithm" | "numbers" | "limit" | "windowMs" | "shareOf" | "ofLimit"> &
  Partial<Pick<Policy, "rolling" | "numbersAt" | "calendar">>;

/** What a maker hands on. Checks the options that all have. */
export function policy(name: string, options: PolicyOptions, made: Made): Policy {
  const { by, cost, mode = "enforce", unit = "requests", onFailure, scope = "shared", shards } = options;
  if (cost !== undefined && typeof cost !== "function" && !isCost(cost)) {
    const advice = "give a whole number from 0, or a function of the request";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", `${name}.cost`, cost, advice);
  }
  oneOf(`${name}.mode`, mode, ["enforce", "shadow"]);
  oneOf(`${name}.unit`, unit, ["requests", "content-bytes", "concurrent-requests"]);
  oneOf(`${name}.scope`, scope, ["shared", "process"]);
  return Object.freeze({
    rolling: true,
    numbersAt: undefined,
    calendar: undefined,
    ...made,
    by,
    cost,
    mode,
    unit,
    onFailure,
    scope,
    shards: shards === undefined ? undefined : shardsOf(name, options, made),
  });
}

const MOST_SHARDS = 64;

function shardsOf(name: string, { cost, scope, shards }: PolicyOptions, made: Made): readonly Policy[] {
  const option = `${name}.shards`;
  const count = wholeNumber(option, shards, 2, MOST_SHARDS);
  const fail = (advice: string) => new ConfigError("TIDEGATE_OPTION_INVALID", option, shards, advice);
  if (scope === "process") throw fail(`leave it out: what this process counts alone has no shards`);
  if (count > made.limit) throw fail(`give at most the limit, ${made.limit}: every shard needs a part of it`);
  const parts = Array.from({ length: count }, (_, index) => made.shareOf(count, index));
  const least = parts.at(-1)!.limit;
  if (typeof cost === "number" && cost > least)
    throw fail(`a cost of ${cost} would never fit into a shard of ${least}; give fewer`);
  return parts;
}

/**
 * One of `instances` equal parts, rounded down; at least 1 of what there is. With `index`, what is left over goes to
 * the first ones.
 */
export function partOf(limit: number, instances: number, index?: number): number {
  const part = Math.floor(limit / instances);
  if (index !== undefined) return part + (index < limit % instances ? 1 : 0);
  return limit === 0 ? 0 : Math.max(1, part);
}

/** The options of a share: what is a share already is not split again. */
export const unsplit = <T extends PolicyOptions>(options: T): T => ({ ...options, shards: undefined });

/** Whether a value was made by one of the functions above, in this copy of the package or another. */
export function isPolicy(value: unknown): value is Policy {
  const { algorithm, numbers, limit } = (value ?? {}) as Partial<Policy>;
  return typeof algorithm?.tag === "string" && typeof numbers?.a === "number" && typeof limit === "number";
}
