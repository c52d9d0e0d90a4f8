import type { Algorithm, Numbers } from "../algorithms/algorithm.ts";
import type { Policy } from "../algorithms/policy.ts";
import { Endings } from "./endings.ts";
import type { Histories } from "./histories.ts";
import { chargeMore, giveBack, type Kept, put, stateAt } from "./kept.ts";

/** A policy with another limit, as it is tried on a log. */
export interface Trial {
  readonly algorithm: Algorithm<unknown>;
  /** The numbers at a moment, µs. */
  readonly numbersAt: (now: number) => Numbers;
}

/**
 * How many requests of an identity a trial refuses, up to `most`. The identity has the policy for itself, and what it is
 * refused is not charged.
 */
export function refusalsOf(trial: Trial, histories: Histories, who: number, most = Infinity): number {
  const { algorithm, numbersAt } = trial;
  const { starts, at, units, more } = histories;
  const ending = more && new Endings<Through>();
  const end = starts[who + 1]!;
  const kept: Kept = { state: undefined, ends: 0 };
  let refused = 0;
  for (let i = starts[who]!; i < end && refused < most; i++) {
    const now = at[i]!;
    if (ending) settleUntil(trial, kept, ending, now);
    const cost = units ? units[i]! : 1;
    const numbers = numbersAt(now);
    const state = stateAt(kept, now);
    if (algorithm.room(numbers, state, now, cost, 1) < 1) {
      refused++;
      continue;
    }
    put(kept, algorithm, numbers, algorithm.charge(numbers, state, now, cost), now);
    if (ending && more[i] !== 0) ending.put(histories.ends![i]!, throughOf(trial, kept, histories, i));
  }
  return refused;
}

/** What an admitted request moves once it is through. */
interface Through {
  readonly at: number;
  /** Below 0: units come back. */
  readonly more: number;
  readonly mark: number;
}

function throughOf(
  { algorithm, numbersAt }: Trial,
  { state }: Kept,
  histories: Histories,
  i: number,
): Through {
  const now = histories.at[i]!;
  const cost = histories.units ? histories.units[i]! : 1;
  const numbers = numbersAt(now);
  const mark = algorithm.mark(numbers, algorithm.report(numbers, state, now, cost), 0, now, cost);
  return { at: histories.ends![i]!, more: histories.more![i]!, mark };
}

function settleUntil(
  { algorithm, numbersAt }: Trial,
  kept: Kept,
  ending: Endings<Through>,
  now: number,
): void {
  while (ending.soonest <= now) {
    const { at, more, mark } = ending.take()!;
    const numbers = numbersAt(at);
    if (more < 0) giveBack(kept, algorithm, numbers, { units: -more, mark }, at);
    else chargeMore(kept, algorithm, numbers, more, at);
  }
}

/** Where costs are large, each identity may have limits of its own that are tried. */
const MOST_TRIALS = 1000;

/** Makes trials of one policy. */
export function trialsOf(policy: Policy): (limit: number) => Trial {
  const { algorithm, numbersAt } = policy;
  let known = new Map<number, Trial>();
  const windowAt = numbersAt && remembering(numbersAt);
  return (limit) => {
    let trial = known.get(limit);
    if (!trial) {
      const { numbers } = limit === policy.limit ? policy : policy.ofLimit(limit);
      trial = { algorithm, numbersAt: windowAt ? limited(windowAt, numbers.a) : () => numbers };
      if (known.size > MOST_TRIALS) known = new Map();
      known.set(limit, trial);
    }
    return trial;
  };
}

/** Numbers by calendar window, each worked out once: that takes a while, and every identity begins anew. */
function remembering(numbersAt: NonNullable<Policy["numbersAt"]>): (now: number) => Numbers {
  const known: Numbers[] = [];
  let last: Numbers | undefined;
  const holds = ({ b, c }: Numbers, now: number) => b <= now && now < c;
  return (now) => {
    if (last && holds(last, now)) return last;
    last = known.find((numbers) => holds(numbers, now));
    if (!last) known.push((last = numbersAt(now / 1000)));
    return last;
  };
}

/** The same windows with another limit. */
function limited(windowAt: (now: number) => Numbers, limit: number): (now: number) => Numbers {
  const made = new Map<Numbers, Numbers>();
  let last: Numbers | undefined;
  let own: Numbers | undefined;
  return (now) => {
    const window = windowAt(now);
    if (window === last) return own!;
    own = made.get(window);
    if (!own) made.set(window, (own = { ...window, a: limit }));
    last = window;
    return own;
  };
}
