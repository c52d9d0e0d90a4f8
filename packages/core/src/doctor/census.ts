import { type Answer, type Asker, type Failure, isReply } from "./ask.ts";
import { literally, type Name, nameOf, prefixIn, typeOf } from "./names.ts";
import { inspect } from "./probes.ts";

/** What stands under a prefix, or a sample of it. Holds no key: they may name people. */
export interface Census {
  /** Keys that were looked at. */
  readonly keys: number;
  /** Whether these are all. */
  readonly complete: boolean;
  /** How many are no limiter's, how many never go, how many hold another type than their name says: by shape. */
  readonly foreign: Tally;
  readonly lasting: Tally;
  readonly mistyped: Tally;
  /** Of each policy's place in keys: its algorithms. */
  readonly segments: ReadonlyMap<string, Tags>;
  /** Why the look ended early. */
  readonly trouble: Failure | undefined;
  /** Whether types could be told. */
  readonly typed: boolean;
}

export type Tally = ReadonlyMap<string, number>;

/** By algorithm. */
export type Tags = ReadonlyMap<string, Counted>;

interface Counted {
  readonly keys: number;
  /** The longest that one of them still lasts, ms; 0 when none has an end. */
  readonly longestMs: number;
}

export interface CensusOptions {
  readonly prefix: string;
  /** What the client puts before that. */
  readonly keyPrefix: string;
  /** Keys to be looked at. */
  readonly most: number;
  /** The server's clock less this machine's, ms. */
  readonly offsetMs: number;
  /** For how long to go on looking, ms. */
  readonly forMs: number;
}

/** Keys that the server looks through at a time: half a millisecond. */
const BATCH = 1000;

/** Batches in which keys of ours are searched for, among those of others. */
const MOST_BATCHES = 200;

/** Looks at keys under a prefix, batch by batch. */
export async function takeCensus(asker: Asker, options: CensusOptions): Promise<Census> {
  const { keyPrefix, prefix, most, forMs } = options;
  const counter = new Counter(options);
  const seen = new Set<string>();
  const end = performance.now() + forMs;
  let cursor = "0";
  for (let batches = 0; batches < MOST_BATCHES && seen.size < most && performance.now() < end; batches++) {
    const pattern = `${literally(keyPrefix + prefix)}:*`;
    const answer = await asker.ask("scan", cursor, "MATCH", pattern, "COUNT", BATCH);
    if (!isReply(answer)) return counter.result(false, answer);
    const [next, keys] = pageOf(answer.reply);
    const fresh = keys.filter((key) => !seen.has(key) && seen.add(key));
    await Promise.all(fresh.map((key) => counter.look(asker, key)));
    cursor = next;
    if (cursor === "0") return counter.result(true);
  }
  return counter.result(false);
}

/**
 * Keys that look like a limiter's, by their prefixes: where none stands under the prefix that was given, it may be
 * another. A sample, as long as that takes.
 */
export async function lookElsewhere(
  asker: Asker,
  { keyPrefix, most, forMs }: Pick<CensusOptions, "keyPrefix" | "most" | "forMs">,
): Promise<Tally> {
  const found = new Map<string, number>();
  const seen = new Set<string>();
  const end = performance.now() + forMs;
  let cursor = "0";
  for (let batches = 0; batches < MOST_BATCHES && seen.size < most && performance.now() < end; batches++) {
    const pattern = `${literally(keyPrefix)}*}:*:??`;
    const answer = await asker.ask("scan", cursor, "MATCH", pattern, "COUNT", BATCH);
    if (!isReply(answer)) break;
    const [next, keys] = pageOf(answer.reply);
    for (const key of keys) {
      const prefix = seen.has(key) ? undefined : prefixIn(key.slice(keyPrefix.length));
      seen.add(key);
      if (prefix !== undefined) add(found, prefix);
    }
    cursor = next;
    if (cursor === "0") break;
  }
  return found;
}

/** The next cursor, and keys. Some clients make an object of them. */
function pageOf(reply: unknown): [cursor: string, keys: string[]] {
  const [cursor, keys] = Array.isArray(reply) ? reply : Object.values(reply as object);
  return [String(cursor), (keys as unknown[]).map(String)];
}

class Counter {
  readonly #options: CensusOptions;
  readonly #segments = new Map<string, Map<string, Counted>>();
  readonly #foreign = new Map<string, number>();
  readonly #lasting = new Map<string, number>();
  readonly #mistyped = new Map<string, number>();
  #keys = 0;
  #typed = true;
  #trouble: Failure | undefined;

  constructor(options: CensusOptions) {
    this.#options = options;
  }

  async look(asker: Asker, key: string): Promise<void> {
    const { keyPrefix, prefix } = this.#options;
    const own = key.slice(keyPrefix.length);
    const name = nameOf(own.slice(prefix.length + 1), prefix);
    if (name.is === "neighbour") return;
    if (name.is !== "foreign") return this.#count(name, await asker.run(inspect, [own]));
    this.#keys++;
    add(this.#foreign, name.shape);
  }

  #count(name: Name, answer: Answer): void {
    if (!isReply(answer)) return void (this.#trouble ??= answer);
    const [type, ends] = answer.reply as [string, unknown];
    if (Number(ends) === -2) return; // It went meanwhile.
    this.#keys++;
    if (type === "") this.#typed = false;
    const expected = typeOf(name);
    if (type !== "" && expected !== undefined && type !== expected)
      add(this.#mistyped, `${name.shape} (a ${type} instead of a ${expected})`);
    if (Number(ends) === -1 && (name.is === "policy" || name.is === "nonce")) add(this.#lasting, name.shape);
    if (name.is === "policy") this.#countPolicy(name.segment, name.tag, Number(ends));
  }

  #countPolicy(segment: string, tag: string, ends: number): void {
    const tags = this.#segments.get(segment) ?? new Map<string, Counted>();
    const { keys, longestMs } = tags.get(tag) ?? { keys: 0, longestMs: 0 };
    const leftMs = ends - (Date.now() + this.#options.offsetMs);
    tags.set(tag, { keys: keys + 1, longestMs: Math.max(longestMs, leftMs) });
    this.#segments.set(segment, tags);
  }

  result(complete: boolean, trouble?: Failure): Census {
    return {
      keys: this.#keys,
      complete: complete && this.#trouble === undefined,
      foreign: this.#foreign,
      lasting: this.#lasting,
      mistyped: this.#mistyped,
      segments: this.#segments,
      trouble: trouble ?? this.#trouble,
      typed: this.#typed,
    };
  }
}

function add(tally: Map<string, number>, shape: string): void {
  tally.set(shape, (tally.get(shape) ?? 0) + 1);
}
