import { TAGS } from "../algorithms/index.ts";

/** What a key's name says it is. `shape`: the name without whatever could name anybody. */
export type Name =
  /** What a policy has counted. */
  | { readonly is: "policy"; readonly shape: string; readonly segment: string; readonly tag: string }
  /** A block, which may be for ever. */
  | { readonly is: "block"; readonly shape: string }
  /** A grant that is kept. */
  | { readonly is: "nonce"; readonly shape: string }
  /** What a newer version keeps behind two colons. */
  | { readonly is: "newer"; readonly shape: string }
  /** Of a limiter whose prefix begins with this one. */
  | { readonly is: "neighbour"; readonly shape: string }
  /** No limiter's. */
  | { readonly is: "foreign"; readonly shape: string };

/** `{<kind>:<value>}`; a number of its own where a limit is split. */
const IDENTITY = /^\{([a-z]{1,16}):[A-Za-z0-9._~-]{1,64}(?:#\d{3})?\}/;

/** A policy's name, or one behind that of a group or route, and an algorithm. Newer versions may have more of these. */
const POLICY = /^:([A-Za-z0-9._~-]{1,129}):([a-z]{2})$/;

/**
 * @param rest what stands behind the prefix and its colon
 * @param prefix as it is to be shown
 */
export function nameOf(rest: string, prefix: string): Name {
  const [identity, kind] = IDENTITY.exec(rest) ?? [];
  if (identity === undefined) return strange(rest, prefix);
  const behind = rest.slice(identity.length);
  const [, segment, tag] = POLICY.exec(behind) ?? [];
  const shape = `${prefix}:{${kind}:…}`;
  if (segment !== undefined && tag !== undefined)
    return { is: "policy", shape: `${shape}:${segment}:${tag}`, segment, tag };
  if (behind === "::b") return { is: "block", shape: `${shape}::b` };
  if (behind.startsWith("::n:")) return { is: "nonce", shape: `${shape}::n:…` };
  if (behind.startsWith("::")) return { is: "newer", shape: `${shape}::…` };
  return { is: "foreign", shape: `${prefix}:{…}…` };
}

/** Whatever stands in a stranger's name may name somebody. */
function strange(rest: string, prefix: string): Name {
  const at = rest.indexOf(":{");
  const isNeighbour =
    at > 0 && !/[{}]/.test(rest.slice(0, at)) && nameOf(rest.slice(at + 1), prefix).is !== "foreign";
  return { is: isNeighbour ? "neighbour" : "foreign", shape: `${prefix}:…` };
}

/** A key of a limiter, by its name: what stands before the identity, a policy and an algorithm that there is. */
const ELSEWHERE =
  /^([^{}\u0000-\u001f\u007f]{1,64}):\{[a-z]{1,16}:[A-Za-z0-9._~-]{1,64}(?:#\d{3})?\}:[A-Za-z0-9._~-]{1,129}:([a-z]{2})$/;

/** The prefix of a limiter that a key looks as if it were of; `undefined`: it does not. */
export function prefixIn(key: string): string | undefined {
  const [, prefix, tag = ""] = ELSEWHERE.exec(key) ?? [];
  return TAGS.includes(tag) ? prefix : undefined;
}

/** What Redis says that a key of ours is. */
export function typeOf(name: Name): "string" | "hash" | "zset" | undefined {
  if (name.is === "block" || name.is === "nonce") return "string";
  if (name.is !== "policy" || !TAGS.includes(name.tag)) return undefined;
  if (name.tag === "tb") return "hash";
  return name.tag === "sl" || name.tag === "cc" ? "zset" : "string";
}

/** A text that SCAN is to take as it is. */
export const literally = (text: string): string => text.replace(/[\\*?[\]]/g, "\\$&");
