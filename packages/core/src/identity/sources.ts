import { ConfigError } from "../errors.ts";
import { onlyKnown, optionalFunction } from "../options.ts";
import { type AddressOptions, checkPrefix } from "./address.ts";
import {
  addressOf,
  apiKeyOf,
  type By,
  EVERYONE,
  type IdentitySource,
  type MaybePromise,
  type RequestContext,
  toIdentity,
} from "./identity.ts";

export interface ApiKeyOptions {
  /** The request header that holds the key, for example `x-api-key`. */
  header: string;
  /** Mixes the digest of a key with a secret of yours, so that nobody can test guesses against stored keys. */
  secret?: string;
  /**
   * Whether a key is a real one. Without it anybody gets a new quota by inventing a key: then an
   * `ip()` policy has to stand beside. Told the key, never the request.
   */
  verify?: (key: string) => MaybePromise<boolean>;
}

/**
 * Counts by API key. Says nothing about a request without a key, or with one that `verify` refuses:
 * put `.or(ip())` behind it. The key is kept nowhere: keys in Redis hold 128 bits of its digest.
 *
 * @throws ConfigError for an unknown or unusable option
 */
export function apiKey(options: ApiKeyOptions): IdentitySource {
  onlyKnown("apiKey", options, ["header", "secret", "verify"]);
  const { header, secret, verify } = options;
  if (typeof header !== "string" || header === "") {
    throw new ConfigError(
      "TIDEGATE_OPTION_INVALID",
      "apiKey.header",
      header,
      "name the request header that holds the key",
    );
  }
  if (secret !== undefined && (typeof secret !== "string" || secret === "")) {
    // The value is a secret, whatever its form: it is not shown.
    throw new ConfigError(
      "TIDEGATE_OPTION_INVALID",
      "apiKey.secret",
      typeof secret,
      "give text that is not empty",
    );
  }
  optionalFunction("apiKey.verify", verify);
  const name = header.toLowerCase();
  return source(
    (context) => {
      const key = context.header(name);
      if (key === undefined || key === "") return undefined;
      if (!verify) return apiKeyOf(key, secret);
      const verified = verify(key);
      if (isThenable(verified))
        return verified.then((yes) => (yes === true ? apiKeyOf(key, secret) : undefined));
      return verified === true ? apiKeyOf(key, secret) : undefined;
    },
    { unverified: !verify },
  );
}

/**
 * Counts by the client's address, by the application's own proxy settings. IPv6 by its first 64
 * bits. A request without an address counts as `ip:none`.
 *
 * @throws ConfigError when the prefix is not a whole number from 1 to 128
 */
export function ip(options: AddressOptions = {}): IdentitySource {
  onlyKnown("ip", options, ["ipv6Prefix"]);
  checkPrefix("ip.ipv6Prefix", options);
  return source((context) => addressOf(context, options), { address: true });
}

/** Counts all requests together. */
export function globally(): IdentitySource {
  return source(() => EVERYONE, { constant: EVERYONE });
}

/** Any way to say who is counted, as a source. */
export function toSource(by: By): IdentitySource {
  if (typeof by !== "function") return by;
  return source(({ request }) => {
    const given = by(request);
    return isThenable(given) ? given.then(toIdentity) : toIdentity(given);
  });
}

export function isThenable<T>(value: MaybePromise<T>): value is PromiseLike<T> {
  return typeof (value as PromiseLike<T> | undefined | null)?.then === "function";
}

type Traits = Pick<IdentitySource, "constant" | "unverified" | "address">;

function source(identify: IdentitySource["identify"], traits: Traits = {}): IdentitySource {
  const self: IdentitySource = { identify, or: (other) => either(self, toSource(other)), ...traits };
  return self;
}

function either(first: IdentitySource, second: IdentitySource): IdentitySource {
  const identify = (context: RequestContext) => {
    const found = first.identify(context);
    if (isThenable(found)) return found.then((identity) => identity ?? second.identify(context));
    return found ?? second.identify(context);
  };
  return source(identify, { unverified: Boolean(first.unverified || second.unverified) });
}
