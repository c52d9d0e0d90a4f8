import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { Cluster, type ClusterNode, Redis, type RedisOptions } from "ioredis";
import { CliError } from "./errors.ts";
import type { Io } from "./io.ts";
import { plain } from "./plain.ts";

/** What the commands that ask Redis take. */
export interface RedisFlags {
  readonly redis?: string;
  readonly cluster?: boolean;
  readonly prefix?: string;
}

/** The options of commands that ask Redis. */
export const withRedis = (command: Command): Command =>
  command
    .option(
      "-r, --redis <url>",
      "which Redis or Valkey: redis://, rediss:// (TLS), unix://, or redis+sentinel://host:port,host:port/name; one server of a Cluster leads to all. REDIS_URL in the environment by default, which keeps passwords out of the list of processes",
    )
    .option("--cluster", "the server is one of a Cluster; where its user may run INFO that is found out")
    .option("--prefix <text>", "what begins every key: the file's, or rl");

/** Servers, and how to reach them. */
export interface Target {
  /** Without user and password. */
  readonly where: string;
  readonly options: RedisOptions;
}

/** A connection that is there. */
export interface Reached {
  readonly client: Redis | Cluster;
  /** Without user and password. */
  readonly where: string;
}

/** How long a connection may take altogether, milliseconds. */
const WITHIN_MS = 5000;

/** Nothing is tried twice and nothing waits: whoever asks is looking on. */
const IMPATIENT = {
  lazyConnect: true,
  connectTimeout: 3000,
  maxRetriesPerRequest: 0,
  // It would warn on the console of a user who may not run INFO.
  enableReadyCheck: false,
  retryStrategy: () => null,
  sentinelRetryStrategy: () => null,
  sentinelReconnectStrategy: () => null,
  commandTimeout: WITHIN_MS,
} satisfies RedisOptions;

/** Which Redis is meant. */
export function targetOf(io: Io, flags: RedisFlags): Target {
  const url = flags.redis ?? io.env["REDIS_URL"] ?? "";
  if (url === "") {
    const advice = "say --redis redis://localhost:6379, or set REDIS_URL in the environment";
    return io.fail("TIDEGATE_CLI_REDIS_MISSING", `Which Redis? ${advice}.`);
  }
  return sentinelIn(url) ?? serverIn(url) ?? notUrl(io, url);
}

const notUrl = (io: Io, url: string): never =>
  io.fail(
    "TIDEGATE_CLI_REDIS_URL",
    `--redis: give a URL such as redis://localhost:6379, got "${plain(withoutPassword(url), 60)}".`,
  );

/** Whatever stands before the last `@` may be a password, also in what is no URL. */
const withoutPassword = (url: string): string => url.replace(/^([a-z+]*:?(?:\/\/)?).*@/is, "$1…@");

