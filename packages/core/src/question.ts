import type { Part } from "./explain.ts";
import type { Failure } from "./failure-rules.ts";
import { identityText } from "./identity/identity.ts";
import { blockKeyOf, digest, keyOf, nonceKeyOf, shardOf } from "./identity/key.ts";
import { uniqueId } from "./ids.ts";
import type { Settings } from "./settings.ts";
import type { Shards } from "./shards.ts";
import type { Check } from "./stores/store.ts";

/** A question whose parts are known to be sound. */
export interface Question {
  /** What answers when the store cannot. */
  readonly failure: Failure["rule"];
  /** The parts of this process's own policies, should the rule be `local`. */
  readonly local: () => readonly Part[];
  readonly parts: readonly Part[];
  /** What the request costs where a policy has no cost of its own. */
  readonly cost: number;
  /** Milliseconds of `performance.now()`. The store gets a little time in any case. */
  readonly deadline: number;
  readonly peek?: boolean;
  /** The same question with the same key is charged once. */
  readonly idempotencyKey?: string | undefined;
}

/** The question as a store is asked it. */
export function checkOf(
  settings: Pick<Settings, "prefix" | "timeoutMs" | "blocking" | "idempotencyMs">,
  { parts, deadline, peek = false, idempotencyKey }: Question,
  shards?: Shards,
): Check {
  // However long a request's own functions took, the store is asked: a slow one is no way to pass uncounted.
  const leastMs = settings.timeoutMs / 4;
  const identities = parts.map(({ identity }) => identity);
  const takesLease = !peek && parts.some(({ policy, cost }) => policy.algorithm.renew && cost > 0);
  // Two requests in flight are two, whatever key they bring: a slot is never shared.
  const replayable = idempotencyKey !== undefined && !takesLease;
  const nonce = replayable && nonceKeyOf(settings.prefix, identities[0]!, binding(idempotencyKey, parts));
  return {
    policies: parts.map(({ policy }, i) => policy.shards?.[shards?.[i]!] ?? policy),
    keys: parts.map(({ segment, policy, identity }, i) => {
      const shard = shards?.[i];
      const counted = shard === undefined ? identity : shardOf(identity, shard);
      return keyOf(settings.prefix, counted, segment, policy.algorithm.tag);
    }),
    costs: parts.map(({ cost }) => cost),
    deadline: Math.max(deadline, performance.now() + leastMs),
    peek,
    blocks: settings.blocking
      ? [...new Set(identities.map((identity) => blockKeyOf(settings.prefix, identity)))]
      : [],
    lease: takesLease ? uniqueId() : undefined,
    nonce: nonce ? { key: nonce, keepMs: settings.idempotencyMs } : undefined,
  };
}

/** What a question's shards are chosen by, where its retry has to meet the same ones. */
export const seedOf = ({ idempotencyKey }: Question): string | undefined =>
  idempotencyKey === undefined ? undefined : digest(idempotencyKey);

/** An idempotency key together with everything that the question is made of. */
function binding(key: string, parts: readonly Part[]): string {
  const asked = parts.map(({ segment, policy: { algorithm, mode, numbers, calendar }, identity, cost }) => [
    segment,
    algorithm.tag,
    mode,
    numbers.a,
    numbers.b,
    numbers.c,
    calendar,
    identityText(identity),
    cost,
  ]);
  return digest(JSON.stringify([key, asked]));
}
