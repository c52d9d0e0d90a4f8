import type { Numbers } from "../algorithms/algorithm.ts";
import type { Policy } from "../algorithms/policy.ts";
import { onlyKnown, wholeNumber } from "../options.ts";
import { every } from "../timers.ts";
import { NONE } from "./by-end.ts";
import { ADMITTED, BLOCKED, Entries, REFUSED, SHARED, type Shelf } from "./entries.ts";
import type { Check, Done, Move, Outcome, Store } from "./store.ts";

/** What {@link memoryStore} takes. */
export interface MemoryStoreOptions {
  /** Entries kept, one per identity and policy. 100,000 by default. */
  maxEntries?: number;
  /** Whether what has ended is forgotten twice a minute by itself. True by default. */
  sweeps?: boolean;
  /** Whole microseconds that never go back. The process's own steady clock by default. */
  nowUs?: (() => number) | undefined;
}

/** A store in this process's memory. Made by {@link memoryStore}. */
export interface MemoryStore extends Store {
  /** How many entries there are, those included that have ended and wait for the next sweep. */
  readonly size: number;
  /** Forgets what has ended. Happens by itself twice a minute, unless `sweeps` is false. */
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
function steadyClock(): () => number {
  const { timeOrigin } = performance;
  return () => Math.floor((timeOrigin + performance.now()) * 1000);
}

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
  onlyKnown("memoryStore", options, ["maxEntries", "sweeps", "nowUs"]);
  const most = wholeNumber("maxEntries", options.maxEntries ?? 100_000, 1, 2 ** 24 - 1);
  const { nowUs: clock = steadyClock(), sweeps = true } = options;
  const entries = new Entries();
  let sweeper: NodeJS.Timeout | undefined;
  const overflowListeners: (() => void)[] = [];
  /** Whether newcomers began to be counted together, and nobody has been told. */
  let overflowed = false;

  /** The entry that speaks for a key now. */
  function read(key: string, now: number): number {
    const entry = entries.find(key);
    if (entry !== NONE) return isLive(entry, now) ? entry : NONE;
    if (entries.sharedSize === 0 || hasRoom(now)) return NONE;
    const shared = entries.findShared(policyPartOf(key));
    return shared !== NONE && isLive(shared, now) ? shared : NONE;
  }

  const isLive = (entry: number, now: number): boolean => entries.ends[entry]! > now;

  const stateOf = (entry: number): unknown => (entry === NONE ? undefined : entries.states[entry]);

  function forget(key: string): boolean {
    const entry = entries.find(key);
    if (entry !== NONE) entries.remove(entry);
    return entry !== NONE;
  }

  function write(key: string, state: unknown, ends: number, shelf: Shelf, now: number): number {
    const known = entries.find(key);
    const entry = known === NONE ? newEntry(key, shelf, now) : known;
    entries.keep(entry, state, ends, shelf);
    return entry;
  }

  function newEntry(key: string, shelf: Shelf, now: number): number {
    // What people did by hand has its place in any case.
    if (shelf !== BLOCKED && !makeRoom(now)) return newcomers(policyPartOf(key));
    if (sweeps) sweeper ??= every(SWEEP_MS, sweep);
    return entries.add(key, shelf);
  }

  function newcomers(policy: string): number {
    const known = entries.findShared(policy);
    if (known !== NONE) return known;
    overflowed = true;
    return entries.add(policy, SHARED);
  }

  /** When all else is done: a listener may ask this very store. */
  function tellOverflow(): void {
    if (!overflowed) return;
    overflowed = false;
    for (const listener of overflowListeners) listener();
  }

  const hasRoom = (now: number): boolean => entries.size < most || entries.goesFirst(now) !== NONE;

  function makeRoom(now: number): boolean {
    if (entries.size < most) return true;
    const entry = entries.goesFirst(now);
    if (entry !== NONE) entries.remove(entry);
    return entry !== NONE;
  }

  function sweep(): void {
    entries.sweep(clock());
    if (entries.size === 0) stop();
  }

  function stop(): void {
    clearInterval(sweeper);
    sweeper = undefined;
  }

  function decide(check: Check, done: Done): void {
    const now = clock();
    const { blocks, nonce, peek } = check;
    let blockedUs = 0;
    for (let i = 0; i < blocks.length; i++) {
      const block = read(blocks[i]!, now);
      if (block !== NONE) blockedUs = Math.max(blockedUs, entries.ends[block]! - now);
    }
    if (blockedUs > 0) return done(undefined, { granted: false, now, words: [], blockedUs, replayed: false });
    const kept = nonce && (stateOf(read(nonce.key, now)) as Kept | undefined);
    if (kept && kept.replays < REPLAYS) {
      if (!peek) kept.replays++;
      return done(undefined, { ...kept.outcome, replayed: true });
    }
    const outcome = judge(check, now);
    // Without room for it, the next try is charged as usual.
    if (nonce && outcome.granted && !peek && makeRoom(now)) {
      write(nonce.key, { outcome, replays: 0 }, spanAfter(now, nonce.keepMs), ADMITTED, now);
    }
    done(undefined, outcome);
  }

