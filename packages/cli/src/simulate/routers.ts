import { match } from "path-to-regexp";
import { CliError } from "../errors.ts";
import { plain } from "../plain.ts";

/** Whose patterns `routes` has. */
export type Router = "express" | "koa" | "fastify";
export const ROUTERS: readonly Router[] = ["express", "koa", "fastify"];

/** Reads patterns as a framework does with its usual settings. */
export function patternsOf(router: Router): (pattern: string) => (path: string) => boolean {
  return router === "fastify"
    ? fastify
    : (pattern) => tested(pattern, pattern, { sensitive: false, trailing: true });
}

/** Fastify's router tells `/a` and `/A`, `/a` and `/a/` apart. */
const fastify = (pattern: string) =>
  tested(pattern, inOtherWords(pattern), { sensitive: true, trailing: false });

function tested(
  pattern: string,
  words: string,
  options: { sensitive: boolean; trailing: boolean },
): (path: string) => boolean {
  try {
    const test = match(words, { ...options, decode: false });
    return (path) => test(path) !== false;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CliError(
      "TIDEGATE_CLI_ROUTE",
      `The route ${plain(pattern, 120)} is no pattern: ${plain(why, 200)}`,
    );
  }
}

/** A pattern of find-my-way as one of path-to-regexp. */
function inOtherWords(pattern: string): string {
  if (/:[A-Za-z0-9_]+\(/.test(pattern))
    throw new CliError(
      "TIDEGATE_CLI_ROUTE",
      `The route ${plain(pattern, 120)} has a regular expression, which a simulation does not know: simulate it without.`,
    );
  return pattern
    .split("::")
    .map((part) =>
      part
        .replace(/[{}()[\]+!\\]/g, "\\$&")
        .replace(/\/:([A-Za-z0-9_]+)\?$/, "{/:$1}")
        // There, a star also stands for nothing.
        .replace(/\*$/, "{*rest}"),
    )
    .join("\\:");
}
