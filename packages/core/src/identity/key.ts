import { createHash, createHmac } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Identity } from "./identity.ts";

const PLAIN = /^[A-Za-z0-9._~-]{1,64}$/;

/** 128 bits of SHA-256, or of HMAC-SHA-256 where there is a secret: 22 characters of base64url. */
export function digest(text: string, secret?: string): string {
  const hash = secret === undefined ? createHash("sha256") : createHmac("sha256", secret);
  return hash.update(text).digest().subarray(0, 16).toString("base64url");
}

/**
 * The text as it may stand in a key: short and plain text as it is, all else as `h.` and a digest,
 * so that no text chooses its slot, meets another's key or grows the key without end.
 */
export function safeValue(text: string): string {
  if (PLAIN.test(text) && !text.startsWith("h.")) return text;
  const known = digests.get(text);
  if (known !== undefined) return known;
  const value = `h.${digest(text)}`;
  // What is very long comes seldom twice, and would fill the memory that this is to spare.
  if (text.length <= MOST_KEPT) digests.set(text, value);
  return value;
}

/** Digests of the identities that came last. API keys are no identities: these are not kept. */
const digests = new LRUCache<string, string>({ max: 5_000 });

/** Characters. */
const MOST_KEPT = 256;

/** `<prefix>:{<kind>:<value>}:<policy>:<tag>`: all keys of one identity share a slot. */
export function keyOf(prefix: string, identity: Identity, policy: string, tag: string): string {
  return `${prefix}:{${identity.kind}:${identity.value}}:${policy}:${tag}`;
}

/**
 * What shards are called, the first first. CRC16 is linear: whatever stands before such a name, the first n of them are
 * spread over the slots as evenly as n slots can be. Shards called 0, 1, 2 … would lie two and two beside each other.
 */
const SHARD_NAMES = (
  "063 061 062 060 133 018 132 019 173 058 172 059 023 021 022 020 078 153 079 152 001 003 000 002 041 043 040 042 " +
  "038 113 039 112 142 069 143 068 012 010 013 011 052 050 053 051 102 029 103 028 070 072 071 073 009 122 008 123 " +
  "049 162 048 163 030 032 031 033"
).split(" ");

/** The identity as keys name it where a policy's limit is split: each shard in a slot of its own. */
export const shardOf = ({ kind, value }: Identity, shard: number): Identity =>
  ({ kind, value: `${value}#${SHARD_NAMES[shard]}` }) as Identity;

/** The key under which an identity may be blocked: a name no policy can have. */
export const blockKeyOf = (prefix: string, { kind, value }: Identity): string =>
  `${prefix}:{${kind}:${value}}::b`;

/** A key up to the end of its hash tag: what chooses its slot. */
export const headOf = (key: string): string => key.slice(0, key.indexOf("}") + 1);

/** The same nonce beside other keys: on a Cluster it stands in the slot of each. */
export const nonceBeside = (nonce: string, key: string): string =>
  headOf(key) + nonce.slice(headOf(nonce).length);

/** The key under which a grant is kept for a nonce. `binding`: a digest of the whole question. */
export const nonceKeyOf = (prefix: string, { kind, value }: Identity, binding: string): string =>
  `${prefix}:{${kind}:${value}}::n:${binding}`;
