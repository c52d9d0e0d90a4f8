import { wholeNumber } from "../options.ts";
import type { Check, Done, Store } from "./store.ts";

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

const SWEEP_MS = 30_000;

/** µs since 1970 as the process saw it at its start, and steady since: a changed system time changes nothing. */
const steadyClock = () => Math.floor((performance.timeOrigin + performance.now()) * 1000);

/**
 * Keeps state in this process: for one process, for tests, for trying things out. Bounded: when it
 * is full, the entry not used for longest goes, and one whose last answer was a refusal only when
 * there are no others.
 *
 * @throws ConfigError when `maxEntries` is not a whole number above 0
 */
export function memoryStore(options: MemoryStoreOptions = {}): Store & { readonly size: number } {
  const most = wholeNumber("maxEntries", options.maxEntries ?? 100_000, 1, 2 ** 24 - 1);
  const clock = options.clock ?? steadyClock;
  // Both in order of last use. An entry stands in one of them.
  const admitted = new Map<string, Entry>();
  const refused = new Map<string, Entry>();
  let sweeper: NodeJS.Timeout | undefined;

  function read(key: string, now: number): Entry | undefined {
    const entry = admitted.get(key) ?? refused.get(key);
    if (!entry || entry.ends > now) return entry;
    admitted.delete(key);
    refused.delete(key);
    return undefined;
  }

  function write(key: string, entry: Entry, into: Map<string, Entry>): void {
    admitted.delete(key);
    refused.delete(key);
    if (admitted.size + refused.size >= most) evict();
    into.set(key, entry);
    sweeper ??= setInterval(sweep, SWEEP_MS).unref();
  }

  function evict(): void {
    const from = admitted.size > 0 ? admitted : refused;
    for (const key of from.keys()) {
      from.delete(key);
      return;
    }
  }

  function sweep(): void {
    const now = clock();
    for (const entries of [admitted, refused]) {
      for (const [key, entry] of entries) if (entry.ends <= now) entries.delete(key);
    }
    if (admitted.size + refused.size === 0) {
      clearInterval(sweeper);
      sweeper = undefined;
    }
  }

  function decide({ policies, keys, cost }: Check, done: Done): void {
    const now = clock();
    const entries = keys.map((key) => read(key, now));
    const room = policies.map(({ algorithm, numbers }, i) =>
      algorithm.room(numbers, entries[i]?.state, now, cost, 1),
    );
    const granted = room.every((fits) => fits >= 1);

    const words: number[] = [];
    policies.forEach(({ algorithm, numbers, limit }, i) => {
      const key = keys[i]!;
      const entry = entries[i];
      let state = entry?.state;
      const put = (next: unknown, into: Map<string, Entry>) => {
        state = next;
        write(
          key,
          { state, ends: now + Math.ceil(algorithm.keepFor(numbers, state, now) / 1000) * 1000 },
          into,
        );
      };
      if (granted && cost > 0) put(algorithm.charge(numbers, state, now, cost), admitted);
      else if (room[i]! < 1 && entry && cost <= limit) {
        const mended = algorithm.mend(numbers, state, now, entry.ends - now);
        if (mended !== undefined) put(mended, refused);
        else write(key, entry, refused);
      }
      words.push(...algorithm.report(numbers, state, now, cost));
    });
    done(undefined, { granted, now, words });
  }

  return {
    decide: (batch, done) => batch.forEach((check, i) => decide(check, done[i]!)),
    async close() {
      clearInterval(sweeper);
      sweeper = undefined;
      admitted.clear();
      refused.clear();
    },
    get size() {
      return admitted.size + refused.size;
    },
  };
}
