import type { Column } from "./column.ts";
import type { Tally } from "./tally.ts";

/** What each identity asked of a policy, in the order in which it came: those of number `i` from `starts[i]` on. */
export interface Histories {
  readonly starts: Uint32Array;
  /** µs. */
  readonly at: Float64Array;
  /** `undefined`: each is one. */
  readonly units: Float64Array | undefined;
  /** Units charged afterwards besides, below 0 when they were given back; `undefined`: never. */
  readonly more: Float64Array | undefined;
  /** When each was through, µs; `undefined` where it does not matter. */
  readonly ends: Float64Array | undefined;
}

/** The rows of a tally by identity: a counting sort, which keeps the order of each. */
export function historiesOf(tally: Tally): Histories {
  const { rows, who } = tally;
  const starts = startsOf(tally);
  const next = starts.slice();
  const places = new Uint32Array(rows);
  for (let row = 0; row < rows; row++) places[row] = next[who.get(row)]!++;
  const sorted = (column: Column, made: (row: number) => number) => {
    if (column.isEmpty) return undefined;
    const values = new Float64Array(rows);
    for (let row = 0; row < rows; row++) values[places[row]!] = made(row);
    return values;
  };
  const { at, further, more, lasted } = tally;
  return {
    starts,
    at: sorted(at, (row) => at.get(row)) ?? new Float64Array(0),
    units: sorted(further, (row) => further.get(row) + 1),
    more: sorted(more, (row) => more.get(row)),
    ends:
      more.isEmpty && !tally.place.policy.algorithm.renew
        ? undefined
        : sorted(at, (row) => at.get(row) + lasted.get(row)),
  };
}

/** Where each identity's rows begin, and behind the last one their number. */
function startsOf({ counters, rows, who }: Tally): Uint32Array {
  const starts = new Uint32Array(counters.length + 1);
  for (let row = 0; row < rows; row++) starts[who.get(row) + 1]!++;
  for (let i = 0; i < counters.length; i++) starts[i + 1]! += starts[i]!;
  return starts;
}
