import type { PastRequest } from "@tidegate/core/simulate";
import type { ClientOf } from "./client.ts";
import type { Columns } from "./columns.ts";
import type { Pool } from "./pool.ts";

export type FormatName = "common" | "combined" | "nginx-json" | "caddy-json" | "csv";
export const FORMATS: readonly FormatName[] = ["common", "combined", "nginx-json", "caddy-json", "csv"];

/** A request for each line, in order; undefined for a line that holds none. */
export type Read = (lines: readonly string[]) => (PastRequest | undefined)[];

export interface FormatOptions {
  readonly clientOf: ClientOf;
  /** Names of the log's own for what is read from it, where there are any. */
  readonly columns: Columns;
  /** Whether the times of lines are those of requests' ends; each format knows by default. */
  readonly timesAreEnds?: boolean | undefined;
  readonly pool: Pool;
}

/** What a line says of a request. Texts may be parts of the line. */
export interface Entry {
  /** ms since 1970: when the line was written, or when the request came. */
  readonly at: number;
  readonly durationMs?: number | undefined;
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  /** The other end of the connection. */
  readonly peer?: string | undefined;
  /** `X-Forwarded-For`. */
  readonly forwarded?: string | undefined;
  /** The client, where the server has found out by itself who that is. */
  readonly client?: string | undefined;
  readonly user?: string | undefined;
  readonly tenant?: string | undefined;
  readonly status?: number | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** Makes requests of entries: when they came, from whom, and in memory of their own where that is kept for long. */
export function requestsOf(
  { clientOf, timesAreEnds, pool }: FormatOptions,
  endsByDefault: boolean,
): (entry: Entry) => PastRequest | undefined {
  const ends = timesAreEnds ?? endsByDefault;
  return (entry) => {
    const { durationMs, method, url, user, tenant, status, headers } = entry;
    const at = ends && durationMs !== undefined ? entry.at - durationMs : entry.at;
    if (!(at >= 0 && at <= LATEST_MS)) return undefined;
    const address = clientOf(entry);
    return {
      at,
      method: method && (METHODS.get(method) ?? pool.own(method)),
      url: url && pathOf(url),
      address: address && pool.own(address),
      user: user && pool.own(user),
      tenant: tenant && pool.own(tenant),
      headers,
      status,
      durationMs,
    };
  };
}

/** The year 2255: later moments cannot be counted in whole microseconds. */
const LATEST_MS = 9e12;

const METHODS = new Map(
  ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"].map((method) => [method, method]),
);

/** Of `https://host/path`, as a client writes to a proxy, what stands behind the host. */
function pathOf(url: string): string {
  if (url.startsWith("/")) return url;
  const host = url.indexOf("://");
  if (host < 0) return url;
  const path = url.indexOf("/", host + 3);
  return path < 0 ? "/" : url.slice(path);
}

/** `GET /path HTTP/1.1`; undefined when it is no line of a request. */
export function requestLine(text: string): { method: string; url: string } | undefined {
  const space = text.indexOf(" ");
  if (space < 1 || !isMethod(text, space)) return undefined;
  const last = text.lastIndexOf(" ");
  const end = last > space && text.startsWith("HTTP/", last + 1) ? last : text.length;
  const url = text.slice(space + 1, end);
  return url === "" ? undefined : { method: text.slice(0, space), url };
}

/** The longest that is registered has 17 letters. source: IANA, HTTP Method Registry */
const LONGEST_METHOD = 20;

function isMethod(text: string, end: number): boolean {
  if (end > LONGEST_METHOD) return false;
  for (let i = 0; i < end; i++) {
    const code = text.charCodeAt(i);
    const letter = (code >= 65 && code <= 90) || (code >= 97 && code <= 122) || code === 45 || code === 95;
    if (!letter) return false;
  }
  return true;
}

/** A status as text or a number; undefined when it is none. */
export function statusOf(value: unknown): number | undefined {
  const status = typeof value === "string" ? Number(value) : value;
  return typeof status === "number" && status >= 100 && status <= 999 ? Math.floor(status) : undefined;
}

/** What stands in a log for nothing. */
export const present = (text: string | undefined): string | undefined =>
  text === undefined || text === "" || text === "-" ? undefined : text;
