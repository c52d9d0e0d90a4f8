/**
 * What is run to see whether it may be run. Nothing here writes: a command that could is called so
 * that there is nothing for it to do, after the server has checked that the user may call it.
 */
import { createHash } from "node:crypto";
import { concurrency } from "../algorithms/concurrency.ts";
import { fixedWindow } from "../algorithms/fixed-window.ts";
import { gcra } from "../algorithms/gcra.ts";
import type { Policy } from "../algorithms/policy.ts";
import { slidingLog } from "../algorithms/sliding-log.ts";
import { slidingWindow } from "../algorithms/sliding-window.ts";
import { tokenBucket } from "../algorithms/token-bucket.ts";
import { decide } from "../scripts/decide.ts";
import { manage } from "../scripts/manage.ts";
import { settle } from "../scripts/settle.ts";
import { type Command, encodeChecks, encodeForget, encodeMoves } from "../stores/protocol.ts";
import type { Script } from "../stores/scripts.ts";
import type { Check, Move } from "../stores/store.ts";

const scriptOf = (text: string): Script => ({ text, sha: createHash("sha1").update(text).digest("hex") });

/** Answers the server's clock, µs, and 0 where the user may not ask. Runs on replicas too. */
export const ping = scriptOf(`#!lua flags=no-writes,allow-stale
local time = redis.pcall('TIME')
if time.err then return 0 end
return time[1] * 1000000 + time[2]
`);

/**
 * Answers a key's type, empty where the user may not ask; when it goes, ms since 1970, -1 never, -2
 * gone; and its name as the server knows it.
 */
export const inspect = scriptOf(`#!lua flags=no-writes,allow-stale
local kind = redis.pcall('TYPE', KEYS[1])
return { kind.ok or '', redis.call('PEXPIRETIME', KEYS[1]), KEYS[1] }
`);

/**
 * Answers of each command its name and the error that it met: an empty one, or, where arguments are
 * wrong on purpose, one that tells that it was let in.
 */
export const rights = scriptOf(`#!lua flags=allow-oom
local key = KEYS[1]
local calls = {
  { 'TIME' },
  { 'GET', key },
  { 'SET', key, '', 'XX' },
  { 'PEXPIREAT', key, 1 },
  { 'PEXPIRETIME', key },
  { 'INCRBY', key, 'no number' },
  { 'DECRBY', key, 'no number' },
  { 'HMGET', key, 'field' },
  { 'HSET', key, 'field', 'value', 'field without a value' },
  { 'ZADD', key, 'XX', 1, 'member' },
  { 'ZCARD', key },
  { 'ZCOUNT', key, 0, 1 },
  { 'ZRANGE', key, 0, 0 },
  { 'ZREM', key, 'member' },
  { 'ZREMRANGEBYSCORE', key, 0, 1 },
  { 'ZSCORE', key, 'member' },
  { 'DEL', key },
}
local told = {}
for _, call in ipairs(calls) do
  local reply = redis.pcall(unpack(call))
  told[#told + 1] = call[1]
  told[#told + 1] = type(reply) == 'table' and reply.err or ''
end
return told
`);

/** The commands that scripts call. */
const commandsIn = (...scripts: readonly Script[]): ReadonlySet<string> =>
  new Set(
    scripts.flatMap(({ text }) =>
      [...text.matchAll(/\bredis\.p?call\('([A-Z]+)'/g)].map(([, name]) => name!),
    ),
  );

/** What a user has to be let do for limits to hold. */
export const deciding = commandsIn(decide, settle);

/** What it has to be let do besides, to reset, block and unblock. */
export const managing = new Set([...commandsIn(manage)].filter((command) => !deciding.has(command)));

/** One of each algorithm. */
function policies(): Policy[] {
  const one = { limit: 1, window: 1000 };
  return [
    tokenBucket({ capacity: 1, refillPerSecond: 1 }),
    gcra(one),
    slidingWindow(one),
    slidingLog(one),
    fixedWindow(one),
    concurrency({ limit: 1, leaseMs: 1000 }),
  ];
}

/** A run of a shipped script that changes nothing. */
export interface Run {
  readonly script: Script;
  readonly command: Command;
}

/** A run of each. @param key one that is not there, nor are those of longer names */
export function runsOn(key: string): Readonly<Record<"decide" | "settle" | "manage", Run>> {
  const all = policies();
  const keys = all.map(({ algorithm }) => `${key}:${algorithm.tag}`);
  const moves = all.map((policy, i) => creditOf(policy, keys[i]!));
  const now = Date.now();
  return {
    decide: { script: decide, command: encodeChecks([peekAt(key, all, keys)], { deadline: undefined, now }) },
    settle: { script: settle, command: encodeMoves(moves, now) },
    manage: { script: manage, command: encodeForget(keys) },
  };
}

/** A look that takes every way through the script on which something is read. */
const peekAt = (key: string, policies: readonly Policy[], keys: readonly string[]): Check => ({
  policies,
  keys,
  costs: policies.map(() => 1),
  deadline: Infinity,
  peek: true,
  blocks: [`${key}:b`],
  lease: "doctor",
  nonce: { key: `${key}:n`, keepMs: 1 },
});

/** Gives back to a key that is not there: nothing. */
const creditOf = (policy: Policy, key: string): Move => ({
  kind: "credit",
  policy,
  key,
  units: 1,
  mark: 0,
  lease: "doctor",
});
