import { LRUCache } from "lru-cache";
import type { Policy } from "../algorithms/policy.ts";
import { wordsOf } from "../stores/protocol.ts";
import type { Check, Done, Outcome } from "../stores/store.ts";
import type { Backend } from "./backend.ts";

/** Keys whose state is remembered. */
const MOST_KEYS = 10_000;

/**
 * So many refusals are given from memory within one turn of the event loop. Who asks again at once, and again, is to
 * keep nobody else from running.
 */
const MOST_PER_TURN = 1000;

/** How much faster than ours the server's clock may be. */
const DRIFT = 5e-4;

/** Written by several numbers. */
const MIXED = Symbol("mixed");

/** What an earlier refusal told of one key. */
interface Known {
  readonly policy: Policy;
  readonly cost: number;
  readonly words: readonly number[];
  /** The server's clock then, µs. */
  readonly now: number;
  /** Ours when the answer came, ms. */
  readonly at: number;
  /** Until when a cost like this is refused for certain, ms of our clock; `-Infinity` of a policy that did not refuse. */
  readonly until: number;
}

export interface DenyCacheOptions {
  /** For how long a refusal is believed at most, milliseconds. */
  readonly maxMs: number;
  /** Milliseconds that never go back. The process's own by default. */
  readonly clock?: () => number;
}

/**
 * Refuses from memory what Redis would refuse. A refusal says how long this cost has to wait if
 * nobody else comes; others only make that longer, so until then asking again changes nothing. It
 * counts from the moment the question was sent, less the way there and back.
 *
 * What makes the wait shorter clears it: units that are given back, a reset, other numbers. What
 * other processes do so is not seen here for `maxMs` at most. Never of slots in flight, of limits on
 * trial, of questions with an idempotency key, and where units are given back as a rule.
 */
