/** A store that looks at the counts in Redis, and never changes one. */
import {
  type Check,
  type Done,
  type Outcome,
  redisStore,
  type ScriptClient,
  StoreError,
  type Store,
} from "@tidegate/core";
import type { Cluster, Redis } from "ioredis";
import { afterCharge, wordsOf } from "./next.ts";

/** What holds an identity back whatever its limits. */
export interface Block {
  readonly key: string;
  readonly reason: string;
  /** Milliseconds since 1970, by the server's clock; `undefined`: until somebody lifts it. */
  readonly until: number | undefined;
}

/** What a store has been asked, and what stands in Redis of it. */
interface Seen {
  readonly check: Check;
  /** Before any charge. */
  readonly outcome: Outcome;
  readonly blocks: readonly Block[];
}

export interface LookingStore extends Store {
  /** What was asked last. */
  readonly seen: Seen | undefined;
  /** Why nothing could be answered; `undefined` while all could. */
  readonly error: unknown;
  /** Answers with what stands there, or with what will after a request that passes. */
  answer: "now" | "next";
  /** Whether blocks are heeded. They are looked at in any case. */
  heeds: boolean;
}

/** A client as it is: it finds the server of a key by itself. */
const clientOf = (client: Redis | Cluster): ScriptClient => ({
  state: "ready",
  trouble: undefined,
  onState() {},
  send(command, args, done) {
    client.call(command, args as (string | number)[]).then(
      (reply) => done(undefined, reply),
      (error: unknown) => done(error, undefined),
    );
  },
  async close() {},
});

export function lookingStore(client: Redis | Cluster, scripting?: "scripts" | "functions"): LookingStore {
  const store = redisStore(clientOf(client), scripting ? { scripting } : {});
  /** The same question gets the same answer: what is told in two ways is told of one moment. */
  const known = new Map<string, Promise<Seen>>();
  const self: { -readonly [K in keyof LookingStore]: LookingStore[K] } = {
    seen: undefined,
    error: undefined,
    answer: "now",
    heeds: true,
    decide: ([check], [done]) => {
      const question = JSON.stringify([check!.keys, check!.costs]);
      const seeing = known.get(question) ?? see(check!);
      known.set(question, seeing);
      seeing.then(
        (seen) => {
          self.seen = seen;
          done!(undefined, outcomeOf(seen, self));
        },
        (error: unknown) => {
          self.error ??= error;
          done!(new StoreError("unknown", "what Redis said is told by itself"), undefined);
        },
      );
    },
    settle: (_, done) => done(undefined, 0),
    forget: (_, done) => done(undefined, 0),
    block: (_, __, ___, done) => done(undefined, 0),
    close: () => store.close(),
  };

  async function see(check: Check): Promise<Seen> {
    const looked = [...groups(check)].map(async (places) => ({
      places,
      outcome: await look(store, check, places),
    }));
    const outcome = joined(check, await Promise.all(looked));
    const blocks = await Promise.all(check.blocks.map((key) => blockAt(client, key)));
    return { check, outcome, blocks: blocks.filter((block) => block !== undefined) };
  }

  return self;
}

function outcomeOf({ check, outcome, blocks }: Seen, { answer, heeds }: LookingStore): Outcome {
  if (answer === "now") return outcome;
  if (!heeds || blocks.length === 0) return afterCharge(check, outcome);
  const leftUs = blocks.map(({ until }) => (until === undefined ? Infinity : until * 1000 - outcome.now));
  return { ...outcome, granted: false, words: [], blockedUs: Math.max(0, ...leftUs) };
}

/** What a server is asked once: the places of the keys of one slot. */
function groups({ keys }: Check): Iterable<readonly number[]> {
  const found = new Map<string, number[]>();
  for (const [place, key] of keys.entries()) {
    const head = key.slice(0, key.indexOf("}") + 1);
    found.set(head, [...(found.get(head) ?? []), place]);
  }
  return found.values();
}

function look(store: Store, check: Check, places: readonly number[]): Promise<Outcome> {
  const part: Check = {
    ...check,
    policies: places.map((place) => check.policies[place]!),
    keys: places.map((place) => check.keys[place]!),
    costs: places.map((place) => check.costs[place]!),
    peek: true,
    blocks: [],
    lease: undefined,
    nonce: undefined,
  };
  return new Promise((resolve, reject) => {
    const done: Done = (error, outcome) => (outcome ? resolve(outcome) : reject(error));
    store.decide([part], [done]);
  });
}

function joined(
  { policies }: Check,
  parts: readonly { readonly places: readonly number[]; readonly outcome: Outcome }[],
): Outcome {
  const words = policies.map((): readonly number[] => []);
  const nows = policies.map(() => 0);
  for (const { places, outcome } of parts) {
    let at = 0;
    for (const place of places) {
      words[place] = outcome.words.slice(at, (at += wordsOf(policies[place]!)));
      nows[place] = outcome.now;
    }
  }
  return {
    granted: parts.every(({ outcome }) => outcome.granted),
    now: parts[0]!.outcome.now,
    nows,
    words: words.flat(),
    blockedUs: undefined,
    replayed: false,
  };
}

/** The reason is the key's value. source: docs/protocol.md */
async function blockAt(client: Redis | Cluster, key: string): Promise<Block | undefined> {
  const [reason, until] = await Promise.all([client.get(key), client.pexpiretime(key)]);
  if (reason === null || until === -2) return undefined;
  return { key, reason, until: until < 0 ? undefined : until };
}
