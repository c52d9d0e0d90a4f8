import { StoreError, type StoreErrorClass } from "../errors.ts";

/** The first word of a server's error, or of the error it wraps when a script met it. */
const BY_WORD: [RegExp, StoreErrorClass, string][] = [
  [
    /\b(LOADING|BUSY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MOVED|ASK)\b/,
    "unavailable",
    "the server cannot decide now",
  ],
  [/\b(READONLY|MISCONF|NOREPLICAS|OOM)\b/, "unavailable", "the server takes no writes now"],
  [
    /\b(NOPERM|NOAUTH|WRONGPASS)\b|can't run this command|ACL failure/,
    "denied",
    "the Redis user may not do what a decision needs, or is not logged in",
  ],
  [/\bWRONGTYPE\b/, "foreign", "a key of this limiter holds another type"],
  [
    /Connection is closed|isn't writeable|max retries|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|ENOTFOUND|Socket|timed out/,
    "connection",
    "there is no connection, or it broke before the answer came",
  ],
];

/**
 * The class of a client's error. Its text stays behind: it quotes the command, and with it keys
 * that may name people.
 */
export function classify(error: unknown): StoreError {
  const text =
    error instanceof Error
      ? `${error.message} ${(error as NodeJS.ErrnoException).code ?? ""}`
      : String(error);
  const [, reason, message] = BY_WORD.find(([pattern]) => pattern.test(text)) ?? [
    null,
    "unknown" as const,
    "the server answered an error",
  ];
  return new StoreError(reason, `${message} (${codeOf(text)})`);
}

/** NOSCRIPT means that nothing was executed. */
export const isNoScript = (error: unknown): boolean =>
  error instanceof Error && /^NOSCRIPT\b/.test(error.message);

/** A server's errors begin with their code, and Node's carry one. Any other word may be part of a key. */
const codeOf = (text: string): string => /^[A-Z]{3,}\b|\bE[A-Z]{4,}$/.exec(text)?.[0] ?? "no code";
