import type { Config, ResponseOutcome, Settlement } from "../config.ts";
import type { MaybePromise } from "../identity/identity.ts";

type Settle = NonNullable<Config["settle"]>;

/** What `settle` functions said, by request: each is asked once. */
export class Settling {
  readonly #said = new WeakMap<object, MaybePromise<Settlement>>();

  once(settle: Settle): Settle {
    return (response: ResponseOutcome) => {
      const known = this.#said.get(response.request as object);
      if (known !== undefined) return known;
      const said = settle(response);
      // Nonsense is no key's value that could be told from nothing: it is asked for again, and told of as a fault.
      if (said !== undefined) this.#said.set(response.request as object, said);
      return said;
    };
  }

  /** What a function said about a request; `undefined`: nothing yet. */
  of(request: object): MaybePromise<Settlement> | undefined {
    return this.#said.get(request);
  }
}
