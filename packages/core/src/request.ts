import type { Identity } from "./identity/identity.ts";

/** What to decide, without HTTP. */
export interface DecideRequest {
  /**
   * Who is counted: an identity, or text or a number of kind `id`; or, where policies count
   * different ones, a record from policy name to identity. Policies by `globally()` need none.
   */
  identity: IdentityInput | Readonly<Record<string, IdentityInput>>;
  /**
   * Units to take: the configuration's by default, which is 1; or a record from policy name to
   * units. 0 looks and takes nothing. A policy's own cost goes before a single number.
   */
  cost?: number | Readonly<Record<string, number>>;
  /** The same question with the same key is charged once: the grant is given again, at most three times. */
  idempotencyKey?: string;
}

/** Somebody, where there is no request to look at: an {@link Identity}, or text or a number, which are of kind `id`. */
export type IdentityInput = Identity | string | number;
