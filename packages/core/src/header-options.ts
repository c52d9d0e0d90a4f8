import { ConfigError } from "./errors.ts";
import { flag, oneOf, onlyKnown, wholeNumber } from "./options.ts";

const STANDARDS = ["draft-11", "draft-7", "draft-6"] as const;
/** Drafts whose fields read the same as another's. */
const SAME_WIRE: Record<string, Standard> = {
  "draft-8": "draft-11",
  "draft-9": "draft-11",
  "draft-10": "draft-11",
};

/** A draft of draft-ietf-httpapi-ratelimit-headers whose fields have a form of their own. */
export type Standard = (typeof STANDARDS)[number];

/** Which header fields responses carry. */
export interface HeaderOptions {
  /**
   * The form of `RateLimit` and `RateLimit-Policy`, by draft-ietf-httpapi-ratelimit-headers. `"draft-11"` by default;
   * `"draft-8"` to `"draft-10"` are written the same. `false`: neither.
   */
  standard?: Standard | "draft-8" | "draft-9" | "draft-10" | false;
  /** Also `X-RateLimit-Limit`, `-Remaining` and `-Reset` (a moment, seconds since 1970). False by default. */
  x?: boolean;
  /**
   * `Retry-After` on a refusal. True by default. In seconds: `concurrency` is said when too many are in flight (1 by
   * default), `closed` when the store cannot be asked (5 by default).
   */
  retryAfter?: boolean | { concurrency?: number; closed?: number };
  /**
   * `pk`: tells one partition of a quota from another. False by default. `secret`: an HMAC of policy and identity; or
   * a function that returns bytes. Draft-11 only.
   */
  partitionKey?: false | { secret: string | Uint8Array } | PartitionKeyFunction;
  /** Whether `RateLimit` is left out of redirects. True by default. */
  omitOnRedirect?: boolean;
  /** Up to so many whole seconds, at random, are added to `Retry-After`. 0 by default, 3600 at most. */
  jitterSeconds?: number;
  /** Adds the fields to `Access-Control-Expose-Headers`, for scripts of other origins. False by default. */
  expose?: boolean;
}

/** Bytes for `pk`. They are shown to clients: nothing secret may be in them. */
export type PartitionKeyFunction = (partition: {
  readonly policy: string;
  /** As in keys: `user:42`. */
  readonly identity: string;
  readonly request: any;
}) => Uint8Array;

/** Options of headers that have been checked. */
export interface HeaderSettings {
  readonly standard: Standard | false;
  readonly x: boolean;
  readonly retryAfter: boolean;
  /** Seconds. */
  readonly concurrencySeconds: number;
  /** Seconds. */
  readonly closedSeconds: number;
  readonly partitionKey: PartitionKeySetting | undefined;
  readonly omitOnRedirect: boolean;
  readonly jitterSeconds: number;
  readonly expose: boolean;
}

export type PartitionKeySetting = { readonly secret: string | Uint8Array } | PartitionKeyFunction;

const KNOWN = ["standard", "x", "retryAfter", "partitionKey", "omitOnRedirect", "jitterSeconds", "expose"];

/** More would overflow the timers of many clients. */
const LONGEST_SECONDS = 2_147_483;

/** @throws ConfigError for the first option that cannot work */
export function headerSettings(options: HeaderOptions = {}): HeaderSettings {
  onlyKnown("headers", options, KNOWN);
  const { retryAfter = true, standard = "draft-11", x = false } = options;
  const seconds = typeof retryAfter === "boolean" ? {} : retryAfter;
  onlyKnown("headers.retryAfter", seconds, ["concurrency", "closed"]);
  const settings: HeaderSettings = {
    standard: standardOf(standard),
    x: flag("headers.x", x),
    retryAfter: retryAfter !== false,
    concurrencySeconds: wholeNumber(
      "headers.retryAfter.concurrency",
      seconds.concurrency ?? 1,
      1,
      LONGEST_SECONDS,
    ),
    closedSeconds: wholeNumber("headers.retryAfter.closed", seconds.closed ?? 5, 1, LONGEST_SECONDS),
    partitionKey: partitionKeyOf(options.partitionKey),
    omitOnRedirect: flag("headers.omitOnRedirect", options.omitOnRedirect ?? true),
    jitterSeconds: wholeNumber("headers.jitterSeconds", options.jitterSeconds ?? 0, 0, 3600),
    expose: flag("headers.expose", options.expose ?? false),
  };
  if (settings.partitionKey && settings.standard !== "draft-11") {
    const advice = `only "draft-11" has partition keys; leave one of the two out`;
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "headers.partitionKey", options.partitionKey, advice);
  }
  return settings;
}

function standardOf(standard: unknown): Standard | false {
  if (standard === false) return false;
  const known = [...STANDARDS, ...Object.keys(SAME_WIRE)];
  const word = oneOf("headers.standard", standard, known);
  return SAME_WIRE[word] ?? (word as Standard);
}

function partitionKeyOf(given: HeaderOptions["partitionKey"]): PartitionKeySetting | undefined {
  if (given === undefined || given === false) return undefined;
  if (typeof given === "function") return given;
  onlyKnown("headers.partitionKey", given, ["secret"]);
  const { secret } = given;
  if ((typeof secret === "string" || secret instanceof Uint8Array) && secret.length > 0) return { secret };
  // The value is a secret, whatever its form: it is not shown.
  const advice = "give text or bytes that are not empty";
  throw new ConfigError("TIDEGATE_OPTION_INVALID", "headers.partitionKey.secret", typeof secret, advice);
}
