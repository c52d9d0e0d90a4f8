import type { Policy } from "./algorithms/policy.ts";
import type { Part } from "./explain.ts";
import type { Failure } from "./failure-rules.ts";
import { identityText } from "./identity/identity.ts";
import { blockKeyOf, digest, keyOf, nonceKeyOf, shardOf } from "./identity/key.ts";
import { uniqueId } from "./ids.ts";
import { listOf } from "./lists.ts";
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
  /** Whether units come back as a rule, so that an earlier refusal says little. */
  readonly fresh?: boolean;
  /** The same question with the same key is charged once. */
  readonly idempotencyKey?: string | undefined;
}

/** The question as a store is asked it. */
export function checkOf(
  settings: Pick<Settings, "prefix" | "timeoutMs" | "blocking" | "idempotencyMs">,
  { parts, deadline, peek = false, fresh = false, idempotencyKey }: Question,
  shards?: Shards,
): Check {
  // However long a request's own functions took, the store is asked: a slow one is no way to pass uncounted.
  const leastMs = settings.timeoutMs / 4;
  const policies = listOf<Policy>(parts.length);
  const keys = listOf<string>(parts.length);
  const costs = listOf<number>(parts.length);
  let takesLease = false;
  let varies = false;
  for (let i = 0; i < parts.length; i++) {
    const { segment, policy, identity, cost, varies: chosen } = parts[i]!;
    const shard = shards?.[i];
    policies[i] = shard === undefined ? policy : policy.shards![shard]!;
    keys[i] = keyOf(
      settings.prefix,
      shard === undefined ? identity : shardOf(identity, shard),
      segment,
      policy.algorithm.tag,
    );
    costs[i] = cost;
    if (!peek && policy.algorithm.renew && cost > 0) takesLease = true;
    if (chosen) varies = true;
  }
  // Two requests in flight are two, whatever key they bring: a slot is never shared.
  const nonce =
    idempotencyKey !== undefined && !takesLease
      ? nonceKeyOf(settings.prefix, parts[0]!.identity, binding(idempotencyKey, parts))
      : undefined;
  return {
    policies,
    keys,
    costs,
    deadline: Math.max(deadline, performance.now() + leastMs),
    peek,
    fresh,
    varies,
    blocks: settings.blocking ? blocksOf(settings.prefix, parts) : NONE,
    lease: takesLease ? uniqueId() : undefined,
    nonce: nonce === undefined ? undefined : { key: nonce, keepMs: settings.idempotencyMs },
  };
}

const NONE: readonly string[] = [];

const blocksOf = (prefix: string, parts: readonly Part[]): string[] => [
  ...new Set(parts.map(({ identity }) => blockKeyOf(prefix, identity))),
];

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
