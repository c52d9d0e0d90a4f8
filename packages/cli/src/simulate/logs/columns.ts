import { CliError } from "../../errors.ts";
import { plain } from "../../plain.ts";
import { type Entry, present, requestLine, statusOf } from "./format.ts";
import { anyTime } from "./times.ts";

/** What can be read from a log whose columns have names. */
export const FIELDS = [
  "at",
  "address",
  "forwarded",
  "method",
  "url",
  "query",
  "request",
  "status",
  "duration",
  "durationMs",
  "user",
  "tenant",
] as const;

export type Field = (typeof FIELDS)[number];

/** Which column a field stands in, by the field's name, or by `header.<name>`. */
export type Columns = Readonly<Record<string, string>>;

/** What columns are usually called, as {@link simpleName} writes it, the likeliest first. */
export const USUAL: Readonly<Record<Field, readonly string[]>> = {
  at: ["at", "msec", "timeiso8601", "timelocal", "timestamp", "time", "datetime", "date", "ts"],
  address: [
    "address",
    "remoteaddr",
    "clientip",
    "remoteip",
    "ip",
    "client",
    "remoteaddress",
    "clientaddress",
  ],
  forwarded: ["forwarded", "httpxforwardedfor", "xforwardedfor", "xff"],
  method: ["method", "requestmethod", "httpmethod", "verb"],
  url: ["url", "requesturi", "uri", "path", "requestpath"],
  query: ["query", "querystring", "args"],
  request: ["request", "requestline"],
  status: ["status", "statuscode", "code"],
  duration: ["duration", "requesttime", "durationseconds", "elapsed"],
  durationMs: ["durationms", "requesttimems", "latencyms", "elapsedms", "responsetimems", "tookms"],
  user: ["user", "remoteuser", "userid", "username"],
  tenant: ["tenant", "tenantid", "account", "accountid", "org", "orgid"],
};

/** A column's name in lower case and without what is neither letter nor digit: `remote_addr` and `RemoteAddr` are one. */
export const simpleName = (name: string): string => name.toLowerCase().replace(/[^a-z0-9]/g, "");

/**
 * `at=timestamp,address=ip,header.x-api-key=key` as names by field.
 *
 * @throws CliError for a field that there is not
 */
export function parseColumns(text: string): Columns {
  const columns: Record<string, string> = {};
  for (const part of text.split(",")) {
    const equals = part.indexOf("=");
    const [field, name] = [part.slice(0, Math.max(0, equals)).trim(), part.slice(equals + 1).trim()];
    if (name === "" || !(isField(field) || /^header\.[!-~]+$/.test(field)))
      throw new CliError(
        "TIDEGATE_CLI_COLUMNS",
        `--columns: write field=column, where field is ${FIELDS.join(", ")} or header.<name>, got ${plain(part, 80)}.`,
      );
    columns[field.startsWith("header.") ? field.toLowerCase() : field] = name;
  }
  return columns;
}

const isField = (text: string): text is Field => (FIELDS as readonly string[]).includes(text);

/** A column's value by a field's name: text, a number, or whatever a log has there. */
export type Cells = (field: Field) => unknown;

/** An entry from columns; undefined without a time, or where a request's line is none. */
export function entryOfCells(
  cell: Cells,
  headers: Readonly<Record<string, string>> | undefined,
): Entry | undefined {
  const at = anyTime(cell("at"));
  if (at === undefined) return undefined;
  const line = textOf(cell("request"));
  const asked = line === undefined ? undefined : requestLine(line);
  const url = textOf(cell("url")) ?? asked?.url;
  const method = textOf(cell("method")) ?? asked?.method;
  // What a server logs when somebody speaks another protocol to it: no application has seen that.
  if (line !== undefined && (url === undefined || method === undefined)) return undefined;
  return {
    at,
    durationMs: durationOf(cell("durationMs"), 1) ?? durationOf(cell("duration"), 1000),
    method,
    url: withQuery(url, textOf(cell("query"))),
    peer: textOf(cell("address")),
    forwarded: textOf(cell("forwarded")),
    user: textOf(cell("user")),
    tenant: textOf(cell("tenant")),
    status: statusOf(cell("status")),
    headers,
  };
}

/** Text, where a column holds any. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === "number") return String(value);
  return typeof value === "string" ? present(value.trim()) : undefined;
}

/** In milliseconds. Less than nothing, or more than a month, is no duration. */
export function durationOf(value: unknown, unitMs: number): number | undefined {
  const given = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  if (typeof given !== "number") return undefined;
  // In whole microseconds: 0.1 + 0.2 seconds are no 300.00000000000006 ms.
  const ms = Math.round(given * unitMs * 1000) / 1000;
  return ms >= 0 && ms <= LONGEST_MS ? ms : undefined;
}

const LONGEST_MS = 31 * 86_400_000;

function withQuery(url: string | undefined, query: string | undefined): string | undefined {
  if (url === undefined || query === undefined || url.includes("?")) return url;
  return `${url}?${query.startsWith("?") ? query.slice(1) : query}`;
}
