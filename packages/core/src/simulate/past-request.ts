import type { Asked } from "../http/exchange.ts";
import type { ResponseEnd } from "../http/ruling.ts";
import { pathOf } from "../http/context.ts";
import type { Trust } from "../identity/proxy.ts";
import { SimulationError } from "./errors.ts";

/** One request of the past, as a log tells it. */
export interface PastRequest {
  /** When it came: milliseconds since 1970, fractions down to a microsecond. */
  readonly at: number;
  /** The method, in capitals. `"GET"` by default. */
  readonly method?: string | undefined;
  /** Path and query, not decoded. `"/"` by default. */
  readonly url?: string | undefined;
  /** The client's address: whatever stood between is not looked at any more. */
  readonly address?: string | undefined;
  /** Who was logged in: what `user()` finds. */
  readonly user?: string | undefined;
  /** What `tenant()` finds. */
  readonly tenant?: string | undefined;
  /** By their names in lower case: for `apiKey()`, for preflights and for functions of yours. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /**
   * What it was answered, for `giveBackOn` and `settle`. 499, as nginx writes it, and 0 are taken for a client that went
   * away.
   */
  readonly status?: number | undefined;
  /** How long it took, milliseconds: until then it held its slot of `concurrency`, and then it is settled. */
  readonly durationMs?: number | undefined;
}

/**
 * A request of the past as functions of a configuration see it: the fields that requests of Express, Fastify and a
 * context of Koa have in common. There is nothing else in a log: no body, no session.
 */
export class SimulatedRequest {
  readonly #past: PastRequest;
  #query: Readonly<Record<string, string>> | undefined;

  constructor(past: PastRequest) {
    this.#past = past;
  }

  /** The method, in capitals. */
  get method(): string {
    return this.#past.method ?? "GET";
  }

  /** Path and query. */
  get url(): string {
    return this.#past.url ?? "/";
  }

  /** Path and query: nothing is mounted here. */
  get originalUrl(): string {
    return this.url;
  }

  /** The path alone, not decoded. */
  get path(): string {
    return pathOf(this.url);
  }

  /** Where a name comes twice, the last. */
  get query(): Readonly<Record<string, string>> {
    this.#query ??= Object.fromEntries(new URLSearchParams(this.url.slice(this.path.length)));
    return this.#query;
  }

  /** Request headers, by their names in lower case. */
  get headers(): Readonly<Record<string, string>> {
    return this.#past.headers ?? NO_HEADERS;
  }

  /** The client's address. */
  get ip(): string | undefined {
    return this.#past.address;
  }

  /** Who was logged in. */
  get user(): string | undefined {
    return this.#past.user;
  }

  /** The tenant. */
  get tenant(): string | undefined {
    return this.#past.tenant;
  }

  /** Where Koa has `user` and `tenant`. */
  get state(): SimulatedRequest {
    return this;
  }

  /** The status it was answered with. */
  get status(): number | undefined {
    return this.#past.status;
  }

  /** A request header, by its name in any case. */
  get(name: string): string | undefined {
    return this.headers[name.toLowerCase()];
  }

  /** The same, as some frameworks call it. */
  header(name: string): string | undefined {
    return this.get(name);
  }
}

/** Where sources of identities look for what earlier middleware found. */
export class PastState extends SimulatedRequest {
  readonly past: PastRequest;

  constructor(past: PastRequest) {
    super(past);
    this.past = past;
  }
}

const NO_HEADERS: Readonly<Record<string, string>> = {};

/** Whoever stood between was believed when the log was written. */
const TRUST: Trust = { whom: "some" };

/** A request of the past, as a guard is asked about it. */
export class PastAsked implements Asked<SimulatedRequest> {
  readonly past: PastRequest;
  readonly request: SimulatedRequest;

  constructor(past: PastRequest) {
    this.past = past;
    this.request = new SimulatedRequest(past);
  }

  get raw(): object {
    return this;
  }

  get method(): string {
    return this.past.method ?? "GET";
  }

  get url(): string {
    return this.past.url ?? "/";
  }

  get peer(): string | undefined {
    return this.past.address;
  }

  get address(): string | undefined {
    return this.past.address;
  }

  get trust(): Trust {
    return TRUST;
  }

  get state(): object {
    return new PastState(this.past);
  }

  get route(): undefined {
    return undefined;
  }

  header(name: string): string | undefined {
    return this.past.headers?.[name];
  }
}

/** 2100, ms since 1970: what is later is in other units, and sums of times are exact. */
const LATEST_MS = 4_102_444_800_000;

/** @throws SimulationError TIDEGATE_SIMULATION_REQUEST when its times are none */
export function checkTimes({ at, durationMs }: PastRequest): void {
  if (!(at >= 0 && at <= LATEST_MS) || typeof at !== "number")
    throw new SimulationError("TIDEGATE_SIMULATION_REQUEST", "at", at, "give milliseconds since 1970");
  if (durationMs !== undefined && !(durationMs >= 0 && durationMs <= LATEST_MS)) {
    const advice = "give milliseconds from 0, or leave it out where the log does not tell";
    throw new SimulationError("TIDEGATE_SIMULATION_REQUEST", "durationMs", durationMs, advice);
  }
}

/** How long it took, whole µs; 0 where the log does not tell. */
export const lastedUs = ({ durationMs = 0 }: PastRequest): number => Math.round(durationMs * 1000);

/** How nginx writes that the client went away before it was answered, and how others do. */
const GONE: readonly (number | undefined)[] = [499, 0];

/** How its response ended, as a guard is told. */
export const endOf = ({ status }: PastRequest): ResponseEnd =>
  GONE.includes(status) ? { status: undefined, aborted: true } : { status, aborted: false };
