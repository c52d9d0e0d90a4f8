import { TidegateError, show } from "../errors.ts";
import { addressValue, type AddressOptions, NO_ADDRESS } from "./address.ts";
import { digest, safeValue } from "./key.ts";

/** Marks what the makers below made: its value is fit for a key. `Symbol.for`, as two copies of the package may meet. */
const MADE = Symbol.for("tidegate.identity");

/** Who is counted. Make one with {@link user}, {@link tenant}, {@link ipOf}, {@link identity}. */
export interface Identity {
  /** What sort of somebody: `user`, `tenant`, `ip`, `key`, `id`, or `all`. Begins the identity in keys. */
  readonly kind: string;
  /** As it stands in keys: no secret, and never longer than 64 characters. */
  readonly value: string;
  /** Whether each route is counted for itself. */
  readonly perRoute?: boolean;
  readonly [MADE]?: true;
}

/** What a source of identities may look at. */
export interface RequestContext<R = unknown> {
  /** The framework's own request. */
  readonly request: R;
  /** Where earlier middleware of this framework leaves what it found, such as `user`. */
  readonly state: object;
  /** The client's address, by the proxies that are believed; `undefined` when there is none. */
  readonly address: string | undefined;
  /** The address at the other end of the connection: nobody wrote it into a header. */
  readonly peer: string | undefined;
  /** A request header, by its name in lower case. */
  header(name: string): string | undefined;
  /** A parameter of the query, the first of its name. */
  query(name: string): string | undefined;
}

/** A user's own way to name who is counted: text or a number (of kind `id`), or an {@link Identity}. */
export type IdentityFunction<R = any> = (
  request: R,
) => MaybePromise<string | number | Identity | undefined | null>;

/** Finds out who a request counts for, or that it cannot tell. */
export interface IdentitySource<R = any> {
  /** Who a request counts for; `undefined` when it cannot tell. */
  identify(context: RequestContext<R>): MaybePromise<Identity | undefined>;
  /** Asks `other` when this one cannot tell. */
  or(other: By<R>): IdentitySource<R>;
  /** Counts by both together: each pair is somebody of its own. Says nothing when one of them cannot tell. */
  and(other: By<R>): IdentitySource<R>;
  /** The identity, where it is the same for every request. */
  readonly constant?: Identity;
  /** Whether a client may choose the outcome at will, as with an API key nobody verifies. */
  readonly unverified?: boolean;
  /** Whether the outcome is the client's address. */
  readonly address?: boolean;
  /** Whether each route may be counted for itself. */
  readonly perRoute?: boolean;
}

/** Who a policy counts. */
export type By<R = any> = IdentitySource<R> | IdentityFunction<R>;

/** A value, or a promise of one: functions of yours may answer at once or later. */
export type MaybePromise<T> = T | PromiseLike<T>;

/** An identity of a kind, by id. */
export const identityOf = (kind: "user" | "tenant", id: string | number): Identity => made(kind, id);

/** Whoever `id` is to you. A plain string given as an identity means the same. */
export const identity = (id: string | number): Identity => made("id", id);

/**
 * The identity that {@link ip} gives an address: IPv4 as it is, IPv6 by its prefix. Use it in a
 * function of your own, so that both count together.
 *
 * @throws ConfigError when the prefix is not a whole number from 1 to 128
 */
export function ipOf(address: string | undefined, options: AddressOptions = {}): Identity {
  return { kind: "ip", value: addressValue(address, options), [MADE]: true };
}

/** Who sent a request, by address: its peer's where the client's is none (a proxy may forward anything). */
export function addressOf(
  { address, peer }: Pick<RequestContext, "address" | "peer">,
  options?: AddressOptions,
): Identity {
  const found = ipOf(address, options);
  return found.value === NO_ADDRESS ? ipOf(peer, options) : found;
}

/**
 * The identity that {@link apiKey} gives a key: its digest, as the key itself is kept nowhere. For `reset`, `block` and
 * `peek` by hand.
 *
 * @param secret the one that `apiKey` was given, if any
 */
export function apiKeyOf(key: string, secret?: string): Identity {
  return { kind: "key", value: digest(key, secret), [MADE]: true };
}

/** All requests together. */
export const EVERYONE: Identity = { kind: "all", value: "-", [MADE]: true };

/** All requests of a route together. */
export const EVERYONE_PER_ROUTE: Identity = { ...EVERYONE, perRoute: true };

/** Somebody for each pair. Who is everyone adds nobody, but may add the route. */
export function pairOf(first: Identity, second: Identity): Identity {
  const perRoute = Boolean(first.perRoute || second.perRoute);
  const alone = first.kind === EVERYONE.kind ? second : second.kind === EVERYONE.kind ? first : undefined;
  if (alone) return perRoute ? { ...alone, perRoute } : alone;
  // Neither sign stands in a value, so no two pairs read the same.
  const pair = made("both", `${identityText(first)}+${identityText(second)}`);
  return perRoute ? { ...pair, perRoute } : pair;
}

/** An identity from what a caller gave, or `undefined` when it is none. */
export function toIdentity(given: unknown): Identity | undefined {
  if (typeof given === "string" || typeof given === "number")
    return isId(given) ? made("id", given) : undefined;
  if (typeof given !== "object" || given === null) return undefined;
  const { kind, value, [MADE]: ours } = given as Partial<Identity>;
  if (ours) return given as Identity;
  return typeof kind === "string" && KIND.test(kind) && typeof value === "string" && isId(value)
    ? made(kind, value)
    : undefined;
}

/** As it stands in keys and in audit events. */
export const identityText = ({ kind, value }: Identity): string => `${kind}:${value}`;

const KIND = /^[a-z]{1,16}$/;

const isId = (id: unknown): id is string | number =>
  (typeof id === "string" && id !== "") || (typeof id === "number" && Number.isFinite(id));

function made(kind: string, id: string | number): Identity {
  if (!isId(id)) {
    throw new TidegateError(
      "TIDEGATE_IDENTITY_MISSING",
      `${kind}: give text that is not empty, or a number, got ${show(id)}.`,
    );
  }
  return { kind, value: safeValue(String(id)), [MADE]: true };
}
