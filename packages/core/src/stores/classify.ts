import { StoreError, type StoreErrorClass } from "../errors.ts";

const CANNOT = "the server cannot decide now";
const NO_WRITES = "the server takes no writes now";
const IS_MOVING = "the slot of a key is on its way to another server";
const NOT_ALLOWED = "the Redis user may not do what a decision needs, or is not logged in";

/** What a server's error code means for a decision. None of these has charged anything. */
const BY_CODE: Readonly<Record<string, readonly [StoreErrorClass, string]>> = {
  LOADING: ["unavailable", CANNOT],
  BUSY: ["unavailable", CANNOT],
  MASTERDOWN: ["unavailable", CANNOT],
  CLUSTERDOWN: ["unavailable", CANNOT],
  TRYAGAIN: ["moving", IS_MOVING],
  // Followed on a Cluster. A client of a single server meets it when it is given one server of a Cluster.
  MOVED: ["unavailable", CANNOT],
  ASK: ["unavailable", CANNOT],
  MISCONF: ["unavailable", NO_WRITES],
  NOREPLICAS: ["unavailable", NO_WRITES],
  OOM: ["unavailable", NO_WRITES],
  READONLY: ["readonly", "the server is a replica and takes no writes"],
  NOPERM: ["denied", NOT_ALLOWED],
  NOAUTH: ["denied", NOT_ALLOWED],
  WRONGPASS: ["denied", NOT_ALLOWED],
  WRONGTYPE: ["foreign", "a key of this limiter holds another type"],
};

/** Refusals of a script's command that say no code, by Redis 7 and by later servers. */
const DENIED_IN_SCRIPT = /can't run this command|ACL failure in script/;

/** What clients and Node say of a connection. Whether the command was executed is not known. */
const NO_CONNECTION =
  /Connection is closed|Command aborted|isn't writeable|max retries|Socket|timed out|\b(ECONN\w+|ENOENT|EACCES|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ERR_TLS\w*|ERR_SSL\w*|\w*CERT\w*)\b/;

/**
 * The class of a client's error. Its text stays behind: it quotes the command, and with it keys
 * that may name people.
 */
export function classify(error: unknown): StoreError {
  const text =
    error instanceof Error
      ? `${error.message} ${(error as NodeJS.ErrnoException).code ?? ""}`
      : String(error);
  const code = serverCode(text);
  const known = code === undefined ? undefined : BY_CODE[code];
  if (known)
    return new StoreError(
      known[0],
      `${known[1]} (${[code, deniedCommand(text)].filter(Boolean).join(", ")})`,
    );
  if (DENIED_IN_SCRIPT.test(text)) {
    const what = [nodeCode(text), deniedCommand(text)].filter(Boolean).join(", ");
    return new StoreError("denied", `${NOT_ALLOWED} (${what})`);
  }
  if (NO_CONNECTION.test(text)) {
    const message = "there is no connection, or it broke before the answer came";
    return new StoreError("connection", `${message} (${nodeCode(text)})`);
  }
  return new StoreError("unknown", `the server answered an error (${nodeCode(text)})`);
}

/**
 * The code of a server's error that we know: its first word, or that of the error that it wraps, as
 * servers do when a script met it (`ERR Error running script …: @user_script: 12: -READONLY …`). A
 * word anywhere else may be part of a key.
 */
function serverCode(text: string): string | undefined {
  const first = /^-?([A-Z]+)(?=\s|$)/.exec(text)?.[1];
  if (first !== undefined && first in BY_CODE) return first;
  if (first !== "ERR") return undefined;
  const wrapped = /user_script:\s*\d+:\s*-?([A-Z]{3,})(?=\s|$)/g;
  for (const [, code] of text.matchAll(wrapped)) if (code! in BY_CODE) return code;
  return undefined;
}

/** The command that a user may not run, where the server names it: a word of the protocol's, and none of a key's. */
const deniedCommand = (text: string): string | undefined =>
  /(?:^NOPERM\b|ACL failure in script).* '([a-z|-]{2,30})' command/.exec(text)?.[1];

/** NOSCRIPT means that nothing was executed. */
export const isNoScript = (error: unknown): boolean =>
  error instanceof Error && /^NOSCRIPT\b/.test(error.message);

/** A server's errors begin with their code, and Node's carry one. Any other word may be part of a key. */
const nodeCode = (text: string): string => /^[A-Z]{3,}\b|\bE[A-Z_]{4,}$/.exec(text)?.[0] ?? "no code";

/** With the system's own word for it, where there is one: any other part of the error may quote what is nobody's business. */
export function notConnected(trouble: unknown): StoreError {
  const code = (trouble as NodeJS.ErrnoException | undefined)?.code;
  const why = typeof code === "string" && /^[A-Z][A-Z0-9_]+$/.test(code) ? ` (${code})` : "";
  return new StoreError("connection", `there is no connection to Redis${why}`);
}