  // Of the check that is being judged, policy by policy. Kept, as a decision is over before the next one begins.
  const found: number[] = [];
  const states: unknown[] = [];
  const room: number[] = [];

  function judge({ policies, keys, costs, peek, lease }: Check, now: number): Outcome {
    let granted = true;
    for (let i = 0; i < policies.length; i++) {
      const policy = policies[i]!;
      found[i] = read(keys[i]!, now);
      states[i] = stateOf(found[i]!);
      room[i] = policy.algorithm.room(numbersOf(policy, now), states[i], now, costs[i]!, 1, lease);
      if (room[i]! < 1 && policy.mode !== "shadow") granted = false;
    }
    const words: number[] = [];
    for (let i = 0; i < policies.length; i++) {
      const policy = policies[i]!;
      const cost = costs[i]!;
      const fits = room[i]! >= 1;
      let state = states[i];
      if (!peek && cost > 0) {
        if (!fits) state = cost <= policy.limit ? refuse(policy, keys[i]!, found[i]!, state, now) : state;
        else if (granted) state = charge(policy, keys[i]!, found[i]!, state, now, cost, lease);
      }
      const told = policy.algorithm.report(numbersOf(policy, now), state, now, cost);
      for (let word = 0; word < told.length; word++) words.push(told[word]!);
      if (policy.mode === "shadow") words.push(fits ? 1 : 0);
    }
    return { granted, now, words, blockedUs: undefined, replayed: false };
  }

  function charge(
    policy: Policy,
    key: string,
    entry: number,
    before: unknown,
    now: number,
    units: number,
    lease: string | undefined,
  ): unknown {
    const { algorithm } = policy;
    const numbers = numbersOf(policy, now);
    const state = algorithm.charge(numbers, before, now, units, lease);
    keep(key, entry, state, endAfter(now, algorithm.keepFor(numbers, state, now)), ADMITTED, now);
    return state;
  }

  /** Who was refused is remembered as such. */
  function refuse(policy: Policy, key: string, entry: number, state: unknown, now: number): unknown {
    if (entry === NONE) return state;
    const { algorithm } = policy;
    const numbers = numbersOf(policy, now);
    const ends = entries.ends[entry]!;
    const mended = algorithm.mend(numbers, state, now, ends - now);
    if (mended === undefined) {
      if (entries.keyOf(entry) === key) entries.keep(entry, state, ends, REFUSED);
      return state;
    }
    keep(key, entry, mended, endAfter(now, algorithm.keepFor(numbers, mended, now)), REFUSED, now);
    return mended;
  }

  /** Writes where it was read, unless an earlier policy of the check needed the place, or others share it. */
  function keep(key: string, entry: number, state: unknown, ends: number, shelf: Shelf, now: number): void {
    if (entry !== NONE && entries.keyOf(entry) === key) entries.keep(entry, state, ends, shelf);
    else write(key, state, ends, shelf, now);
  }

  function settle({ kind, policy, key, units, mark, lease }: Move, now: number): number {
    const { algorithm } = policy;
    const numbers = numbersOf(policy, now);
    const found = read(key, now);
    // What newcomers share was charged by others too. A slot in flight has a name of its own.
    const own = found !== NONE && (entries.shelfOf(found) !== SHARED || algorithm.renew !== undefined);
    if (kind === "credit") {
      const state = own ? algorithm.credit(numbers, stateOf(found), now, units, mark, lease) : undefined;
      if (state === undefined) return 0;
      entries.states[found] = state;
      return units;
    }
    if (kind === "renew") {
      const state = own ? algorithm.renew?.(numbers, stateOf(found), now, units, lease) : undefined;
      if (state === undefined) return 0;
      write(key, state, endAfter(now, algorithm.keepFor(numbers, state, now)), ADMITTED, now);
      return units;
    }
    // Into debt, as deep as the limit at most.
    const most = algorithm.room(numbers, stateOf(found), now, 1, 1, lease) + numbers.a;
    const charged = Math.min(units, Math.max(0, most));
    if (charged === 0) return 0;
    const state = algorithm.charge(numbers, stateOf(found), now, charged, lease);
    write(key, state, endAfter(now, algorithm.keepFor(numbers, state, now)), ADMITTED, now);
    return charged;
  }

  return {
    nowUs: options.nowUs,
    decide(batch, done) {
      for (let i = 0; i < batch.length; i++) decide(batch[i]!, done[i]!);
      tellOverflow();
    },
    settle(moves, done) {
      const now = clock();
      done(
        undefined,
        moves.reduce((sum, move) => sum + settle(move, now), 0),
      );
      tellOverflow();
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
    },
    onOverflow: (listener) => void overflowListeners.push(listener),
    get size() {
      return entries.size + entries.sharedSize;
    },
  };
}

/** What stands for the policy in a key, whoever is counted. */
const policyPartOf = (key: string): string => key.slice(key.indexOf("}") + 1);

const numbersOf = ({ numbers, numbersAt }: Policy, now: number): Numbers =>
  numbersAt ? numbersAt(now / 1000) : numbers;
