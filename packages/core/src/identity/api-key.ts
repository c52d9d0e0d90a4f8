import { LRUCache } from "lru-cache";
import { ConfigError } from "../errors.ts";
import { onlyKnown, optionalFunction, wholeNumber } from "../options.ts";
import {
  apiKeyOf,
  type Identity,
  type IdentitySource,
  type MaybePromise,
  type RequestContext,
} from "./identity.ts";
import { isThenable, source } from "./sources.ts";

/** Where a request has its key: one of the three. */
export interface ApiKeyOptions {
  /** The request header that holds the key, for example `x-api-key`. One of this, `scheme` and `query` is needed. */
  header?: string;
  /** `"bearer"`: the key stands in `Authorization: Bearer …`. One of this, `header` and `query` is needed. */
  scheme?: "bearer";
  /**
   * The parameter of the query that holds the key. Such keys end up in logs: headers are better. One of this, `header`
   * and `scheme` is needed.
   */
  query?: string;
  /**
   * Mixes the digest of a key with a secret of yours, so that nobody can test guesses against stored keys. None by
   * default.
   */
  secret?: string;
  /**
   * Whether a key is a real one. Without it anybody gets a new quota by inventing a key: then an
   * `ip()` policy has to stand beside. Told the key, never the request.
   */
  verify?: (key: string) => MaybePromise<boolean>;
  /**
   * How long an answer of `verify` holds, milliseconds, for 10,000 keys at most. 10,000 by default, one day at
   * most; 0: it is asked for each request.
   */
  verifiedForMs?: number;
}

/**
 * Counts by API key. Says nothing about a request without a key, or with one that `verify` refuses:
 * put `.or(ip())` behind it. The key is kept nowhere: keys in Redis hold 128 bits of its digest.
 *
 * @throws ConfigError for an unknown or unusable option
 */
export function apiKey(options: ApiKeyOptions): IdentitySource {
  onlyKnown("apiKey", options, ["header", "scheme", "query", "secret", "verify", "verifiedForMs"]);
  const keyIn = place(options);
  const { secret, verify, verifiedForMs = 10_000 } = options;
  if (secret !== undefined && (typeof secret !== "string" || secret === "")) {
    // The value is a secret, whatever its form: it is not shown.
    throw invalid("apiKey.secret", typeof secret, "give text that is not empty");
  }
  optionalFunction("apiKey.verify", verify);
  const holdsMs = wholeNumber("apiKey.verifiedForMs", verifiedForMs, 0, 86_400_000);
  const verified = verify && remembering(verify, holdsMs);
  return source(
    (context) => {
      const key = keyIn(context);
      if (key === undefined || key === "") return undefined;
      const identity = apiKeyOf(key, secret);
      if (!verified) return identity;
      const yes = verified(key, identity);
      if (isThenable(yes)) return yes.then((sure) => (sure ? identity : undefined));
      return yes ? identity : undefined;
    },
    { unverified: !verify },
  );
}

/** Beyond so many keys at once, an answer that is under way is not shared. */
const MOST_PENDING = 1000;
const MOST_KNOWN = 10_000;

/** Asks once for a key, however many requests bring it meanwhile, and keeps the answer for a while. A failure is not kept. */
function remembering(verify: (key: string) => MaybePromise<boolean>, holdsMs: number) {
  if (holdsMs === 0) return (key: string) => sure(verify(key));
  // By digest: no key is kept. No timer: the clock is read each time.
  const known = new LRUCache<string, boolean>({ max: MOST_KNOWN, ttl: holdsMs, ttlResolution: 0 });
  const pending = new Map<string, Promise<boolean>>();

  return (key: string, { value }: Identity): MaybePromise<boolean> => {
    const before = known.get(value) ?? pending.get(value);
    if (before !== undefined) return before;
    const answer = sure(verify(key));
    if (!isThenable(answer)) {
      known.set(value, answer);
      return answer;
    }
    const kept = Promise.resolve(answer).then((yes) => {
      known.set(value, yes);
      return yes;
    });
    if (pending.size < MOST_PENDING) {
      pending.set(value, kept);
      const forget = () => void pending.delete(value);
      kept.then(forget, forget);
    }
    return kept;
  };
}

/** Only `true` is a yes. */
const sure = (answer: MaybePromise<boolean>): MaybePromise<boolean> =>
  isThenable(answer) ? answer.then((yes) => yes === true) : answer === true;

const invalid = (option: string, value: unknown, advice: string) =>
  new ConfigError("TIDEGATE_OPTION_INVALID", option, value, advice);

function place({ header, scheme, query }: ApiKeyOptions): (context: RequestContext) => string | undefined {
  const given = [header, scheme, query].filter((each) => each !== undefined);
  if (given.length !== 1) {
    throw invalid("apiKey.header", header, "say in one way where the key is: header, scheme or query");
  }
  if (scheme !== undefined) {
    if (scheme !== "bearer") throw invalid("apiKey.scheme", scheme, 'give "bearer", or name a header');
    return (context) => bearer(context.header("authorization"));
  }
  if (query !== undefined) {
    if (typeof query !== "string" || query === "")
      throw invalid("apiKey.query", query, "name the parameter of the query that holds the key");
    return (context) => context.query(query);
  }
  if (typeof header !== "string" || header === "")
    throw invalid("apiKey.header", header, "name the request header that holds the key");
  const name = header.toLowerCase();
  return (context) => context.header(name);
}

/** The credentials of `Authorization: Bearer …`. source: RFC 6750 §2.1, RFC 9110 §11.1 */
function bearer(field: string | undefined): string | undefined {
  if (field === undefined || field.slice(0, 7).toLowerCase() !== "bearer ") return undefined;
  return field.slice(7).trim();
}
