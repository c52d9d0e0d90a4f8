/** One question, two stores: the memory store and the script in a real Redis, on one given clock. */
import {
  createLimiter,
  type Decision,
  type Identity,
  ioredisClient,
  type Limiter,
  memoryStore,
  type Policy,
  redisStore,
  user,
} from "@tidegate/core";
import { clockedClient, clockedScripts, type FakeClock, fakeClock } from "./clock.ts";
import type { RedisServer } from "./redis.ts";
import type { Story } from "./story.ts";

/** A multiple of every window the tests use, so that windows begin at 0 ms of a story. */
export const EPOCH_MS = 1_795_910_400_000;

export type Scripts = typeof clockedScripts;

export interface Pair {
  readonly clock: FakeClock;
  readonly memory: Limiter;
  readonly redis: Limiter;
  /** Limiters over the same keys whose policies have other numbers. */
  readonly changed: { readonly memory: Limiter; readonly redis: Limiter };
  /** Lets Redis forget each key that has had its time, unless `spared`: it may be late to, never early. */
  readonly expire: (spared?: boolean) => Promise<void>;
  readonly close: () => Promise<void>;
}

let count = 0;

/** A prefix that no other test uses. */
export const freshPrefix = (): string => `t${process.pid}-${++count}`;

/** Limiters over the same policies, on a fresh prefix. `changed`: the same, with other numbers. */
export function pairOf(
  server: RedisServer,
  policies: Record<string, Policy>,
  scripts: Scripts = clockedScripts,
  changed: Record<string, Policy> = policies,
): Pair {
  const clock = fakeClock(EPOCH_MS * 1000);
  const prefix = freshPrefix();
  const client = clockedClient(sharedClient(server), clock);
  const stores = {
    memory: memoryStore({ nowUs: clock.now }),
    redis: redisStore(client, { scripts }),
  };
  const limitersOf = (policies: Record<string, Policy>) => ({
    memory: createLimiter({ store: stores.memory, policies, prefix, blocking: true }),
    redis: createLimiter({ store: stores.redis, policies, prefix, blocking: true, timeoutMs: 5000 }),
  });
  return {
    clock,
    ...limitersOf(policies),
    changed: limitersOf(changed),
    async expire(spared = false) {
      stores.memory.sweep();
      // What is kept for a nonce is no state: it is never late.
      await expireKeys(server, prefix, clock, (key) => !spared || key.includes("::n:"));
    },
    close: () => stores.memory.close(),
  };
}

/** Lets Redis forget the keys under a prefix that have had their time, of those that `may`. */
export async function expireKeys(
  server: RedisServer,
  prefix: string,
  clock: FakeClock,
  may: (key: string) => boolean = () => true,
): Promise<void> {
  const kept = await server.client.keys(`${prefix}:*:kept`);
  if (kept.length === 0) return;
  const ends = await server.client.mget(kept);
  const gone = kept.filter((key, i) => Number(ends[i]) <= clock.now() && may(key));
  if (gone.length > 0)
    await server.client.del(...gone.flatMap((key) => [key, key.slice(0, -":kept".length)]));
}

/** One connection per server, however many limiters a test makes. */
const clients = new WeakMap<RedisServer, ReturnType<typeof ioredisClient>>();

function sharedClient(server: RedisServer): ReturnType<typeof ioredisClient> {
  const known = clients.get(server) ?? fanned(ioredisClient(server.url));
  clients.set(server, known);
  return known;
}

/** Many stores listen to one client, and none of them closes it. */
function fanned(client: ReturnType<typeof ioredisClient>): ReturnType<typeof ioredisClient> {
  const listeners: (() => void)[] = [];
  client.onState(() => listeners.forEach((listener) => listener()));
  return {
    get state() {
      return client.state;
    },
    get trouble() {
      return client.trouble;
    },
    onState: (listener) => void listeners.push(listener),
    send: (command, args, done) => client.send(command, args, done),
    close: async () => {},
  };
}

export const SOMEBODY: Identity = user("somebody");

/** A decision as a story's row has it. */
function rowOf(atMs: number, { cost, allowed, verdicts: [verdict], degraded }: Decision): unknown[] {
  if (degraded || !verdict) return [atMs, cost, `degraded: ${degraded?.reason}`];
  return [atMs, cost, allowed, verdict.remaining, verdict.nextMs, verdict.fullMs];
}

/** Runs a story on one limiter of a pair and gives its rows as they came out. */
export async function tell({ rows }: Story, { clock, expire }: Pair, limiter: Limiter): Promise<unknown[][]> {
  const told = [];
  for (const [at, cost] of rows) {
    clock.set(EPOCH_MS + at);
    await expire();
    told.push(rowOf(at, await limiter.decide({ identity: SOMEBODY, cost })));
  }
  return told;
}
