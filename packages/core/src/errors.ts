/**
 * Every error of tidegate. Recognise one by its `code`, not by `instanceof`: two copies of the
 * package may be loaded.
 */
export class TidegateError extends Error {
  /** The class's own: `TidegateError`, `ConfigError`, `StoreError` and so on. */
  override readonly name: string = "TidegateError";
  /** What went wrong, by a name that stays: each has an entry in docs/errors.md. */
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** What is wrong with a configuration, found when the limiter is made. */
export type ConfigErrorCode =
  | "TIDEGATE_OPTION_UNKNOWN"
  | "TIDEGATE_OPTION_INVALID"
  | "TIDEGATE_POLICY_NAME"
  | "TIDEGATE_POLICY_DUPLICATE"
  | "TIDEGATE_POLICY_MISSING"
  | "TIDEGATE_ROUTE"
  | "TIDEGATE_CLIENT_UNKNOWN"
  | "TIDEGATE_CLIENT_MISSING";

/** What is wrong with a request to decide. The promise rejects: it is the caller's fault, not the store's. */
export type RequestErrorCode =
  | "TIDEGATE_IDENTITY_MISSING"
  | "TIDEGATE_COST"
  | "TIDEGATE_SETTLEMENT"
  | "TIDEGATE_POLICY_UNKNOWN"
  | "TIDEGATE_BLOCKING_OFF"
  | "TIDEGATE_WAIT_NEVER"
  | "TIDEGATE_WAIT_TIMEOUT"
  | "TIDEGATE_WAIT_DEGRADED";

/**
 * A setting that cannot work. `option` names it, `value` is what was given, and the message says
 * what to write instead.
 */
export class ConfigError extends TidegateError {
  override readonly name = "ConfigError";
  declare readonly code: ConfigErrorCode;
  /** The option at fault, for example `tokenBucket.capacity`. */
  readonly option: string;
  /** The value that was given. */
  readonly value: unknown;

  constructor(code: ConfigErrorCode, option: string, value: unknown, advice: string) {
    super(code, `${option}: ${advice}, got ${show(value)}.`);
    this.option = option;
    this.value = value;
  }
}

/**
 * Why a store gave no decision. None of these carries a key or a command: the errors of Redis
 * clients do, and keys may name people.
 */
export type StoreErrorClass =
  /** No answer within the limiter's own deadline. */
  | "timeout"
  /** The script saw that the deadline had passed and did nothing. */
  | "late"
  /** There is no connection, or it broke before the answer came. */
  | "connection"
  /** The server answers, but cannot decide now: loading, down, busy, out of memory. */
  | "unavailable"
  /** The slot of a key is on its way to another server of the Cluster. */
  | "moving"
  /** The server is a replica, or has become one: it takes no writes. */
  | "readonly"
  /** A key of ours holds another type: somebody else writes under this prefix. */
  | "foreign"
  /** A key of ours holds something that this algorithm did not write. */
  | "broken"
  /** The user of the connection may not do what a decision needs, or is not logged in. */
  | "denied"
  /** The server is older than the scripts need. */
  | "server"
  /** Too much is waiting already. */
  | "overload"
  /** Anything else: a fault of ours or a server we do not know. */
  | "unknown";

/** A store that could not decide. The failure rule answers instead of it. */
export class StoreError extends TidegateError {
  override readonly name = "StoreError";
  /** Why, by its class; `code` is `TIDEGATE_STORE_` and this in capitals. */
  readonly reason: StoreErrorClass;

  constructor(reason: StoreErrorClass, message: string) {
    super(`TIDEGATE_STORE_${reason.toUpperCase()}`, message);
    this.reason = reason;
  }
}

/** A value as a reader would write it, short, and never a client's secret at length. */
export function show(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  if (typeof value === "number" || typeof value === "bigint" || value === undefined || value === null)
    return String(value);
  if (typeof value === "function") return "a function";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object") return `an object (${value.constructor?.name ?? "no prototype"})`;
  return String(value);
}
