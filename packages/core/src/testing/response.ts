import { ConfigError } from "../errors.ts";

/**
 * A response of any library: fetch, supertest, Node's http, Fastify's `inject`, axios, got, undici; or Node's
 * `ServerResponse` itself, as a handler sees it.
 */
export type AnyResponse = ResponseWithHeaders | ResponseWithGetter;

/** A response that has its fields as `headers`: of fetch, supertest, axios and others. */
export interface ResponseWithHeaders {
  /** One of `status` and `statusCode` is there. */
  readonly status?: number | undefined;
  /** The status, by the name that Node has for it. */
  readonly statusCode?: number | undefined;
  /** A `Headers`, or a record of fields whose names may be in any case. */
  readonly headers: object;
}

/** Node's `ServerResponse`, and what has its fields behind `getHeader`. */
export interface ResponseWithGetter {
  /** The status. */
  readonly statusCode: number;
  /** A field, by its name in any case; `undefined` when there is none. */
  getHeader(name: string): number | string | readonly string[] | undefined;
}

/** A response, whatever library it is of. */
export interface Read {
  readonly status: number;
  /** A field's value; of one that came in several lines, all of them, as the wire joins them. */
  readonly field: (name: string) => string | undefined;
}

/** @throws ConfigError `TIDEGATE_OPTION_INVALID` for what is no response */
export function readResponse(response: unknown): Read {
  if (isThenable(response)) throw noResponse(response, "this is a promise: await it first");
  if (typeof response !== "object" || response === null) throw noResponse(response);
  const given = response as Partial<ResponseWithHeaders & ResponseWithGetter>;
  const status = given.statusCode ?? given.status;
  if (typeof status !== "number") throw noResponse(response);
  const lookup = lookupOf(given);
  if (!lookup) throw noResponse(response);
  return { status, field: (name) => textOf(lookup(name)) };
}

/** How the fields of a response are looked up; `undefined`: it has none. */
function lookupOf(response: Partial<ResponseWithHeaders & ResponseWithGetter>) {
  const { headers } = response;
  if (typeof headers === "object" && headers !== null) {
    const { get } = headers as { get?: unknown };
    if (typeof get === "function") return (name: string): unknown => get.call(headers, name);
    return (name: string) => inRecord(headers as Record<string, unknown>, name);
  }
  if (typeof response.getHeader !== "function") return undefined;
  return (name: string): unknown => response.getHeader!(name);
}

function inRecord(headers: Record<string, unknown>, name: string): unknown {
  const wanted = name.toLowerCase();
  const found = Object.keys(headers).find((key) => key.toLowerCase() === wanted);
  return found === undefined ? undefined : headers[found];
}

const isThenable = (value: unknown): boolean =>
  typeof (value as { then?: unknown } | null)?.then === "function";

const textOf = (value: unknown): string | undefined =>
  value === undefined || value === null ? undefined : Array.isArray(value) ? value.join(", ") : String(value);

function noResponse(value: unknown, advice?: string): ConfigError {
  const what = "give a response with status or statusCode, and headers";
  return new ConfigError("TIDEGATE_OPTION_INVALID", "response", value, advice ?? what);
}
