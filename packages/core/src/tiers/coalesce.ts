import { AsyncResource } from "node:async_hooks";
import type { Check, Done, Store } from "../stores/store.ts";
import type { Tier } from "./tier.ts";

/** So many checks keep a server for about 0.2 ms. */
const MOST_AT_ONCE = 64;

/**
 * Sends the checks of one turn of the event loop together, in their order. One that comes while nothing is under
 * way goes out at once: it may be the only one.
 *
 * @param slotOf where only checks of one slot may go together
 */
export function coalesce(store: Store, slotOf?: (check: Check) => number): Tier {
  let underWay = 0;
  let checks: Check[] = [];
  let dones: Done[] = [];

  function send(): void {
    const [batch, done] = [checks, dones];
    [checks, dones] = [[], []];
    if (batch.length === 0) return;
    if (slotOf === undefined || batch.length === 1) return store.decide(batch, done);
    sendBySlot(batch, done, slotOf);
  }

  function sendBySlot(
    batch: readonly Check[],
    done: readonly Done[],
    slotOf: (check: Check) => number,
  ): void {
    const slots = new Map<number, [Check[], Done[]]>();
    batch.forEach((check, i) => {
      const slot = slotOf(check);
      const known = slots.get(slot);
      if (!known) slots.set(slot, [[check], [done[i]!]]);
      else {
        known[0].push(check);
        known[1].push(done[i]!);
      }
    });
    const act = () => slots.forEach(([checks, dones]) => store.decide(checks, dones));
    if (store.cork) store.cork(act);
    else act();
  }

  const counted =
    (done: Done): Done =>
    (error, outcome) => {
      underWay--;
      done(error, outcome);
    };

  return {
    decide(check, done) {
      if (underWay++ === 0) return store.decide([check], [counted(done)]);
      checks.push(check);
      dones.push(counted(inOwnContext(done)));
      if (checks.length === 1) setImmediate(send);
      else if (checks.length === MOST_AT_ONCE) send();
    },
  };
}

/** A batch is sent within one request; what each asked for goes on within its own (AsyncLocalStorage). */
function inOwnContext(done: Done): Done {
  const own = new AsyncResource("tidegate");
  return (error, outcome) => own.runInAsyncScope(done, undefined, error, outcome);
}
