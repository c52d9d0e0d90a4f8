import type { Policy } from "../algorithms/policy.ts";
import type { Histories } from "./histories.ts";
import { ladder } from "./ladder.ts";
import { refusalsOf, type Trial, trialsOf } from "./replay.ts";
import type { CurvePoint, Suggestion } from "./report.ts";

/** Shares of identities for which a limit is suggested. */
const SHARES = [0.001, 0.01, 0.05];

/** What a curve is made of. */
export interface Asked {
  readonly policy: Policy;
  readonly histories: Histories;
  /** Requests of all identities, those included that asked for no units. */
  readonly requests: number;
  /** By identity, the most units within a window. */
  readonly peaks: readonly number[];
}

export interface Curve {
  readonly curve: readonly CurvePoint[];
  readonly suggestions: readonly Suggestion[];
}

/** What other limits of a policy would refuse, exactly: by its own steps, on each identity's own requests. */
export function curveOf(asked: Asked): Curve {
  const { policy, requests, histories } = asked;
  const trialOf = trialsOf(policy);
  const { least, greatest } = leastLimits(asked, trialOf);
  const ascending = least.toSorted();
  const refusedAt = remembering((limit) => {
    const refused = least.reduce(
      (sum, enough, who) => (enough <= limit ? sum : sum + refusalsOf(trialOf(limit), histories, who)),
      0,
    );
    return shareOf(refused, requests);
  });
  const highest = Math.min(ascending.at(-1) ?? 1, greatest);
  const limits = ladder(smallestOf(histories), highest, policy.limit);
  const curve = limits
    .filter((limit) => canHave(policy, limit))
    .map((limit) => ({
      limit,
      identitiesRefused: shareOf(ascending.length - countUpTo(ascending, limit), ascending.length),
      requestsRefused: refusedAt(limit),
    }));
  const suggestions = SHARES.flatMap((share) => {
    const limit = leastFor(share, ascending);
    return limit === undefined ? [] : [{ share, limit, requestsRefused: refusedAt(limit) }];
  });
  return { curve, suggestions };
}

/** By identity, the least limit at which it is never refused; `Infinity`: at none that there is. */
function leastLimits(
  { policy, histories, peaks }: Asked,
  trialOf: (limit: number) => Trial,
): { least: Float64Array; greatest: number } {
  const least = new Float64Array(peaks.length);
  const sizes = peaks.map((_, who) => sizesOf(histories, who));
  const greatest = greatestLimit(
    policy,
    sizes.reduce((greatest, { all }) => Math.max(greatest, all), 1),
  );
  for (let who = 0; who < peaks.length; who++) {
    const { largest, all } = sizes[who]!;
    const passes = (limit: number) => refusalsOf(trialOf(limit), histories, who, 1) === 0;
    least[who] = leastLimit({ passes, largest, all, guess: peaks[who]!, greatest });
  }
  return { least, greatest };
}

interface Search {
  readonly passes: (limit: number) => boolean;
  /** Units of its largest request: fewer can never be enough. */
  readonly largest: number;
  /** All units that it was ever charged: they are enough. */
  readonly all: number;
  /** Enough for most algorithms, and often hardly more than that. */
  readonly guess: number;
  /** There is no higher limit. */
  readonly greatest: number;
}

function leastLimit({ passes, largest, all, guess, greatest }: Search): number {
  if (largest > greatest) return Infinity;
  let enough = Math.min(all, greatest);
  if (enough < all && !passes(enough)) return Infinity;
  let low = largest;
  if (low < guess && guess < enough) {
    if (passes(guess)) enough = guess;
    else low = guess + 1;
  }
  for (let next = enough - 1; low < enough; next = Math.floor((low + enough) / 2)) {
    if (passes(next)) enough = next;
    else low = next + 1;
  }
  return enough;
}

/** Units of the smallest request: below that, a limit lets nobody in. */
const smallestOf = ({ units }: Histories): number =>
  units ? units.reduce((least, each) => Math.min(least, each), Infinity) : 1;

function sizesOf({ starts, units, more }: Histories, who: number): { largest: number; all: number } {
  const [start, end] = [starts[who]!, starts[who + 1]!];
  if (!units && !more) return { largest: Math.min(1, end - start), all: end - start };
  let largest = 0;
  let all = 0;
  for (let i = start; i < end; i++) {
    const asked = units ? units[i]! : 1;
    largest = Math.max(largest, asked);
    all += asked + Math.max(0, more ? more[i]! : 0);
  }
  return { largest, all };
}

/** The greatest limit up to `wanted` that the policy can have: each algorithm has a most. */
function greatestLimit(policy: Policy, wanted: number): number {
  if (canHave(policy, wanted)) return wanted;
  let [low, high] = [Math.min(policy.limit, wanted), wanted];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (canHave(policy, middle)) low = middle;
    else high = middle;
  }
  return low;
}

function canHave(policy: Policy, limit: number): boolean {
  try {
    policy.ofLimit(limit);
    return true;
  } catch {
    return false;
  }
}

/** The least limit, 1 or more, that at most this share of identities needs more than; `undefined`: there is none. */
function leastFor(share: number, ascending: Float64Array): number | undefined {
  // 0.05 · 20 is no whole number to a computer.
  const mayRefuse = Math.floor(share * ascending.length + 1e-9);
  const limit = ascending.at(-1 - mayRefuse);
  return limit === undefined || limit === Infinity ? undefined : Math.max(1, limit);
}

/** How many of ascending numbers are no greater than `limit`. */
function countUpTo(ascending: Float64Array, limit: number): number {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ascending[middle]! <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

const shareOf = (part: number, whole: number): number => (whole === 0 ? 0 : part / whole);

function remembering(find: (limit: number) => number): (limit: number) => number {
  const known = new Map<number, number>();
  return (limit) => {
    let found = known.get(limit);
    if (found === undefined) known.set(limit, (found = find(limit)));
    return found;
  };
}
