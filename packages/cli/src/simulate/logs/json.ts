import {
  type Columns,
  durationOf,
  entryOfCells,
  type Field,
  FIELDS,
  simpleName,
  textOf,
  USUAL,
} from "./columns.ts";
import { type Entry, type FormatOptions, type Read, requestsOf, statusOf } from "./format.ts";
import type { Pool } from "./pool.ts";
import { anyTime } from "./times.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * JSON, one object a line, with names as nginx has variables: a `log_format … escape=json` of somebody's own. Names that
 * other loggers write are known too, and `--columns` knows any.
 */
export function nginxJson(options: FormatOptions): Read {
  const request = requestsOf(options, true);
  const names = new Names(options.columns);
  return (lines) =>
    lines.map((line) => {
      const fields = parsed(line);
      const entry = fields && flatEntry(fields, names, options.pool);
      return entry && request(entry);
    });
}

function flatEntry(fields: Fields, names: Names, pool: Pool): Entry | undefined {
  const cells: Partial<Record<Field, unknown>> = {};
  const ranks: Partial<Record<Field, number>> = {};
  const headers: Record<string, string> = {};
  for (const name in fields) {
    const { field, rank, header } = names.of(name);
    const value = fields[name];
    if (field !== undefined && value !== "" && rank < (ranks[field] ?? Infinity)) {
      cells[field] = value;
      ranks[field] = rank;
    }
    const text = header === undefined ? undefined : textOf(value);
    if (text !== undefined) headers[header!] = pool.own(text);
  }
  for (const [field, name] of names.own) {
    const value = valueAt(fields, name);
    if (!field.startsWith("header.")) cells[field as Field] = value;
    else if (textOf(value)) headers[field.slice("header.".length)] = pool.own(textOf(value)!);
  }
  return entryOfCells((field) => cells[field], headers);
}

interface Meaning {
  readonly field?: Field;
  /** Of several names for one field, that of the least rank holds. */
  readonly rank: number;
  /** The header that a name such as `http_user_agent` holds. */
  readonly header?: string;
}

const NOTHING: Meaning = { rank: 0 };
/** Names that are remembered: a log that invents new ones must not fill the memory. */
const MOST_NAMES = 1000;

/** What the names in a log mean. */
class Names {
  /** As `--columns` has them. */
  readonly own: readonly (readonly [field: string, name: string])[];
  readonly #meanings = new Map<string, Meaning>();

  constructor(columns: Columns) {
    this.own = Object.entries(columns);
  }

  of(name: string): Meaning {
    const known = this.#meanings.get(name);
    if (known) return known;
    const meaning = name.length > 64 ? NOTHING : meaningOf(name);
    if (this.#meanings.size < MOST_NAMES) this.#meanings.set(name, meaning);
    return meaning;
  }
}

function meaningOf(name: string): Meaning {
  const simple = simpleName(name);
  const field = FIELDS.find((each) => USUAL[each].includes(simple));
  const header = /^http_(.+)$/i.exec(name)?.[1]?.toLowerCase().replaceAll("_", "-");
  return {
    rank: field === undefined ? 0 : USUAL[field].indexOf(simple),
    ...(field === undefined ? {} : { field }),
    ...(header === undefined || header === "method" ? {} : { header }),
  };
}

/** What Caddy writes when it has answered: `ts` is the end of a request. */
export function caddyJson(options: FormatOptions): Read {
  const request = requestsOf(options, true);
  return (lines) =>
    lines.map((line) => {
      const fields = parsed(line);
      const entry = fields && caddyEntry(fields, options);
      return entry && request(entry);
    });
}

/** Whether a line looks like one of Caddy: its `request` is an object. */
export function isCaddy(line: string): boolean {
  const fields = parsed(line);
  return fields !== undefined && isObject(fields["request"]) && fields["ts"] !== undefined;
}

function caddyEntry(fields: Fields, { columns, pool }: FormatOptions): Entry | undefined {
  const { request, ts, logger } = fields;
  // The log of errors has requests as well: they would count twice.
  if (!isObject(request) || (typeof logger === "string" && !logger.startsWith("http.log.access")))
    return undefined;
  const at = anyTime(ts);
  const status = statusOf(fields["status"]);
  if (at === undefined || status === undefined) return undefined;
  const headers = firstOfEach(request["headers"], pool);
  const own = (field: Field) => columns[field] && textOf(valueAt(fields, columns[field]));
  return {
    at,
    durationMs: caddyDuration(fields["duration"]),
    method: textOf(request["method"]),
    url: textOf(request["uri"]),
    client: textOf(request["client_ip"]),
    peer: textOf(request["remote_ip"]) ?? textOf(request["remote_addr"]),
    forwarded: headers["x-forwarded-for"],
    user: own("user") ?? textOf(fields["user_id"]),
    tenant: own("tenant"),
    status,
    headers,
  };
}

const UNITS_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  µs: 1e-3,
  us: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
};

/** Seconds as a number, which is how Caddy writes them; or as Go writes a duration, `1.5ms`. */
function caddyDuration(value: unknown): number | undefined {
  if (typeof value !== "string") return durationOf(value, 1000);
  const [, number, unit = "s"] = /^(\d{1,12}(?:\.\d{1,12})?)(ns|µs|us|ms|s|m)?$/.exec(value) ?? [];
  return number === undefined ? undefined : durationOf(number, UNITS_MS[unit]!);
}

/** `{ "User-Agent": ["curl"] }` as `{ "user-agent": "curl" }`. */
function firstOfEach(value: unknown, pool: Pool): Record<string, string> {
  const headers: Record<string, string> = {};
  if (!isObject(value)) return headers;
  for (const [name, values] of Object.entries(value)) {
    const texts = Array.isArray(values) ? values.filter((each) => typeof each === "string") : [];
    if (texts.length > 0) headers[name.toLowerCase()] = pool.own(texts.join(", "));
  }
  return headers;
}

/** A value by its name, or by a way through objects: `request.ip`. */
function valueAt(fields: Fields, name: string): unknown {
  if (Object.hasOwn(fields, name)) return fields[name];
  let value: unknown = fields;
  for (const part of name.split("."))
    value = isObject(value) && Object.hasOwn(value, part) ? value[part] : undefined;
  return value;
}

function parsed(line: string): Fields | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

const isObject = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);
