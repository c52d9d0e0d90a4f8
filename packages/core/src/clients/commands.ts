import { ConfigError } from "../errors.ts";

/** What every client answers when there is nowhere to send to. */
export const noConnection = () => new Error("Connection is closed.");

/** Commands that name keys: script or function, number of keys, keys. */
const RUNS = new Set(["evalsha", "eval", "fcall"]);

/** With a prefix put before the keys, where the library does not do it for commands that are sent as they are. */
export function prefixed(prefix: string, command: string, args: readonly (string | number)[]) {
  if (!prefix || !RUNS.has(command)) return args;
  const keys = Number(args[1]);
  return args.map((arg, i) => (i > 1 && i < 2 + keys ? `${prefix}${arg}` : arg));
}

/**
 * A Cluster client's own prefix.
 *
 * @throws ConfigError when it has braces: they would choose one slot for every key
 */
export function spreadingPrefix(option: string, prefix: string): string {
  if (!/[{}]/.test(prefix)) return prefix;
  const advice = "a keyPrefix with braces puts every key into one slot; give the client one without";
  throw new ConfigError("TIDEGATE_OPTION_INVALID", option, prefix, advice);
}
