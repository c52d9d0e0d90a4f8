import type { Policy } from "./algorithms/policy.ts";
import type { Charge, Receipt } from "./decision.ts";
import type { Store } from "./stores/store.ts";

/** What a receipt stands for, until it is settled. */
export interface Open {
  /** The policies that were asked, in the order of the charges where all were charged. */
  readonly parts: readonly { readonly name: string; readonly policy: Policy; readonly ownCost: boolean }[];
  /** The key under which the grant is kept, if it is. */
  readonly nonce: string | undefined;
  /** Where the units are. */
  readonly store: Pick<Store, "settle">;
}

/** A receipt of ours. What it stands for is nobody else's to see, and is taken once. */
export class OwnReceipt implements Receipt {
  readonly at: number;
  readonly charges: readonly Charge[];
  readonly lease: string | undefined;
  #open: Open | undefined;

  constructor(at: number, charges: readonly Charge[], lease: string | undefined) {
    this.at = at;
    this.charges = charges;
    this.lease = lease;
  }

  /** From now on it can be settled. */
  static open(receipt: Receipt, open: Open): void {
    if (#open in receipt) receipt.#open = open;
  }

  /** What it stands for; `undefined` when it is settled, or none of ours. */
  static take(receipt: Receipt): Open | undefined {
    if (!(#open in receipt)) return undefined;
    const open = receipt.#open;
    receipt.#open = undefined;
    return open;
  }
}
