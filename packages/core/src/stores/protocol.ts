import type { Policy } from "../algorithms/policy.ts";
import { StoreError, type StoreErrorClass } from "../errors.ts";
import type { Check, Done } from "./store.ts";

/** The version of the contract that lua/README.md writes down. */
const VERSION = 1;

const NO_FLAGS = "";

/** KEYS and ARGV of one run of decide.lua. */
export interface Command {
  readonly keys: string[];
  readonly args: (string | number)[];
}

/** @param deadline the server's time after which nothing is to be charged, whole µs; `undefined`: none */
export function encode(batch: readonly Check[], deadline: number | undefined): Command {
  const keys: string[] = [];
  const tables: (string | number)[] = [];
  const checks: (string | number)[] = [];
  // Batches hold few distinct policies: a list is searched faster than a map is built.
  const known: { policy: Policy; cost: number }[] = [];

  for (const { policies, keys: names, cost } of batch) {
    checks.push(policies.length);
    for (let i = 0; i < policies.length; i++) {
      const policy = policies[i]!;
      keys.push(names[i]!);
      let index = known.findIndex((table) => table.policy === policy && table.cost === cost);
      if (index < 0) {
        index = known.push({ policy, cost }) - 1;
        const { a, b, c, lifetime } = policy.numbers;
        tables.push(policy.algorithm.tag, "e", cost, lifetime, a, b, c);
      }
      checks.push(index + 1);
    }
    checks.push(1, NO_FLAGS);
  }
  return { keys, args: [VERSION, deadline ?? "", known.length, batch.length, ...tables, ...checks] };
}

const STATUS: Record<number, [StoreErrorClass, string]> = {
  [-1]: ["late", "the script ran after the deadline and did nothing"],
  [-4]: ["foreign", "a key of this limiter holds another type: give the limiter a prefix of its own"],
  [-5]: ["broken", "a key of this limiter holds what no policy of this kind wrote"],
  [-7]: ["unknown", "the script does not know a flag it was given"],
  [-6]: ["denied", "the Redis user may not read a key of this limiter"],
};

/** Whether the whole batch came too late. */
export const isLate = (reply: unknown): boolean => Array.isArray(reply) && reply[2] === -1;

/** The server's time in a reply, µs. */
export const serverTime = (reply: unknown): number => (reply as number[])[1]!;

/** Gives each check its part of the reply. */
export function deliver(batch: readonly Check[], done: readonly Done[], reply: unknown): void {
  if (!isReply(batch, reply)) {
    const error = new StoreError("unknown", "the script's reply has another shape than this version expects");
    for (const each of done) each(error, undefined);
    return;
  }
  const now = reply[1]!;
  let at = 2;
  batch.forEach((check, i) => {
    const status = reply[at]!;
    const end = at + 1 + wordsOf(check);
    if (status >= 0) done[i]!(undefined, { granted: status > 0, now, words: reply.slice(at + 1, end) });
    else done[i]!(errorOf(status), undefined);
    at = end;
  });
}

const wordsOf = ({ policies }: Check): number =>
  policies.reduce((sum, { algorithm }) => sum + algorithm.words, 0);

function isReply(batch: readonly Check[], reply: unknown): reply is number[] {
  const length = batch.reduce((sum, check) => sum + 1 + wordsOf(check), 2);
  return Array.isArray(reply) && reply.length === length && reply[0] === VERSION;
}

function errorOf(status: number): StoreError {
  const [reason, message] = STATUS[status] ?? ["unknown", `the script answered the unknown status ${status}`];
  return new StoreError(reason, message);
}