function serverIn(text: string): Target | undefined {
  if (!/^(rediss?|unix):\/\//.test(text) || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  const { protocol, hostname, pathname } = url;
  const given = (options: RedisOptions) => ({ ...IMPATIENT, ...credentialsIn(url), ...options });
  if (protocol === "unix:") {
    const db = Number(url.searchParams.get("db") ?? 0);
    return { where: `unix://${plain(pathname)}`, options: given({ path: pathname, db }) };
  }
  const host = hostname.replace(/^\[|\]$/g, "") || "localhost";
  const port = Number(url.port || 6379);
  const db = /^\/\d+$/.test(pathname) ? Number(pathname.slice(1)) : 0;
  const tls = protocol === "rediss:" ? { tls: { servername: host } } : {};
  const where = `${protocol}//${hostname || host}:${port}${db > 0 ? `/${db}` : ""}`;
  return { where: plain(where), options: given({ host, port, db, ...tls }) };
}

const credentialsIn = ({ username, password }: URL): RedisOptions => ({
  ...(username !== "" && { username: decoded(username) }),
  ...(password !== "" && { password: decoded(password) }),
});

/** What is not encoded rightly is taken as it stands: a password may hold a percent sign. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const SENTINEL = /^redis(s?)\+sentinel:\/\/(?:([^@/]*)@)?([^@/?]+)\/([^/?]+)(?:\/(\d+))?(?:\?(.*))?$/;

/** No standard names this form; several libraries read it. */
function sentinelIn(text: string): Target | undefined {
  const [, secure, login = "", hosts, name, db = "0", query = ""] = SENTINEL.exec(text) ?? [];
  if (hosts === undefined || name === undefined) return undefined;
  const [username = "", ...password] = login.split(":");
  const sentinels = hosts.split(",").map((host) => {
    const [, address = host, port = "26379"] = /^(.*?)(?::(\d+))?$/.exec(host) ?? [];
    return { host: address.replace(/^\[|\]$/g, ""), port: Number(port) };
  });
  const asked = new URLSearchParams(query);
  const [user, secret] = [asked.get("sentinelUsername"), asked.get("sentinelPassword")];
  return {
    where: plain(`redis${secure}+sentinel://${hosts}/${name}${db === "0" ? "" : `/${db}`}`),
    options: {
      ...IMPATIENT,
      sentinels,
      name: decoded(name),
      db: Number(db),
      ...(username !== "" && { username: decoded(username) }),
      ...(password.length > 0 && { password: decoded(password.join(":")) }),
      ...(user !== null && { sentinelUsername: user }),
      ...(secret !== null && { sentinelPassword: secret }),
      ...(secure && { tls: {}, sentinelTLS: {}, enableTLSForSentinelMode: true }),
    },
  };
}

/**
 * Connects: to the server, the primary that Sentinels name, or the Cluster that the server is one of. Within seconds,
 * or the command ends.
 */
export async function reach(io: Io, target: Target, { cluster }: RedisFlags): Promise<Reached> {
  const { where } = target;
  const found = await connected(target, cluster === true);
  if (!("trouble" in found)) return { client: found, where };
  const { code, text } = wordsFor(found.trouble);
  return io.fail(code, `No answer from ${where}: ${text}`);
}

/** A client that is connected, or why there is none. */
export async function connected(
  target: Target,
  isCluster: boolean,
): Promise<Redis | Cluster | { readonly trouble: unknown }> {
  const ends = performance.now() + WITHIN_MS;
  if (isCluster) return attempt(clusterOf(target), ends);
  const client = await attempt(serverOf(target), ends);
  if ("trouble" in client) return client;
  const mode = await modeOf(client);
  if (typeof mode === "object") {
    client.disconnect();
    return mode;
  }
  if (mode !== "cluster" && mode !== "sentinel") return client;
  client.disconnect();
  return mode === "cluster" ? attempt(clusterOf(target), ends) : { trouble: new Error(SENTINEL_ALONE) };
}

async function attempt<C extends Redis | Cluster>(
  client: C,
  ends: number,
): Promise<C | { readonly trouble: unknown }> {
  let told: unknown;
  (client as Redis).on("error", (error: unknown) => (told = error));
  const over = new AbortController();
  const leftMs = Math.max(0, ends - performance.now());
  const late = sleep(leftMs, undefined, { signal: over.signal }).then((): never => {
    throw new Error(`it took longer than ${WITHIN_MS / 1000} s`);
  });
  try {
    await Promise.race([client.connect(), late]);
    return client;
  } catch (error) {
    client.disconnect();
    return { trouble: told ?? error };
  } finally {
    late.catch(() => {});
    over.abort();
  }
}

const SENTINEL_ALONE = "it is a sentinel, which keeps no limits: give redis+sentinel://host:port/name";

/** What a server says that it is. Who may not ask gets no Cluster by itself. */
async function modeOf(client: Redis): Promise<string | undefined | { readonly trouble: unknown }> {
  try {
    return /^(?:redis|server)_mode:(\w+)/m.exec(await client.info("server"))?.[1];
  } catch (error) {
    return /^NOPERM\b/.test(String((error as Error).message)) ? undefined : { trouble: error };
  }
}

/** A client of the server, or of the primary that Sentinels name; not connected. */
export const serverOf = ({ options }: Target): Redis => new Redis({ ...options, replyMapping: "legacy" });

/** A client of the Cluster that a server is one of; not connected. */
export function clusterOf({ options }: Target): Cluster {
  const { host = "localhost", port = 6379, username, password, tls, connectTimeout = 3000 } = options;
  const nodes: ClusterNode[] = [{ host, port }];
  const login = { ...(username && { username }), ...(password && { password }), ...(tls && { tls }) };
  return new Cluster(nodes, {
    lazyConnect: true,
    redisOptions: { ...login, connectTimeout, maxRetriesPerRequest: 0, enableReadyCheck: false },
    clusterRetryStrategy: () => null,
    slotsRefreshTimeout: 3000,
    // Behind TLS, certificates are for names: an address that was looked up would match none.
    ...(tls && { dnsLookup: (address: string, done: (e: null, a: string) => void) => done(null, address) }),
  });
}

const FAULTS = /^(ReplyError|MaxRetriesPerRequestError|ClusterAllFailedError|AbortError)$/;

/** What Redis refused, or a connection that broke, as an error that is told in one line; `undefined`: it is none. */
export function redisFault(error: unknown): CliError | undefined {
  if (!(error instanceof Error) || error instanceof CliError) return undefined;
  const { name, message, code } = error as NodeJS.ErrnoException;
  const broke = message === "Connection is closed." || message === "Command timed out";
  if (!FAULTS.test(name) && !broke && !/^E[A-Z]{3,}$/.test(code ?? "")) return undefined;
  return new CliError("TIDEGATE_CLI_REDIS", `Redis did not do it: ${plain(message, 200)}`);
}

/** What keeps a connection from coming about, for people. */
function wordsFor(trouble: unknown): { readonly code: string; readonly text: string } {
  const cause = (trouble as { lastNodeError?: unknown } | undefined)?.lastNodeError ?? trouble;
  const { code, message } = cause as { code?: unknown; message?: unknown };
  const text = plain(String(message || code || "it gave no reason"), 200).replace(/\.$/, "");
  if (/^(NOAUTH|WRONGPASS)\b|ERR AUTH/.test(text)) {
    const advice = "Put the right ones into the URL: redis://user:password@host:6379.";
    return { code: "TIDEGATE_CLI_REDIS_LOGIN", text: `it does not let this user in (${text}). ${advice}` };
  }
  if (text.startsWith("NOPERM")) return { code: "TIDEGATE_CLI_REDIS", text: `${text}.` };
  const advice = text === SENTINEL_ALONE ? "" : " Look at host and port, and at TLS (rediss://).";
  return { code: "TIDEGATE_CLI_REDIS_UNREACHABLE", text: `${text}.${advice}` };
}
