import { curveOf } from "./curve.ts";
import { type Histories, historiesOf } from "./histories.ts";
import { type Most, mostOf } from "./peaks.ts";
import type { IdentityReport, Peak, PolicyReport } from "./report.ts";
import type { Tally } from "./tally.ts";

export interface PolicySettings {
  /** How many identities each list names. */
  readonly top: number;
  /** Whether other limits are tried. */
  readonly curve: boolean;
}

/** @param timeline what it refused, in the steps of the report */
export function policyReport(
  tally: Tally,
  timeline: readonly number[],
  settings: PolicySettings,
): PolicyReport {
  const { place, routes, watches, requests, refused, units, counters, firstRefusedAt, lastRefusedAt } = tally;
  const { algorithm, limit, windowMs, mode } = place.policy;
  const histories = historiesOf(tally);
  const peaks = peaksOf(tally, histories);
  const tried =
    settings.curve && whyNoCurve(tally) === undefined
      ? curveOf({ policy: place.policy, histories, requests, peaks: peaks.map(({ units }) => units) })
      : undefined;
  return {
    name: place.name,
    ...(routes.length > 0 && { route: routes.join(", ") }),
    algorithm: algorithm.name,
    limit,
    windowMs: windowMs ?? null,
    shadow: mode === "shadow",
    requests,
    refused,
    units,
    identities: counters.length,
    identitiesRefused: counters.filter(({ refused }) => refused > 0).length,
    firstRefusedAt,
    lastRefusedAt,
    peak: highest(tally, peaks),
    neverFound: [...new Set([...watches].flatMap(({ neverFound }) => neverFound))],
    timeline,
    top: topOf(tally, peaks, settings.top),
    curve: tried?.curve ?? null,
    suggestions: tried?.suggestions ?? null,
  };
}

/** Why no other limits can be tried, for a reader; `undefined`: they can. */
export function whyNoCurve({ place, settlesLater }: Tally): string | undefined {
  if (place.policy.algorithm.renew) return "it counts what is in flight, which other limits would change";
  if (place.varies) return "requests choose its numbers";
  if (place.policy.shards) return "its limit is split by chance";
  if (settlesLater) return "settle answers later";
  return undefined;
}

function peaksOf({ counters, place }: Tally, histories: Histories): Most[] {
  const { windowMs } = place.policy;
  const windowUs = windowMs === undefined ? undefined : windowMs * 1000;
  return counters.map(({ number }) => mostOf(histories, number, windowUs));
}

function highest({ counters }: Tally, peaks: readonly Most[]): Peak | null {
  let found: Peak | null = null;
  for (let who = 0; who < peaks.length; who++) {
    const { units, at } = peaks[who]!;
    if (units > (found?.units ?? 0)) found = { units, identity: counters[who]!.identity, at: at / 1000 };
  }
  return found;
}

/** Who came first goes first where all else is equal. */
function topOf({ counters }: Tally, peaks: readonly Most[], top: number): IdentityReport[] {
  const sorted = counters.toSorted((a, b) => b.refused - a.refused || b.requests - a.requests);
  return sorted
    .slice(0, top)
    .map(({ identity, number, requests, refused, firstRefusedAt, lastRefusedAt }) => ({
      identity,
      requests,
      refused,
      peak: peaks[number]!.units,
      firstRefusedAt,
      lastRefusedAt,
    }));
}
