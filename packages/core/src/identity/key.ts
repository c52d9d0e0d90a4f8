import { createHash, createHmac } from "node:crypto";
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
  return PLAIN.test(text) && !text.startsWith("h.") ? text : `h.${digest(text)}`;
}

/** `<prefix>:{<kind>:<value>}:<policy>:<tag>`: all keys of one identity share a slot. */
export function keyOf(prefix: string, identity: Identity, policy: string, tag: string): string {
  return `${prefix}:{${identity.kind}:${identity.value}}:${policy}:${tag}`;
}

/** The identity as keys name it where a policy's limit is split: each shard in a slot of its own. */
export const shardOf = ({ kind, value }: Identity, shard: number): Identity =>
  ({ kind, value: `${value}#${shard}` }) as Identity;

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
