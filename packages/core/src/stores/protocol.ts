import type { Policy } from "../algorithms/policy.ts";
import { StoreError, type StoreErrorClass } from "../errors.ts";
import type { Check, Done, Move, Nonce } from "./store.ts";

/** The version of the contract that lua/README.md writes down. */
const VERSION = 1;

/** KEYS and ARGV of one run of a script. */
export interface Command {
  readonly keys: string[];
  readonly args: (string | number)[];
}

/** What the whole batch is told of time. */
export interface Timing {
  /** The server's time after which nothing is to be charged, whole µs; `undefined`: none. */
  readonly deadline: number | undefined;
  /** The server's time as far as it is known, milliseconds since 1970. Calendar windows are of it. */
  readonly now: number;
}

/** Tables of a script's run: each distinct policy once. */
class Tables {
  readonly args: (string | number)[] = [];
  // Batches hold few distinct policies: a list is searched faster than a map is built.
  readonly #known: { policy: Policy; cost: number }[] = [];

  get count(): number {
    return this.#known.length;
  }

  /** The number of a policy's table, from 1. `write` puts down a new one. */
  of(policy: Policy, cost: number, write: (args: (string | number)[]) => void): number {
    const index = this.#known.findIndex((table) => table.policy === policy && table.cost === cost);
    if (index >= 0) return index + 1;
    write(this.args);
    return this.#known.push({ policy, cost });
  }
}

/** A run of decide.lua. */
export function encodeChecks(batch: readonly Check[], { deadline, now }: Timing): Command {
  const keys: string[] = [];
  const tables = new Tables();
  const checks: (string | number)[] = [];

  for (const { policies, keys: names, costs, peek, times = 1, blocks, lease, nonce } of batch) {
    checks.push(policies.length);
    for (let i = 0; i < policies.length; i++) {
      const policy = policies[i]!;
      const cost = costs[i]!;
      keys.push(names[i]!);
      checks.push(
        tables.of(policy, cost, (args) => {
          const { a, b, c, lifetime } = policy.numbersAt?.(now) ?? policy.numbers;
          args.push(policy.algorithm.tag, policy.mode === "shadow" ? "s" : "e", cost, lifetime, a, b, c);
        }),
      );
    }
    checks.push(
      times,
      `${peek ? "p" : ""}${times > 1 ? "g" : ""}${blocks.length > 0 ? "b" : ""}${lease ? "l" : ""}${nonce ? "i" : ""}${nonce?.resent ? "r" : ""}`,
    );
    if (blocks.length > 0) checks.push(blocks.length);
    if (lease) checks.push(lease);
    if (nonce) checks.push(nonce.keepMs * 1000);
    keys.push(...blocks);
    if (nonce) keys.push(nonce.key);
  }
  return { keys, args: [VERSION, deadline ?? "", tables.count, batch.length, ...tables.args, ...checks] };
}

const OPS = { credit: "c", debit: "d", renew: "r" } as const;

/** A run of settle.lua. `nonce`: known again, should the command be sent twice. */
export function encodeMoves(moves: readonly Move[], now: number, nonce?: Nonce): Command {
  const tables = new Tables();
  const items = moves.flatMap(({ kind, policy, units, mark, lease }) => {
    const table = tables.of(policy, 1, (args) => {
      const { a, b, c, lifetime } = policy.numbersAt?.(now) ?? policy.numbers;
      args.push(policy.algorithm.tag, lifetime, a, b, c);
    });
    return [OPS[kind], table, units, mark, lease ?? ""];
  });
  return {
    keys: [...moves.map(({ key }) => key), ...(nonce ? [nonce.key] : [])],
    args: [VERSION, tables.count, moves.length, nonce ? nonce.keepMs * 1000 : "", ...tables.args, ...items],
  };
}

/** A run of manage.lua. */
export const encodeForget = (keys: readonly string[]): Command => ({
  keys: [...keys],
  args: [VERSION, "reset"],
});

export const encodeRevoke = (keys: readonly string[]): Command => ({
  keys: [...keys],
  args: [VERSION, "revoke"],
});

