import { Endings } from "./endings.ts";
import type { Histories } from "./histories.ts";

/** The most units an identity asked within any one window, and when that was reached, µs. */
export interface Most {
  readonly units: number;
  readonly at: number;
}

/** @param windowUs `undefined`: the most that were in flight at once */
export function mostOf(histories: Histories, who: number, windowUs: number | undefined): Most {
  return windowUs === undefined ? mostAtOnce(histories, who) : mostWithin(histories, who, windowUs);
}

function mostWithin({ starts, at, units }: Histories, who: number, windowUs: number): Most {
  const end = starts[who + 1]!;
  let first = starts[who]!;
  let within = 0;
  let most = { units: 0, at: 0 };
  for (let i = first; i < end; i++) {
    within += units ? units[i]! : 1;
    // A window of no length holds what came at the same moment.
    while (at[first]! <= at[i]! - windowUs && at[first]! < at[i]!)
      within -= units ? units[first++]! : (first++, 1);
    if (within > most.units) most = { units: within, at: at[i]! };
  }
  return most;
}

function mostAtOnce({ starts, at, units, ends }: Histories, who: number): Most {
  const inFlight = new Endings<number>();
  let held = 0;
  let most = { units: 0, at: 0 };
  for (let i = starts[who]!; i < starts[who + 1]!; i++) {
    while (inFlight.soonest <= at[i]!) held -= inFlight.take()!;
    const takes = units ? units[i]! : 1;
    held += takes;
    inFlight.put(ends ? ends[i]! : at[i]!, takes);
    if (held > most.units) most = { units: held, at: at[i]! };
  }
  return most;
}
