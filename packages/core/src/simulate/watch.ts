import {
  addressOf,
  type By,
  type Identity,
  type IdentitySource,
  type MaybePromise,
  type RequestContext,
  toIdentity,
} from "../identity/identity.ts";
import { isThenable, source as sourceOf, toSource } from "../identity/sources.ts";
import { type PastRequest, PastState, SimulatedRequest } from "./past-request.ts";

/** What sources of identities look for in a request: `header x-api-key`, `query key`, `user` or `tenant`. */
export type Field = `header ${string}` | `query ${string}` | "user" | "tenant";

/** How often something was looked for, and what became of the requests that did not have it. */
export interface Search {
  looked: number;
  found: number;
  /** Requests without it that nobody was found for. */
  nobody: number;
  /** Requests without it, by the kind of identity that they were counted as. */
  readonly countedAs: Map<string, number>;
}

/** What one source of identities looked for, and how often it found nobody. */
export class Watch {
  /** Whether it is a function alone, of which it is not known what it looks for. */
  readonly isFunction: boolean;
  asked = 0;
  /** Requests that nobody was found for: they are counted by address, as middleware does. */
  nobody = 0;
  readonly #searches = new Map<Field, Search>();

  constructor(isFunction: boolean) {
    this.isFunction = isFunction;
  }

  /** In the order in which they were first looked for. */
  get searches(): readonly (readonly [Field, Search])[] {
    return [...this.#searches];
  }

  /** What it looked for and no request had. */
  get neverFound(): Field[] {
    return this.searches.flatMap(([field, { found }]) => (found === 0 ? [field] : []));
  }

  /** Who a request counts for, by the source that is watched. */
  identify(source: IdentitySource, context: RequestContext): MaybePromise<Identity> {
    this.asked++;
    const looking = new Looking(context);
    const found = source.identify(looking);
    return isThenable(found) ? found.then((late) => this.#took(late, looking)) : this.#took(found, looking);
  }

  /** What is no identity is left for others to tell of, and counted by address as well. */
  #took(found: Identity | undefined | null, { context, seen }: Looking): Identity {
    const isNobody = found === undefined || found === null;
    if (isNobody) this.nobody++;
    const identity = isNobody ? addressOf(context) : found;
    const { kind } = toIdentity(identity) ?? addressOf(context);
    for (const [field, there] of seen) this.#count(field, there, isNobody, kind);
    return identity;
  }

  #count(field: Field, there: boolean, isNobody: boolean, kind: string): void {
    let search = this.#searches.get(field);
    if (!search) {
      search = { looked: 0, found: 0, nobody: 0, countedAs: new Map() };
      this.#searches.set(field, search);
    }
    search.looked++;
    if (there) {
      search.found++;
      return;
    }
    if (isNobody) search.nobody++;
    search.countedAs.set(kind, (search.countedAs.get(kind) ?? 0) + 1);
  }
}

/** A request as a source sees it, which notes what is looked for. */
class Looking implements RequestContext {
  readonly context: RequestContext;
  /** Whether each was there. */
  readonly seen = new Map<Field, boolean>();

  constructor(context: RequestContext) {
    this.context = context;
  }

  get request(): unknown {
    return this.context.request;
  }

  get state(): object {
    const { state } = this.context;
    return state instanceof PastState ? new LookedAt(state.past, this.seen) : state;
  }

  get address(): string | undefined {
    return this.context.address;
  }

  get peer(): string | undefined {
    return this.context.peer;
  }

  header(name: string): string | undefined {
    return this.#note(`header ${name}`, this.context.header(name));
  }

  query(name: string): string | undefined {
    return this.#note(`query ${name}`, this.context.query(name));
  }

  #note(field: Field, value: string | undefined): string | undefined {
    this.seen.set(field, value !== undefined && value !== "");
    return value;
  }
}

/** What earlier middleware found. Each source takes a look of its own. */
class LookedAt extends SimulatedRequest {
  readonly #seen: Map<Field, boolean>;
  #isTenants = false;

  constructor(past: PastRequest, seen: Map<Field, boolean>) {
    super(past);
    this.#seen = seen;
  }

  /** A source that has looked for a tenant looks for the user's tenant: in a log, users have none. */
  override get user(): string | undefined {
    return this.#isTenants ? super.user : this.#note("user", super.user);
  }

  override get tenant(): string | undefined {
    this.#isTenants = true;
    return this.#note("tenant", super.tenant);
  }

  #note(field: Field, value: string | undefined): string | undefined {
    this.#seen.set(field, value !== undefined && value !== "");
    return value;
  }
}

/** Watches the sources of a configuration: each once, wherever it stands. */
export class Watches {
  readonly #made = new Map<unknown, unknown>();
  readonly #watches = new Map<unknown, Watch>();

  /** A source that does the same and is watched. What cannot fail to find somebody is left as it is, and so is nonsense. */
  watched<T>(by: T): T {
    if (!isBy(by)) return by;
    const known = this.#made.get(by);
    if (known !== undefined) return known as T;
    const source = toSource(by);
    const { constant, unverified, address, perRoute } = source;
    if (constant || address) return by;
    const watch = new Watch(typeof by === "function");
    const traits = {
      ...(unverified !== undefined && { unverified }),
      ...(perRoute !== undefined && { perRoute }),
    };
    const made = sourceOf((context) => watch.identify(source, context), traits);
    this.#made.set(by, made);
    this.#watches.set(made, watch);
    return made as T;
  }

  /** @param source as {@link watched} made it */
  of(source: IdentitySource | undefined): Watch | undefined {
    return this.#watches.get(source);
  }
}

const isBy = (by: unknown): by is By =>
  typeof by === "function" ||
  typeof (by as Partial<IdentitySource> | null | undefined)?.identify === "function";
