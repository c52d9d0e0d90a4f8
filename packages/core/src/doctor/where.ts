/** What is told of where a connection leads to, and nothing of who logs in there. */
import type { RedisInput } from "../clients/connection.ts";

/** Where a client leads to, as ioredis and those made alike tell it. */
export interface Told {
  readonly host?: string;
  readonly port?: number;
  readonly path?: string | null;
  readonly db?: number;
  readonly keyPrefix?: unknown;
  /** By this name the sentinels know the primary. */
  readonly name?: string;
  readonly sentinels?: unknown;
  /** Where node-redis has host, port and path. */
  readonly socket?: Told;
  /** What it calls `db`. */
  readonly database?: number;
}

export function toldBy(redis: RedisInput): Told {
  if (typeof redis === "string") return toldByUrl(redis);
  const { options, _options } = redis as { readonly options?: Told; readonly _options?: Told };
  return { ...(options ?? _options)?.socket, ...(options ?? _options) };
}

/** The user and the password stay behind. */
function toldByUrl(text: string): Told {
  if (!URL.canParse(text)) return {};
  const { hostname, port, pathname, searchParams } = new URL(text);
  if (hostname === "") return { path: pathname, db: Number(searchParams.get("db") ?? 0) };
  const db = /^\d+$/.test(pathname.slice(1)) ? Number(pathname.slice(1)) : 0;
  return { host: hostname, port: Number(port || 6379), db };
}

/** What a client of a Cluster was given to begin with. */
export function clusterIn(redis: RedisInput): string {
  const { startupNodes, _options } = redis as {
    readonly startupNodes?: readonly unknown[];
    readonly _options?: { readonly rootNodes?: readonly unknown[] };
  };
  const nodes = startupNodes ?? _options?.rootNodes ?? [];
  return nodes.length === 0 ? "the Cluster" : `the Cluster of ${nodes.map(nodeIn).join(", ")}`;
}

function nodeIn(node: unknown): string {
  if (typeof node === "number") return addressIn({ port: node });
  const { url, socket, ...own } =
    typeof node === "string" ? { url: node } : (node as Told & { url?: string });
  return addressIn(url === undefined ? { ...socket, ...own } : toldByUrl(url));
}

export function addressIn({ host = "localhost", port, path, sentinels, name }: Told): string {
  if (sentinels) return `${name}, as its sentinels name it`;
  if (path) return path;
  return port === undefined ? "the given client's server" : `${host}:${port}`;
}

/** Some clients take it as bytes. */
export const prefixIn = ({ keyPrefix = "" }: Told): string =>
  keyPrefix instanceof Uint8Array ? Buffer.from(keyPrefix).toString() : String(keyPrefix);
