import type { Algorithm, Numbers } from "../algorithms/algorithm.ts";

/** What is kept under one key. */
export interface Kept {
  state: unknown;
  /** When the state goes, µs. */
  ends: number;
}

/** What decides, of an algorithm. */
export type Steps = Pick<Algorithm<unknown>, "room" | "charge" | "mend" | "keepFor" | "report" | "credit">;

export const stateAt = ({ state, ends }: Kept, now: number): unknown => (ends > now ? state : undefined);

/** Redis keeps whole milliseconds. */
const endAfter = (now: number, us: number): number => Math.ceil((now + us) / 1000) * 1000;

export function put(kept: Kept, steps: Steps, numbers: Numbers, state: unknown, now: number): void {
  kept.state = state;
  kept.ends = endAfter(now, steps.keepFor(numbers, state, now));
}

/** Units of an earlier charge come back. Tells how many, as the memory store does. */
export function giveBack(
  kept: Kept,
  steps: Steps,
  numbers: Numbers,
  { units, mark }: { readonly units: number; readonly mark: number },
  now: number,
): number {
  const state = stateAt(kept, now);
  const less = state === undefined ? undefined : steps.credit(numbers, state, now, units, mark);
  if (less === undefined) return 0;
  kept.state = less;
  return units;
}

/** More is charged, room or not: into debt, as deep as the limit at most. Tells how much, as the memory store does. */
export function chargeMore(kept: Kept, steps: Steps, numbers: Numbers, units: number, now: number): number {
  const state = stateAt(kept, now);
  const most = steps.room(numbers, state, now, 1, 1) + numbers.a;
  const charged = Math.min(units, Math.max(0, most));
  if (charged > 0) put(kept, steps, numbers, steps.charge(numbers, state, now, charged), now);
  return charged;
}
