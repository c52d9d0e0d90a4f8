import { StoreError } from "../errors.ts";
import { withBreaker } from "../failure/breaker.ts";
import { withDeadline } from "../failure/deadline.ts";
import type { Store } from "../stores/store.ts";
import { coalesce } from "../tiers/coalesce.ts";
import { direct } from "../tiers/tier.ts";
import type { Backend, BackendOptions, ServerOptions } from "./backend.ts";

/** @param one which one it is, where there are several */
export function oneStore(
  store: Store,
  { timeoutMs, watcher, coalesces, keepsStore }: BackendOptions,
  one?: ServerOptions,
): Backend {
  const server = one?.address;
  const tier = store.batches && coalesces ? coalesce(store, watcher.asked, one?.slotOf) : direct(store);
  const deadline = withDeadline(tier);
  let isStopped = false;
  const breaker = withBreaker(deadline, timeoutMs, {
    changed: (isOpen) => isStopped || watcher.breaker(isOpen),
    answered: () => watcher.answered(server),
  });
  // What failed after decisions only, such as a give-back, leaves nothing to look with: the connection says that it is over.
  store.onConnected?.(() => breaker.look() || watcher.answered(server));

  return {
    get isOpen() {
      return breaker.isOpen;
    },
    get isConnected() {
      return store.isConnected?.() ?? true;
    },
    decide(check, done, late) {
      breaker.decide(
        check,
        (error, outcome) => {
          if (outcome) {
            watcher.answered(server);
            return done(undefined, outcome);
          }
          const failure = error ?? new StoreError("unknown", "the store gave no answer");
          watcher.failed(failure, server);
          done(failure, undefined);
        },
        late,
      );
    },
    settle(moves, done) {
      store.settle(moves, (error, changed) => {
        if (error) watcher.failed(error, server);
        done(error, changed);
      });
    },
    forget: (keys, done) => store.forget(keys, done),
    revoke: (nonces, done) => (store.revoke ? store.revoke(nonces, done) : store.forget(nonces, done)),
    block: (key, ms, reason, done) => store.block(key, ms, reason, done),
    stop() {
      breaker.stop();
      // Whoever watches is not to take what has gone for something in trouble, nor hear of its end twice.
      if (breaker.isOpen && !isStopped) watcher.breaker(false);
      isStopped = true;
    },
    async close() {
      deadline.close();
      if (!keepsStore) await store.close();
    },
  };
}
