/** What no limiter does by itself: a lease asked for twice, a batch, a heartbeat that comes late. */
import { type Check, type Move, type Outcome, type Policy, type Store } from "@tidegate/core";

/** A check of one policy, unless `more` says otherwise. */
export const checkOf = (policy: Policy, key: string, more: Partial<Check> = {}): Check => ({
  policies: [policy],
  keys: [key],
  costs: [1],
  deadline: performance.now() + 10_000,
  peek: false,
  blocks: [],
  lease: undefined,
  nonce: undefined,
  ...more,
});

/** Decides a batch; throws when a check could not be decided. */
export function decideAll(store: Store, batch: readonly Check[]): Promise<Outcome[]> {
  return new Promise((resolve, reject) => {
    const outcomes: Outcome[] = [];
    let open = batch.length;
    store.decide(
      batch,
      batch.map((_, i) => (error, outcome) => {
        if (!outcome) return reject(error);
        outcomes[i] = outcome;
        if (--open === 0) resolve(outcomes);
      }),
    );
  });
}

export const decideOne = async (store: Store, check: Check): Promise<Outcome> =>
  (await decideAll(store, [check]))[0]!;

/** How many units were moved. */
export const settleAll = (store: Store, ...moves: Move[]): Promise<number> =>
  new Promise((resolve, reject) =>
    store.settle(moves, (error, moved) => (error ? reject(error) : resolve(moved))),
  );
