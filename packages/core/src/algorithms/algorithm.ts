import type { Reason } from "../decision.ts";

/**
 * Numbers of a policy as its algorithm wants them, in Lua and in TypeScript alike. Times are whole
 * microseconds. What `a`, `b` and `c` are, each algorithm says.
 */
export interface Numbers {
  readonly a: number;
  readonly b: number;
  readonly c: number;
  /** The longest that any state of this policy means something, µs. */
  readonly lifetime: number;
}

/** What an algorithm makes of its state, for the caller. Times are milliseconds, rounded up. */
interface Explanation {
  readonly remaining: number;
  readonly nextMs: number | null;
  readonly fullMs: number;
  readonly reason: Reason;
}

/**
 * One way to count, told a second time: line for line what its Lua says. The memory store runs
 * these functions; with Redis they only explain what the script answered.
 *
 * Pure: no clock, no store; `now` is whole microseconds. `undefined` is the state never written.
 *
 * @typeParam S the state a store keeps
 */
export interface Algorithm<S> {
  /** Names the algorithm in keys and to the script. */
  readonly tag: string;
  /** Names it to people: as its maker is called. */
  readonly name: string;
  /** How many integers of state a reply holds. */
  readonly words: number;
  /** How many requests of this cost fit now; `n` when the cost is 0. May be negative. */
  room(numbers: Numbers, state: S | undefined, now: number, cost: number, n: number, lease?: string): number;
  /** The state after charging `units`, at least 1. */
  charge(numbers: Numbers, state: S | undefined, now: number, units: number, lease?: string): S;
  /**
   * After a refusal: the state to write instead, when no charge under these numbers and this clock
   * could have left this one; else `undefined`. `left`: µs until the state goes.
   */
  mend(numbers: Numbers, state: S, now: number, left: number): S | undefined;
  /** How long a state written now is to be kept, µs: until it means nothing. */
  keepFor(numbers: Numbers, state: S, now: number): number;
  /** The integers that the script would answer. */
  report(numbers: Numbers, state: S | undefined, now: number, cost: number): number[];
  /**
   * What the integers from `words[at]` on mean for this cost. `granted`: they are of after the
   * charge; else the policy says for itself whether the cost would fit.
   */
  explain(
    numbers: Numbers,
    words: readonly number[],
    at: number,
    now: number,
    cost: number,
    granted: boolean,
  ): Explanation;
  /**
   * The state after `units` of an earlier charge come back; `undefined` when nothing of it is left to
   * give back. Never above the limit, never of a newer window; the state's lifetime stays as it is.
   * `mark`: what {@link mark} said of the charge.
   */
  credit(numbers: Numbers, state: S, now: number, units: number, mark: number, lease?: string): S | undefined;
  /** Where there are leases: the state with one that is still held lasting from now on; `undefined` when it is gone. */
  renew?(numbers: Numbers, state: S, now: number, units: number, lease: string | undefined): S | undefined;
  /**
   * What the integers from `words[at]` on were before `units`, the last that were charged, at the same moment. Missing
   * where they do not tell.
   */
  before?(numbers: Numbers, words: readonly number[], at: number, units: number): number[];
  /**
   * What the integers of a refusal at `from` are at `to`, µs, if nobody came in between; `undefined` when they do not
   * tell. Missing where somebody may always come in between.
   */
  later?(numbers: Numbers, words: readonly number[], from: number, to: number): readonly number[] | undefined;
  /** Whether the integers depend on the cost that was asked. */
  readonly costInWords?: boolean;
  /** Where a charge went, for the receipt. */
  mark(numbers: Numbers, words: readonly number[], at: number, now: number, units: number): number;
}

/** Whether a state goes no later than its policy can account for. Redis keeps whole milliseconds. */
export const goesInTime = ({ lifetime }: Numbers, left: number): boolean => left <= lifetime + 1000;

/** Milliseconds, rounded up, never negative. */
export const toMs = (us: number): number => (us > 0 ? Math.ceil(us / 1000) : 0);

/**
 * The fewest whole milliseconds after which `passes` holds, from an estimate in µs that rounding
 * may have put off. `passes` must stay true once it is.
 */
export function waitMs(estimateUs: number, passes: (ms: number) => boolean): number {
  let enough = toMs(estimateUs);
  let tooFew = enough - 1;
  for (let step = 1; !passes(enough); step *= 2) {
    tooFew = enough;
    enough += step;
  }
  for (let step = 1; tooFew >= 0 && passes(tooFew); step *= 2) {
    enough = tooFew;
    tooFew = Math.max(-1, tooFew - step);
  }
  while (enough - tooFew > 1) {
    const middle = Math.floor((enough + tooFew) / 2);
    if (passes(middle)) enough = middle;
    else tooFew = middle;
  }
  return enough;
}

/** `number % span` of whole numbers from 0. `%` of numbers as large as these costs several times what a division does. */
export function rest(number: number, span: number): number {
  const left = number - Math.floor(number / span) * span;
  // The quotient may have been rounded over a whole number; all else is exact below 2^53.
  return left < 0 ? left + span : left >= span ? left - span : left;
}

export const clamp = (x: number, low: number, high: number): number => Math.min(Math.max(x, low), high);
