import { ConfigError } from "../errors.ts";
import { onlyKnown } from "../options.ts";
import { type AddressOptions, checkPrefix, NO_ADDRESS } from "./address.ts";
import {
  addressOf,
  type By,
  EVERYONE,
  EVERYONE_PER_ROUTE,
  type Identity,
  type IdentityFunction,
  identityOf,
  type IdentitySource,
  ipOf,
  type MaybePromise,
  pairOf,
  type RequestContext,
  toIdentity,
} from "./identity.ts";
import { networks } from "./proxy.ts";

/** What {@link ip} takes. */
export interface IpOptions extends AddressOptions {
  /**
   * A header in which a CDN names the client, such as `cf-connecting-ip`, and the networks of that CDN. The header is
   * believed only when the address that would count otherwise is one of these.
   */
  trustedHeaders?: { header: string; from: readonly string[] };
}

/**
 * Counts by the client's address, by the proxies that are believed. IPv6 by its first 64 bits. A request without an
 * address counts as `ip:none`.
 *
 * @throws ConfigError for an option that cannot work
 */
export function ip(options: IpOptions = {}): IdentitySource {
  onlyKnown("ip", options, ["ipv6Prefix", "trustedHeaders"]);
  checkPrefix("ip.ipv6Prefix", options);
  const believed = options.trustedHeaders && trustedHeader(options.trustedHeaders);
  return source(
    (context) => {
      const told = believed?.(context);
      const found = told === undefined ? undefined : ipOf(told, options);
      return found && found.value !== NO_ADDRESS ? found : addressOf(context, options);
    },
    { address: true },
  );
}

function trustedHeader(options: NonNullable<IpOptions["trustedHeaders"]>) {
  onlyKnown("ip.trustedHeaders", options, ["header", "from"]);
  const { header } = options;
  if (typeof header !== "string" || header === "") {
    const advice = "name the header in which the CDN writes the client's address";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "ip.trustedHeaders.header", header, advice);
  }
  const within = networks("ip.trustedHeaders.from", options.from);
  const name = header.toLowerCase();
  return (context: RequestContext): string | undefined =>
    context.address !== undefined && within(context.address) ? context.header(name) : undefined;
}

/** Counts all requests together. */
export function globally(): IdentitySource {
  return source(() => EVERYONE, { constant: EVERYONE });
}

/**
 * Counts each route for itself: as the `routes` table names it, or as the framework has matched it by then. All
 * others count together. On its own for everybody together; `tenant().and(route())` for each tenant.
 */
export function route(): IdentitySource {
  return source(() => EVERYONE_PER_ROUTE, { constant: EVERYONE_PER_ROUTE, perRoute: true });
}

/** An id, or a function of the request that finds one. */
type Given = [given?: string | number | IdFunction];
type IdFunction<R = any> = (request: R) => MaybePromise<string | number | undefined | null>;

/**
 * A user of the application.
 *
 * - `user(id)`: this one
 * - `user()`: the one whom earlier middleware has found: `user`, else `auth`, in `ctx.state` of Koa and on the request
 *   elsewhere; text or a number, or an object with `id` or `sub`
 * - `user((request) => id)`: the one that a function of yours names
 *
 * The two last say nothing where there is none: put `.or(ip())` behind them.
 *
 * @throws TidegateError TIDEGATE_IDENTITY_MISSING when the id is no text or number, or empty
 */
export function user(id: string | number): Identity;
export function user<R = any>(find?: IdFunction<R>): IdentitySource<R>;
export function user(...given: Given): Identity | IdentitySource {
  return somebody("user", given, ({ user, auth }) => idIn(user) ?? idIn(auth));
}

/**
 * A tenant of the application.
 *
 * - `tenant(id)`: this one
 * - `tenant()`: the one whom earlier middleware has found: `tenant` (text, a number, or an object with `id`), else
 *   `tenantId`, else `user.tenantId`; in `ctx.state` of Koa and on the request elsewhere
 * - `tenant((request) => id)`: the one that a function of yours names
 *
 * The two last say nothing where there is none.
 *
 * @throws TidegateError TIDEGATE_IDENTITY_MISSING when the id is no text or number, or empty
 */