export const encodeBlock = (key: string, ms: number, reason: string): Command => ({
  keys: [key],
  args: [VERSION, "block", ms === Infinity ? "" : ms * 1000, reason],
});

const STATUS: Record<number, [StoreErrorClass, string]> = {
  [-1]: ["late", "the script ran after the deadline and did nothing"],
  [-3]: ["unknown", "the calendar window had changed on the server"],
  [-4]: ["foreign", "a key of this limiter holds another type: give the limiter a prefix of its own"],
  [-5]: ["broken", "a key of this limiter holds what no policy of this kind wrote"],
  [-6]: ["denied", "the Redis user may not read a key of this limiter"],
  [-7]: ["unknown", "the script does not know a flag it was given"],
};

const LATE = -1;
const BLOCKED = -2;
/** Now was outside the calendar window that the script was told of. */
export const BOUNDS = -3;

/** Whether the whole batch came too late. */
export const isLate = (reply: readonly number[]): boolean => reply[2] === LATE;

/** The server's time in a reply, µs. */
export const serverTime = (reply: readonly number[]): number => reply[1]!;

/** How many integers a reply holds for a policy: one on trial has one more, 1 when it would have let the request pass. */
export const wordsOf = ({ algorithm, mode }: Policy): number => algorithm.words + (mode === "shadow" ? 1 : 0);

/** Where each check's part of a reply begins, and how long the reply is; `undefined` when it has another shape. */
function layout(batch: readonly Check[], reply: readonly number[]): number[] | undefined {
  const begins: number[] = [];
  let at = 2;
  for (const check of batch) {
    begins.push(at);
    at += 1 + (check.nonce ? 1 : 0) + check.policies.reduce((sum, policy) => sum + wordsOf(policy), 0);
  }
  begins.push(at);
  return reply.length === at ? begins : undefined;
}

/**
 * A script's reply as whole numbers; `undefined` when it is none of ours. A client may be set to give
 * numbers as text.
 */
export function numbersIn(reply: unknown): readonly number[] | undefined {
  if (!Array.isArray(reply)) return undefined;
  const numbers: readonly unknown[] = reply.every((each) => typeof each === "number")
    ? reply
    : reply.map((each) => (typeof each === "string" && /^-?\d+$/.test(each) ? Number(each) : each));
  const sound = numbers.length > 2 && numbers[0] === VERSION && numbers.every(Number.isSafeInteger);
  return sound ? (numbers as readonly number[]) : undefined;
}

/** A check's answer, or `undefined` when the calendar window was another on the server's clock: nothing was charged. */
export type Answer = Parameters<Done> | undefined;

/** Each check's part of a reply. */
export function answersOf(batch: readonly Check[], numbers: readonly number[]): Answer[] {
  const begins = layout(batch, numbers);
  if (!begins) return batch.map(() => [strangeReply(), undefined]);
  return batch.map(({ nonce, times = 1 }, i): Answer => {
    const status = numbers[begins[i]!]!;
    const first = begins[i]! + (nonce ? 2 : 1);
    const moment = nonce ? numbers[first - 1]! : 0;
    const words = numbers.slice(first, begins[i + 1]);
    const now = moment || numbers[1]!;
    if (status === BOUNDS) return undefined;
    if (status === BLOCKED) {
      const blockedUs = words[0]! < 0 ? Infinity : words[0]!;
      return [undefined, { granted: false, now, words, blockedUs, replayed: false }];
    }
    if (status < 0) return [errorOf(status), undefined];
    const outcome = { granted: status > 0, now, words, blockedUs: undefined, replayed: moment > 0 };
    return [undefined, times > 1 ? { ...outcome, times: status } : outcome];
  });
}

export const strangeReply = (): StoreError =>
  new StoreError("unknown", "the script's reply has another shape than this version expects");

function errorOf(status: number): StoreError {
  const [reason, message] = STATUS[status] ?? ["unknown", `the script answered the unknown status ${status}`];
  return new StoreError(reason, message);
}
