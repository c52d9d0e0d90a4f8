import type { Numbers } from "../algorithms/algorithm.ts";
import type { Policy } from "../algorithms/policy.ts";
import { wholeNumber } from "../options.ts";
import { every } from "../timers.ts";
import { ByEnd, type Ending } from "./by-end.ts";
import type { Check, Done, Move, Outcome, Store } from "./store.ts";

export interface MemoryStoreOptions {
  /** Entries kept, one per identity and policy. 100,000 by default. */
  maxEntries?: number;
  /** Whole microseconds that never go back. The process's own steady clock by default. */
  clock?: () => number;
}

interface Entry extends Ending {
  readonly key: string;
  state: unknown;
  shelf: Shelf;
}

/** What an entry's last answer was. They are forgotten in this order. */
type Shelf = typeof ADMITTED | typeof REFUSED | typeof BLOCKED;
const [ADMITTED, REFUSED, BLOCKED] = [0, 1, 2] as const;

export interface MemoryStore extends Store {
  /** How many entries there are, those included that have ended and wait for the next sweep. */
  readonly size: number;
  /** Forgets what has ended. Happens by itself twice a minute. */
  sweep(): void;
}

/** A grant that may be given again to the same nonce. */
interface Kept {
  readonly outcome: Outcome;
  replays: number;
}

const SWEEP_MS = 30_000;

/** A grant is replayed so often to whoever brings its nonce again, then it is charged as usual. */
const REPLAYS = 3;

/** µs since 1970 as the process saw it at its start, and steady since: a changed system time changes nothing. */
const steadyClock = () => Math.floor((performance.timeOrigin + performance.now()) * 1000);

/** A span that may end a part of a millisecond early: no wait is told longer than it is. */
const spanAfter = (now: number, ms: number): number => now - (now % 1000) + ms * 1000;

/** Redis keeps whole milliseconds. */
const endAfter = (now: number, us: number): number => Math.ceil((now + us) / 1000) * 1000;

