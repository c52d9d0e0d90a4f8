/** Every algorithm: one line here, beside its own file, its Lua and its story. */
import { concurrencyAlgorithm } from "./concurrency.ts";
import { fixedWindowAlgorithm } from "./fixed-window.ts";
import { gcraAlgorithm } from "./gcra.ts";
import { slidingLogAlgorithm } from "./sliding-log.ts";
import { slidingWindowAlgorithm } from "./sliding-window.ts";
import { tokenBucketAlgorithm } from "./token-bucket.ts";

const ALL = [
  tokenBucketAlgorithm,
  gcraAlgorithm,
  slidingWindowAlgorithm,
  slidingLogAlgorithm,
  fixedWindowAlgorithm,
  concurrencyAlgorithm,
];

/** Under which of these tags a policy chosen per request was counted, nobody remembers. */
export const TAGS: readonly string[] = ALL.map(({ tag }) => tag);

/** By tag, as makers are called. */
export const NAMES: Readonly<Record<string, string>> = Object.fromEntries(
  ALL.map(({ tag, name }) => [tag, name]),
);
