import type { Config } from "@tidegate/core";
import { build, type Env } from "./build.ts";
import { checkText, pathOf, textOf } from "./bytes.ts";
import { check } from "./check.ts";
import { parse } from "./document.ts";
import { Problems } from "./problems.ts";
import { read } from "./read.ts";
import { FILE } from "./table.ts";

/** The part of a configuration that is data: what a file may say. */
export type PolicyFileConfig = Pick<
  Config,
  | "policies"
  | "limit"
  | "window"
  | "by"
  | "cost"
  | "routes"
  | "mode"
  | "allow"
  | "deny"
  | "trustProxy"
  | "preflights"
  | "timeoutMs"
  | "functionTimeoutMs"
  | "onFailure"
  | "instances"
  | "headers"
  | "giveBackOn"
  | "idempotencyMs"
  | "denyCache"
  | "coalesce"
  | "blocking"
  | "prefix"
  | "scripting"
>;

/** What {@link policiesFrom} takes besides the file. */
export interface PolicyFileOptions {
  /** Where `secretFromEnv` looks a name up. The environment of the process by default. */
  env?: (name: string) => string | undefined;
}

/**
 * Reads limits from a YAML or JSON file, at once and once: a file that changes later changes nothing. What it returns
 * is spread into a configuration, and has been checked like one.
 *
 * @example rateLimit({ redis: process.env.REDIS_URL, ...policiesFrom("limits.yaml") })
 * @param file a path, from the working directory, or a `file:` URL; UTF-8, one million bytes at most
 * @throws PolicyFileError with everything that is wrong, by line and column: TIDEGATE_FILE_UNREADABLE,
 * TIDEGATE_FILE_SYNTAX, TIDEGATE_FILE_OPTION
 */
export function policiesFrom(file: string | URL, options?: PolicyFileOptions): PolicyFileConfig {
  const problems = new Problems(pathOf(file));
  return configOf(textOf(file, problems), problems, options);
}

/**
 * The same from text that is at hand.
 *
 * @param name stands for the file in errors; `<text>` by default
 * @throws PolicyFileError with everything that is wrong, by line and column
 */
export function policiesFromText(
  text: string,
  name: string = "<text>",
  options?: PolicyFileOptions,
): PolicyFileConfig {
  const problems = new Problems(name);
  return configOf(checkText(text, problems), problems, options);
}

function configOf(
  text: string | undefined,
  problems: Problems,
  options: PolicyFileOptions = {},
): PolicyFileConfig {
  const parsed = text === undefined ? undefined : parse(text.replace(/^\uFEFF/, ""), problems);
  if (parsed?.isEmpty) {
    const message = "it is empty; give policies, or limit and window";
    problems.add({ place: parsed.placeAt(0), option: "", message });
  }
  problems.throwIfAny();
  const env: Env = options.env ?? ((name) => process.env[name]);
  const reading = read(parsed!, FILE, problems);
  const config = build(reading, problems, env);
  if (reading.data) check(config, reading, problems);
  problems.throwIfAny();
  return config;
}