/**
 * Keeps state in this process: for one process, for tests, for trying things out. Bounded. When it is full, what is as
 * if never used goes first, then what will be so soonest. Who is refused or blocked is never forgotten for somebody new:
 * when nobody else is left, all newcomers are counted together, by one entry for each policy.
 *
 * @throws ConfigError when `maxEntries` is not a whole number above 0
 */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  const most = wholeNumber("maxEntries", options.maxEntries ?? 100_000, 1, 2 ** 24 - 1);
  const clock = options.clock ?? steadyClock;
  const entries = new Map<string, Entry>();
  const shelves = [new ByEnd<Entry>(), new ByEnd<Entry>(), new ByEnd<Entry>()];
  /** Newcomers together, by policy. */
  const together = new Map<string, Entry>();
  let sweeper: NodeJS.Timeout | undefined;
  const overflowListeners: (() => void)[] = [];

  function read(key: string, now: number): Entry | undefined {
    const entry = entries.get(key);
    if (entry) {
      if (entry.ends > now) return entry;
      remove(entry);
      return undefined;
    }
    const shared = together.size > 0 && !hasRoom(now) ? together.get(policyPartOf(key)) : undefined;
    return shared && shared.ends > now ? shared : undefined;
  }

  function remove(entry: Entry): void {
    shelves[entry.shelf]!.take(entry);
    entries.delete(entry.key);
  }

  function forget(key: string): boolean {
    const entry = entries.get(key);
    if (entry) remove(entry);
    return entry !== undefined;
  }

  function write(key: string, state: unknown, ends: number, shelf: Shelf, now: number): Entry {
    const entry = entries.get(key) ?? newEntry(key, shelf, now);
    if (entry.shelf !== shelf) shelves[entry.shelf]!.take(entry);
    entry.state = state;
    entry.ends = ends;
    entry.shelf = shelf;
    if (entry.key === key) shelves[shelf]!.put(entry);
    return entry;
  }

  function newEntry(key: string, shelf: Shelf, now: number): Entry {
    // What people did by hand has its place in any case.
    if (shelf !== BLOCKED && !makeRoom(now)) return newcomers(policyPartOf(key));
    const entry = entryOf(key, shelf);
    entries.set(key, entry);
    sweeper ??= every(SWEEP_MS, sweep);
    return entry;
  }

  function newcomers(policy: string): Entry {
    const known = together.get(policy);
    if (known) return known;
    const entry = entryOf(policy, ADMITTED);
    together.set(policy, entry);
    for (const listener of overflowListeners) listener();
    return entry;
  }

  const hasRoom = (now: number): boolean => entries.size < most || goesFirst(now) !== undefined;

  function makeRoom(now: number): boolean {
    if (entries.size < most) return true;
    const entry = goesFirst(now);
    if (entry) remove(entry);
    return entry !== undefined;
  }

  /** What is as if never used; else, of those that were let in, what will be so soonest. */
  function goesFirst(now: number): Entry | undefined {
    for (const shelf of shelves) {
      const soonest = shelf.soonest();
      if (soonest && soonest.ends <= now) return soonest;
    }
    return shelves[ADMITTED]!.soonest();
  }

  function sweep(): void {
    const now = clock();
    for (const entry of entries.values()) if (entry.ends <= now) remove(entry);
    for (const [policy, entry] of together) if (entry.ends <= now) together.delete(policy);
    if (entries.size === 0) stop();
  }

  function stop(): void {
    clearInterval(sweeper);
    sweeper = undefined;
  }

  function decide(check: Check, done: Done): void {
    const now = clock();
    const blockedUs = Math.max(0, ...check.blocks.map((key) => (read(key, now)?.ends ?? now) - now));
    if (blockedUs > 0) return done(undefined, { granted: false, now, words: [], blockedUs, replayed: false });
    const kept = check.nonce && (read(check.nonce.key, now)?.state as Kept | undefined);
    if (kept && kept.replays < REPLAYS) {
      if (!check.peek) kept.replays++;
      return done(undefined, { ...kept.outcome, replayed: true });
    }
    const outcome = judge(check, now);
    // Without room for it, the next try is charged as usual.
    if (check.nonce && outcome.granted && !check.peek && makeRoom(now)) {
      write(check.nonce.key, { outcome, replays: 0 }, spanAfter(now, check.nonce.keepMs), ADMITTED, now);
    }
    done(undefined, outcome);
  }

  function judge({ policies, keys, costs, peek, lease }: Check, now: number): Outcome {
    const numbers = policies.map((policy) => numbersOf(policy, now));
    const entries = keys.map((key) => read(key, now));
    const room = policies.map(({ algorithm }, i) =>
      algorithm.room(numbers[i]!, entries[i]?.state, now, costs[i]!, 1, lease),
    );
    const granted = room.every((fits, i) => fits >= 1 || policies[i]!.mode === "shadow");

    const words: number[] = [];
    policies.forEach(({ algorithm, limit }, i) => {
      const key = keys[i]!;
      const cost = costs[i]!;
      let entry = entries[i];
      const put = (state: unknown, shelf: Shelf) => {
        entry = write(key, state, endAfter(now, algorithm.keepFor(numbers[i]!, state, now)), shelf, now);
      };
      if (!peek && granted && cost > 0 && room[i]! >= 1) {
        put(algorithm.charge(numbers[i]!, entry?.state, now, cost, lease), ADMITTED);
      } else if (!peek && room[i]! < 1 && entry && cost <= limit) {
        const mended = algorithm.mend(numbers[i]!, entry.state, now, entry.ends - now);
        if (mended !== undefined) put(mended, REFUSED);
        else if (entry.shelf !== REFUSED && entry.key === key)
          write(key, entry.state, entry.ends, REFUSED, now);
      }
      words.push(...algorithm.report(numbers[i]!, entry?.state, now, cost));
      if (policies[i]!.mode === "shadow") words.push(room[i]! >= 1 ? 1 : 0);
    });
    return { granted, now, words, blockedUs: undefined, replayed: false };
  }

  function settle({ kind, policy, key, units, mark, lease }: Move, now: number): number {
    const { algorithm } = policy;
    const numbers = numbersOf(policy, now);
    const found = read(key, now);
    // What newcomers share was charged by others too. A slot in flight has a name of its own.
    const entry = found?.key === key || algorithm.renew ? found : undefined;
    if (kind === "credit") {
      const state = entry && algorithm.credit(numbers, entry.state, now, units, mark, lease);
      if (state === undefined) return 0;
      entry!.state = state;
      return units;
    }
    if (kind === "renew") {
      const state = entry && algorithm.renew?.(numbers, entry.state, now, units, lease);
      if (state === undefined) return 0;
      write(key, state, endAfter(now, algorithm.keepFor(numbers, state, now)), ADMITTED, now);
      return units;
    }
    // Into debt, as deep as the limit at most.
    const most = algorithm.room(numbers, found?.state, now, 1, 1, lease) + numbers.a;
    const charged = Math.min(units, Math.max(0, most));
    if (charged === 0) return 0;
    const state = algorithm.charge(numbers, found?.state, now, charged, lease);
    write(key, state, endAfter(now, algorithm.keepFor(numbers, state, now)), ADMITTED, now);
    return charged;
  }

  return {
    decide: (batch, done) => batch.forEach((check, i) => decide(check, done[i]!)),
    settle(moves, done) {
      const now = clock();
      done(
        undefined,
        moves.reduce((sum, move) => sum + settle(move, now), 0),
      );
    },
    forget: (keys, done) => done(undefined, keys.filter(forget).length),
    block(key, ms, reason, done) {
      const now = clock();
      write(key, reason, spanAfter(now, ms), BLOCKED, now);
      done(undefined, 1);
    },
    sweep,
    async close() {
      stop();
      entries.clear();
      together.clear();
      for (const shelf of shelves) shelf.clear();
    },
    onOverflow: (listener) => void overflowListeners.push(listener),
    get size() {
      return entries.size + together.size;
    },
  };
}

const entryOf = (key: string, shelf: Shelf): Entry => ({
  key,
  state: undefined,
  shelf,
  ends: 0,
  bucket: undefined,
  previous: undefined,
  next: undefined,
});

/** What stands for the policy in a key, whoever is counted. */
const policyPartOf = (key: string): string => key.slice(key.indexOf("}") + 1);

const numbersOf = ({ numbers, numbersAt }: Policy, now: number): Numbers =>
  numbersAt ? numbersAt(now / 1000) : numbers;