export function withDenyCache(
  next: Backend,
  { maxMs, clock = () => performance.now() }: DenyCacheOptions,
): Backend {
  const known = new LRUCache<string, Known>({ max: MOST_KEYS });
  /** When a key was changed for the better: what was asked before that is not to be remembered after. */
  const cleared = new LRUCache<string, number>({ max: MOST_KEYS });
  /** By which numbers a key was written, where these vary. Its state may go earlier than other numbers would have it. */
  const written = new LRUCache<string, Policy | typeof MIXED>({ max: MOST_KEYS });
  let asking = 0;
  let inTurn = 0;

  /** The refusal that is known of a check; `undefined`: it has to be asked. */
  function refusal({ policies, keys, costs }: Check): Outcome | undefined {
    if (known.size === 0) return undefined;
    const now = clock();
    let refuses = false;
    const all: Known[] = [];
    for (let i = 0; i < keys.length; i++) {
      const one = known.get(keys[i]!);
      if (!one || !isSame(one.policy, policies[i]!)) return undefined;
      const { costInWords } = one.policy.algorithm;
      if (costInWords ? one.cost !== costs[i] : one.until > now && one.cost > costs[i]!) return undefined;
      if (one.until > now) refuses = true;
      all.push(one);
    }
    return refuses ? asOf(all, now) : undefined;
  }

  function remember({ policies, keys, costs, varies }: Check, outcome: Outcome, sent: number): void {
    const received = clock();
    let at = 0;
    for (let i = 0; i < keys.length; i++) {
      const policy = policies[i]!;
      const { algorithm, numbers } = policy;
      const now = outcome.nows?.[i] ?? outcome.now;
      const words = outcome.words.slice(at, at + algorithm.words);
      const { nextMs, reason } = algorithm.explain(numbers, words, 0, now, costs[i]!, false);
      // Whole milliseconds, rounded up.
      const wait = reason === "limit" && nextMs !== null ? Math.min((nextMs - 1) * (1 - DRIFT), maxMs) : 0;
      const until = wait > 0 ? sent + wait - (received - sent) : -Infinity;
      const holds = (cleared.get(keys[i]!) ?? -Infinity) < sent && (!varies || isOwn(keys[i]!, policy));
      if (holds) known.set(keys[i]!, { policy, cost: costs[i]!, words, now, at: received, until });
      else known.delete(keys[i]!);
      at += wordsOf(policy);
    }
  }

  /** Whether only these numbers have written a key since its last charge: a refusal may mend what others wrote. */
  function isOwn(key: string, policy: Policy): boolean {
    const by = written.get(key);
    if (by !== undefined && by !== MIXED && isSame(by, policy)) return true;
    written.set(key, by === undefined ? policy : MIXED);
    return by === undefined;
  }

  /** What was granted, under other numbers perhaps, has changed what is left. */
  function granted({ keys, policies, costs, varies }: Check): void {
    if (known.size > 0) for (const key of keys) known.delete(key);
    if (varies) keys.forEach((key, i) => costs[i]! > 0 && written.set(key, policies[i]!));
  }

  function clear(keys: readonly string[]): void {
    if (known.size === 0 && asking === 0) return;
    const now = clock();
    for (const key of keys) {
      known.delete(key);
      cleared.set(key, now);
    }
  }

  function refuse(done: Done, outcome: Outcome): void {
    if (inTurn++ === 0) setImmediate(() => (inTurn = 0)).unref();
    if (inTurn <= MOST_PER_TURN) done(undefined, outcome);
    else setImmediate(done, undefined, outcome);
  }

  function clearAll(): void {
    const now = clock();
    for (const key of known.keys()) cleared.set(key, now);
    known.clear();
  }

  next.onGiveBack?.(clear);

  return {
    get isOpen() {
      return next.isOpen;
    },
    get isConnected() {
      return next.isConnected;
    },
    decide(check, done, late) {
      if (!mayRemember(check)) return next.decide(check, done, late);
      const refused = refusal(check);
      if (refused) return refuse(done, refused);
      const sent = clock();
      asking++;
      const answered: Done = (error, outcome) => {
        asking--;
        if (outcome?.granted) granted(check);
        else if (outcome && outcome.blockedUs === undefined) remember(check, outcome, sent);
        done(error, outcome);
      };
      next.decide(check, answered, late);
    },
    settle(moves, done) {
      // Both when it is sent and when it is done: what is asked in between may come before it.
      const keys = moves.filter(({ kind }) => kind === "credit").map(({ key }) => key);
      clear(keys);
      next.settle(moves, (error, changed) => {
        clear(keys);
        done(error, changed);
      });
    },
    forget(keys, done) {
      clear(keys);
      next.forget(keys, (error, changed) => {
        clear(keys);
        done(error, changed);
      });
    },
    revoke: (nonces, done) => next.revoke(nonces, done),
    block(key, ms, reason, done) {
      // Whoever is blocked is told so, and not that a limit is reached.
      next.block(key, ms, reason, (error, changed) => {
        clearAll();
        done(error, changed);
      });
    },
    stop: () => next.stop(),
    async close() {
      known.clear();
      await next.close();
    },
  };
}

function mayRemember({ peek, nonce, lease, fresh, policies }: Check): boolean {
  if (peek || nonce || lease !== undefined || fresh) return false;
  for (const { algorithm, mode } of policies) if (!algorithm.later || mode === "shadow") return false;
  return true;
}

/** Whether what was said of one policy holds for the other: a policy chosen per request is another object each time. */
function isSame(one: Policy, other: Policy): boolean {
  if (one === other) return true;
  const [a, b] = [one.numbers, other.numbers];
  return (
    one.algorithm === other.algorithm &&
    one.calendar === other.calendar &&
    a.a === b.a &&
    a.b === b.b &&
    a.c === b.c
  );
}

/** What the state of then says now; `undefined` when it does not tell. */
function asOf(all: readonly Known[], now: number): Outcome | undefined {
  const words: number[] = [];
  const nows: number[] = [];
  for (const { policy, words: then, now: server, at } of all) {
    const to = server + Math.round((now - at) * 1000);
    const later = policy.algorithm.later!(policy.numbers, then, server, to);
    if (!later) return undefined;
    for (const word of later) words.push(word);
    nows.push(to);
  }
  return {
    granted: false,
    now: nows[0]!,
    ...(nows.length > 1 ? { nows } : {}),
    words,
    blockedUs: undefined,
    replayed: false,
    cached: true,
  };
}
