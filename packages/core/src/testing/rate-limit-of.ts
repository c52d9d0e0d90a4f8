import { AssertionError } from "node:assert";
import { show } from "../errors.ts";
import { type AnyResponse, type Read, readResponse } from "./response.ts";
import {
  type BareItem,
  FieldFault,
  type Item,
  type Member,
  type Parameters,
  parseDictionary,
  parseList,
} from "./structured-fields.ts";

/** A policy as `RateLimit-Policy` tells of it. What the field does not say is not there. */
export interface ToldPolicy {
  /** Drafts 6 and 7 name none. */
  readonly name?: string;
  /** `q`: units within the window. */
  readonly quota: number;
  /** `qu`: what is counted. `"requests"` goes without saying. */
  readonly unit: string;
  /** `w`, seconds. */
  readonly windowSeconds?: number;
  /** `pk`. */
  readonly partitionKey?: Uint8Array;
}

/** What is left of a policy, as `RateLimit` tells it. What the field does not say is not there. */
export interface ToldLimit {
  /** Only the draft-11 form names it. */
  readonly name?: string;
  /** `r`: units. */
  readonly remaining: number;
  /** `t` or the reset, seconds from the response on. */
  readonly resetSeconds?: number;
  /** `X-RateLimit-Reset`: seconds since 1970, by the store's clock. */
  readonly resetAt?: number;
  /** The limit, units; in the older forms alone. */
  readonly quota?: number;
  /** `pk`. */
  readonly partitionKey?: Uint8Array;
}

/** What a response says of its limits. */
export interface RateLimitTold {
  /** The response's status. */
  readonly status: number;
  /** In the order of `RateLimit-Policy`; empty: there is no such field. */
  readonly policies: readonly ToldPolicy[];
  /**
   * In the order of `RateLimit`: of a response that passed every policy, the tightest first; of a refusal those that
   * refused. Of the older forms one. Empty: nothing is told.
   */
  readonly limits: readonly ToldLimit[];
  /** `Retry-After`, seconds. */
  readonly retryAfter?: number;
}

/**
 * What a response says of its limits, in whichever form: draft-11 (and 8 to 10), draft-7, draft-6, `X-RateLimit-*`;
 * where there are several, the first of these.
 *
 * @throws AssertionError (`ERR_ASSERTION`) for a field that no draft allows, with its value as `actual`
 * @throws ConfigError `TIDEGATE_OPTION_INVALID` for what is no response
 */
export function rateLimitOf(response: AnyResponse): RateLimitTold {
  return toldBy(readResponse(response));
}

export function toldBy({ status, field }: Read): RateLimitTold {
  const read = <T>(name: string, parse: (text: string) => T): T | undefined =>
    inField(name, field(name), parse);
  const retryAfter = read("Retry-After", seconds);
  return {
    status,
    policies: read("RateLimit-Policy", policiesIn) ?? [],
    limits: read("RateLimit", limitsIn) ?? olderLimit(read),
    ...defined({ retryAfter }),
  };
}

type ReadField = <T>(name: string, parse: (text: string) => T) => T | undefined;

/** A field that is not as it must be fails the test that looks at it. */
function inField<T>(name: string, value: string | undefined, parse: (text: string) => T): T | undefined {
  if (value === undefined) return undefined;
  try {
    return parse(value);
  } catch (error) {
    if (!(error instanceof FieldFault)) throw error;
    const message = `${name} is not as its draft writes it: ${error.message}. It holds: ${value}`;
    throw new AssertionError({ message, actual: value, operator: "rateLimitOf" });
  }
}

const policiesIn = (field: string): ToldPolicy[] => parseList(field).map(policyOf);

function policyOf(member: Member): ToldPolicy {
  const { item, parameters } = itemOf(member);
  const windowSeconds = whole(parameters, "w");
  const older = item.type === "integer" ? item.value : undefined;
  if (older !== undefined) return { quota: older, unit: "requests", ...defined({ windowSeconds }) };
  return {
    name: nameOf(item),
    quota: needed(parameters, "q"),
    unit: stringIn(parameters, "qu") ?? "requests",
    ...defined({ windowSeconds, partitionKey: bytesIn(parameters, "pk") }),
  };
}

/** Names of policies are quoted; the keys of draft 7 are not. */
const limitsIn = (field: string): ToldLimit[] =>
  /^ *[a-z*]/.test(field) ? [draft7Limit(parseDictionary(field))] : parseList(field).map(limitOf);

function limitOf(member: Member): ToldLimit {
  const { item, parameters } = itemOf(member);
  const more = { resetSeconds: whole(parameters, "t"), partitionKey: bytesIn(parameters, "pk") };
  return { name: nameOf(item), remaining: needed(parameters, "r"), ...defined(more) };
}

function draft7Limit(members: ReadonlyMap<string, Member>): ToldLimit {
  const items = new Map([...members].map(([key, member]) => [key, itemOf(member).item]));
  const more = { quota: whole(items, "limit"), resetSeconds: whole(items, "reset") };
  return { remaining: needed(items, "remaining"), ...defined(more) };
}

/** Draft 6 and `X-RateLimit-*`, which have a field for each number. */
function olderLimit(read: ReadField): ToldLimit[] {
  for (const [prefix, reset] of [
    ["RateLimit", "resetSeconds"],
    ["X-RateLimit", "resetAt"],
  ] as const) {
    const remaining = read(`${prefix}-Remaining`, count);
    if (remaining === undefined) continue;
    const more = { quota: read(`${prefix}-Limit`, count), [reset]: read(`${prefix}-Reset`, count) };
    return [{ remaining, ...defined(more) }];
  }
  return [];
}

function itemOf(member: Member): Item {
  if ("item" in member) return member;
  throw new FieldFault("a list in a list is no policy");
}

function nameOf(item: BareItem): string {
  if (item.type === "string") return item.value;
  throw new FieldFault(
    `a policy's name is a string in double quotes, and not the ${item.type} ${show(item.value)}`,
  );
}

function needed(items: Parameters, key: string): number {
  const value = whole(items, key);
  if (value === undefined) throw new FieldFault(`a member has no ${key}`);
  return value;
}

function whole(items: Parameters, key: string): number | undefined {
  const item = items.get(key);
  if (item === undefined || (item.type === "integer" && item.value >= 0)) return item?.value;
  throw new FieldFault(`${key} is a whole number from 0, and not ${show(item.value)}`);
}

function stringIn(items: Parameters, key: string): string | undefined {
  const item = items.get(key);
  if (item === undefined || item.type === "string") return item?.value;
  throw new FieldFault(`${key} is a string in double quotes, and not the ${item.type} ${show(item.value)}`);
}

function bytesIn(items: Parameters, key: string): Uint8Array | undefined {
  const item = items.get(key);
  if (item === undefined || item.type === "bytes") return item?.value;
  throw new FieldFault(`${key} is bytes between colons, and not the ${item.type} ${show(item.value)}`);
}

function count(field: string): number {
  if (/^\d{1,15}$/.test(field)) return Number(field);
  throw new FieldFault("it is a whole number from 0");
}

function seconds(field: string): number {
  if (/^\d{1,15}$/.test(field)) return Number(field);
  throw new FieldFault("tests read whole seconds, which do not depend on this machine's clock");
}

/** Without what is not there: tests compare by every key. */
function defined<T extends object>(values: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as never;
}
