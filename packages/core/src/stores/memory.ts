import type { Numbers } from "../algorithms/algorithm.ts";
import type { Policy } from "../algorithms/policy.ts";
import { wholeNumber } from "../options.ts";
import { every } from "../timers.ts";
import type { Check, Done, Move, Outcome, Store } from "./store.ts";

export interface MemoryStoreOptions {
  /** Entries kept, one per identity and policy. 100,000 by default. */
  maxEntries?: number;
  /** Whole microseconds that never go back. The process's own steady clock by default. */
  clock?: () => number;
}

interface Entry {
  state: unknown;
  /** When the state means nothing, µs. */
  ends: number;
}

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
 * Keeps state in this process: for one process, for tests, for trying things out. Bounded: when it
 * is full, the entry not used for longest goes, and one whose last answer was a refusal only when
 * there are no others.
 *
 * @throws ConfigError when `maxEntries` is not a whole number above 0
 */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  const most = wholeNumber("maxEntries", options.maxEntries ?? 100_000, 1, 2 ** 24 - 1);
  const clock = options.clock ?? steadyClock;
  // All in order of last use. An entry stands in one of them. What people did by hand goes last.
  const admitted = new Map<string, Entry>();
  const refused = new Map<string, Entry>();
  const blocked = new Map<string, Entry>();
  const shelves = [admitted, refused, blocked];
  let sweeper: NodeJS.Timeout | undefined;

  const size = () => admitted.size + refused.size + blocked.size;

  function read(key: string, now: number): Entry | undefined {
    const entry = admitted.get(key) ?? refused.get(key) ?? blocked.get(key);
    if (!entry || entry.ends > now) return entry;
    forget(key);
    return undefined;
  }

  const forget = (key: string): boolean => admitted.delete(key) || refused.delete(key) || blocked.delete(key);

  function write(key: string, entry: Entry, shelf: Map<string, Entry>): void {
    forget(key);
    if (size() >= most) evict();
    shelf.set(key, entry);
    sweeper ??= every(SWEEP_MS, sweep);
  }

  function evict(): void {
    const shelf = shelves.find(({ size }) => size > 0)!;
    for (const key of shelf.keys()) {
      shelf.delete(key);
      return;
    }
  }

  function sweep(): void {
    const now = clock();
    for (const shelf of shelves) for (const [key, entry] of shelf) if (entry.ends <= now) shelf.delete(key);
    if (size() === 0) stop();
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
    if (check.nonce && outcome.granted && !check.peek) {
      const entry = { state: { outcome, replays: 0 }, ends: spanAfter(now, check.nonce.keepMs) };
      write(check.nonce.key, entry, admitted);
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
      const put = (state: unknown, shelf: Map<string, Entry>) => {
        entry = { state, ends: endAfter(now, algorithm.keepFor(numbers[i]!, state, now)) };
        write(key, entry, shelf);
      };
      if (!peek && granted && cost > 0 && room[i]! >= 1) {
        put(algorithm.charge(numbers[i]!, entry?.state, now, cost, lease), admitted);
      } else if (!peek && room[i]! < 1 && entry && cost <= limit) {
        const mended = algorithm.mend(numbers[i]!, entry.state, now, entry.ends - now);
        if (mended !== undefined) put(mended, refused);
        else write(key, entry, refused);
      }
      words.push(...algorithm.report(numbers[i]!, entry?.state, now, cost));
      if (policies[i]!.mode === "shadow") words.push(room[i]! >= 1 ? 1 : 0);
    });
    return { granted, now, words, blockedUs: undefined, replayed: false };
  }

  function settle({ kind, policy, key, units, mark, lease }: Move, now: number): number {
    const { algorithm } = policy;
    const numbers = numbersOf(policy, now);
    const entry = read(key, now);
    if (kind === "credit") {
      const state = entry && algorithm.credit(numbers, entry.state, now, units, mark, lease);
      if (state === undefined) return 0;
      entry!.state = state;
      return units;
    }
    if (kind === "renew") {
      const state = entry && algorithm.renew?.(numbers, entry.state, now, units, lease);
      if (state === undefined) return 0;
      write(key, { state, ends: endAfter(now, algorithm.keepFor(numbers, state, now)) }, admitted);
      return units;
    }
    // Into debt, as deep as the limit at most.
    const most = algorithm.room(numbers, entry?.state, now, 1, 1, lease) + numbers.a;
    const charged = Math.min(units, Math.max(0, most));
    if (charged === 0) return 0;
    const state = algorithm.charge(numbers, entry?.state, now, charged, lease);
    write(key, { state, ends: endAfter(now, algorithm.keepFor(numbers, state, now)) }, admitted);
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
      write(key, { state: reason, ends: spanAfter(clock(), ms) }, blocked);
      done(undefined, 1);
    },
    sweep,
    async close() {
      stop();
      for (const shelf of shelves) shelf.clear();
    },
    get size() {
      return size();
    },
  };
}

const numbersOf = ({ numbers, numbersAt }: Policy, now: number): Numbers =>
  numbersAt ? numbersAt(now / 1000) : numbers;
