import { whyNoCurve } from "./policy-report.ts";
import { nobodyFound } from "./nobody.ts";
import { namedIn, type Tally } from "./tally.ts";

/** Of how many limited requests the log does not tell something. */
export interface Unclear {
  requests: number;
  address: number;
  status: number;
  duration: number;
  /** OPTIONS without headers. */
  preflight: number;
}

/** What a report's numbers do not tell, for a reader. */
export function doubtsOf(tallies: readonly Tally[], unclear: Unclear, curve: boolean): string[] {
  return [
    ...ofRequests(tallies, unclear),
    ...nobodyFound(tallies),
    ...tallies.flatMap((tally) => ofPolicy(tally, curve)),
  ];
}

function ofRequests(tallies: readonly Tally[], unclear: Unclear): string[] {
  const { requests, address, status, duration, preflight } = unclear;
  const some = (count: number) => `${count} of ${requests} limited requests`;
  const inFlight = tallies.some(
    ({ place, requests }) => requests > 0 && place.policy.algorithm.renew !== undefined,
  );
  const settles = tallies.some(({ settles }) => settles);
  return [
    address > 0 &&
      tallies.some(({ counters }) => counters.some(({ identity }) => identity === "ip:none")) &&
      `${some(address)} have no address: where they are counted by it, they count together as ip:none.`,
    duration > 0 &&
      inFlight &&
      `${some(duration)} have no duration: a policy by concurrency() takes them for over at once, and refuses too few.`,
    status > 0 &&
      settles &&
      `${some(status)} have no status: giveBackOn and settle take them for responses that never began.`,
    preflight > 0 &&
      `${some(preflight)} are OPTIONS without headers: preflights cannot be told from others, and are counted.`,
  ].filter((text) => text !== false);
}

function ofPolicy(tally: Tally, curve: boolean): string[] {
  const named = `Policy ${namedIn(tally)}`;
  if (tally.requests === 0) return [`${named} met no request.`];
  const reason = whyNoCurve(tally);
  return curve && reason ? [`${named} has no curve and no suggestions: ${reason}.`] : [];
}
