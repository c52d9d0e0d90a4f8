import type { Decision } from "./decision.ts";
import type { Part } from "./explain.ts";

/** So many questions in a row go to the same shard at most. Neighbours that ask the same are asked as one. */
const LONGEST_RUN = 64;

/** Of a shard's part of the limit, so much goes to one run: a burst is not to be refused by one shard. */
const PART_OF_LIMIT = 1 / 16;

let drawn = 0;
let uses = Infinity;

/** 0 to 1 exclusively, for one question: drawn anew at the latest when `run` others had it, and in each turn of the event loop. */
function chance(run: number): number {
  if (uses < run) {
    uses++;
    return drawn;
  }
  if (uses === Infinity) setImmediate(() => (uses = Infinity)).unref();
  drawn = Math.random();
  uses = 1;
  return drawn;
}

/** How many questions may go to the same shards, one after the other. */
function runOf(parts: readonly Part[]): number {
  let run = LONGEST_RUN;
  for (const { policy, cost } of parts) {
    const least = policy.shards?.at(-1)?.limit;
    if (least !== undefined) run = Math.min(run, (least * PART_OF_LIMIT) / Math.max(1, cost));
  }
  return Math.max(1, Math.floor(run));
}

/** Of each part of a question, which shard is asked; `undefined` where the policy has none. */
export type Shards = readonly (number | undefined)[];

/**
 * The shards that a question goes to, by chance; `undefined` when no policy has any.
 *
 * @param seed of an idempotency key: its retry has to meet the same shards
 */
export function someShards(parts: readonly Part[], seed?: string): Shards | undefined {
  if (!parts.some(({ policy }) => policy.shards)) return undefined;
  const at = seed === undefined ? chance(runOf(parts)) : fractionOf(seed);
  return parts.map(({ policy: { shards } }) => shards && Math.floor(at * shards.length));
}

/**
 * Where a refused question may still have room: another shard of each policy that refused. `undefined` when a policy
 * without shards refused it, or its cost fits into none.
 */
export function otherShards(parts: readonly Part[], shards: Shards, decision: Decision): Shards | undefined {
  const others = [...shards];
  for (const { policy: name, allowed, shadow, reason } of decision.verdicts) {
    if (allowed || shadow) continue;
    const i = parts.findIndex((part) => part.name === name);
    const shard = shards[i];
    if (shard === undefined || reason === "never") return undefined;
    others[i] = another(shard, parts[i]!.policy.shards!.length);
  }
  return others;
}

const another = (shard: number, count: number): number =>
  (shard + 1 + Math.floor(Math.random() * (count - 1))) % count;

/** 0 to 1 exclusively, out of text that is a digest. */
const fractionOf = (digest: string): number => Buffer.from(digest, "base64url").readUInt32BE(0) / 2 ** 32;

/** Of two refusals the one that has to wait less. */
export const sooner = (one: Decision, other: Decision): Decision =>
  (one.retryAfterMs ?? Infinity) <= (other.retryAfterMs ?? Infinity) ? one : other;
