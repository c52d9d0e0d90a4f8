import type { Policy } from "@tidegate/core";

/**
 * A table of decisions on one fresh key. Every row can be checked by hand. The first row's window
 * begins at 0 ms; a row that goes back in time is the server's clock stepping back.
 */
export interface Story {
  readonly of: Policy;
  /** Milliseconds, except `cost` and `remaining` (units). `next` is null for never. */
  readonly rows: readonly Row[];
}

type Row = readonly [
  at: number,
  cost: number,
  allowed: boolean,
  remaining: number,
  next: number | null,
  full: number,
];