export function tenant(id: string | number): Identity;
export function tenant<R = any>(find?: IdFunction<R>): IdentitySource<R>;
export function tenant(...given: Given): Identity | IdentitySource {
  return somebody("tenant", given, ({ tenant, tenantId, user }) => {
    const ofUser = typeof user === "object" && user !== null ? (user as Found)["tenantId"] : undefined;
    return idIn(tenant) ?? idIn(tenantId) ?? idIn(ofUser);
  });
}

type Found = Readonly<Record<string, unknown>>;

function somebody(
  kind: "user" | "tenant",
  given: Given,
  look: (state: Found) => string | number | undefined,
): Identity | IdentitySource {
  const [how] = given;
  if (given.length > 0 && typeof how !== "function") return identityOf(kind, how as string | number);
  const toOne = (id: unknown) =>
    isId(id) ? identityOf(kind, id) : id === undefined || id === null || id === "" ? undefined : NONSENSE;
  return source((context) => {
    if (typeof how !== "function") return toOne(look(context.state as Found));
    const id = how(context.request);
    return isThenable(id) ? id.then(toOne) : toOne(id);
  });
}

/** What is no identity, and is to be told of as a fault. */
const NONSENSE = NaN as unknown as Identity;

const isId = (id: unknown): id is string | number =>
  (typeof id === "string" && id !== "") || (typeof id === "number" && Number.isFinite(id));

function idIn(found: unknown): string | number | undefined {
  if (isId(found)) return found;
  if (typeof found !== "object" || found === null) return undefined;
  const { id, sub } = found as Found;
  return [id, sub].find(isId);
}

/** Any way to say who is counted, as a source. */
export function toSource(by: By): IdentitySource {
  if (typeof by !== "function") return by;
  return source(({ request }) => {
    const given = (by as IdentityFunction)(request);
    return isThenable(given) ? given.then(toIdentity) : toIdentity(given);
  });
}

export function isThenable<T>(value: MaybePromise<T>): value is PromiseLike<T> {
  return typeof (value as PromiseLike<T> | undefined | null)?.then === "function";
}

type Traits = Pick<IdentitySource, "constant" | "unverified" | "address" | "perRoute">;

/** A source, with all that sources can be combined by. */
export function source(identify: IdentitySource["identify"], traits: Traits = {}): IdentitySource {
  const self: IdentitySource = {
    identify,
    or: (other) => either(self, toSource(other)),
    and: (other) => both(self, toSource(other)),
    ...traits,
  };
  return self;
}

function either(first: IdentitySource, second: IdentitySource): IdentitySource {
  const identify = (context: RequestContext) => {
    const found = first.identify(context);
    if (isThenable(found)) return found.then((identity) => identity ?? second.identify(context));
    return found ?? second.identify(context);
  };
  return source(identify, {
    unverified: Boolean(first.unverified || second.unverified),
    perRoute: Boolean(first.perRoute || second.perRoute),
  });
}

function both(first: IdentitySource, second: IdentitySource): IdentitySource {
  const identify = (context: RequestContext) => {
    const [one, other] = [first.identify(context), second.identify(context)];
    if (isThenable(one) || isThenable(other)) return Promise.all([one, other]).then(pair);
    return pair([one, other]);
  };
  const constant = first.constant && second.constant && pairOf(first.constant, second.constant);
  return source(identify, {
    ...(constant && { constant }),
    unverified: Boolean(first.unverified || second.unverified),
    perRoute: Boolean(first.perRoute || second.perRoute),
    // A part that nobody chooses, such as the route, leaves an address what it is.
    address: Boolean((first.address && second.constant) || (second.address && first.constant)),
  });
}

const pair = ([one, other]: readonly (Identity | undefined)[]): Identity | undefined =>
  one && other && pairOf(one, other);
