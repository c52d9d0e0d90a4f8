import { TidegateError } from "@tidegate/core";

/**
 * What is wrong with a policy file:
 * - `TIDEGATE_FILE_UNREADABLE`: there is no such file, it may not be read, is too large, or is not UTF-8
 * - `TIDEGATE_FILE_SYNTAX`: it is no YAML or JSON, or says something twice
 * - `TIDEGATE_FILE_OPTION`: an option is unknown, missing, or cannot work
 */
export type PolicyFileErrorCode =
  | "TIDEGATE_FILE_UNREADABLE"
  | "TIDEGATE_FILE_SYNTAX"
  | "TIDEGATE_FILE_OPTION";

/** One thing that is wrong with a policy file. */
export interface PolicyFileProblem {
  /** What is wrong. */
  readonly code: PolicyFileErrorCode;
  /** From 1; 0 where the file could not be read at all. */
  readonly line: number;
  /** From 1, in UTF-16 units as editors count them; 0 where the file could not be read at all. */
  readonly column: number;
  /** The option at fault, for example `policies.burst.capacity`; empty where it is the file itself. */
  readonly option: string;
  /** The value at fault, where it is text, a number or a boolean, and no secret. */
  readonly value: string | number | boolean | undefined;
  /** One line without control characters: the option, what to do, and what stands there. */
  readonly message: string;
}

/**
 * A policy file that cannot work. Everything that is wrong with it is told at once, one line each:
 * `limits.yaml:4:15: policies.burst.capacity: give a whole number from 0 to 9007199254, got "ten".`
 * `code`, `line`, `column`, `option` and `value` are those of the first problem.
 */
export class PolicyFileError extends TidegateError {
  override readonly name = "PolicyFileError";
  declare readonly code: PolicyFileErrorCode;
  /** As it was given. */
  readonly file: string;
  /** Where the first problem is: from 1; 0 where the file could not be read at all. */
  readonly line: number;
  /** Where in its line, from 1, in UTF-16 units; 0 where the file could not be read at all. */
  readonly column: number;
  /** The option at fault, for example `policies.burst.capacity`; empty where it is the file itself. */
  readonly option: string;
  /** The value at fault, where it is text, a number or a boolean, and no secret. */
  readonly value: string | number | boolean | undefined;
  /** In the order of the file, 100 at most. */
  readonly problems: readonly PolicyFileProblem[];

  constructor(file: string, problems: readonly [PolicyFileProblem, ...PolicyFileProblem[]], more = 0) {
    const lines = problems.map((problem) => `${placeOf(visible(file), problem)}: ${problem.message}`);
    if (more > 0) lines.push(`${visible(file)}: and ${more} more.`);
    const [first] = problems;
    super(first.code, lines.join("\n"));
    this.file = file;
    this.line = first.line;
    this.column = first.column;
    this.option = first.option;
    this.value = first.value;
    this.problems = problems;
  }
}

const placeOf = (file: string, { line, column }: PolicyFileProblem): string =>
  line === 0 ? file : `${file}:${line}:${column}`;

/** Text in one line that shows everything in it: what is in a file must not steer a terminal or forge a line of a log. */
export const visible = (text: string): string =>
  text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (sign) => `\\u{${sign.codePointAt(0)!.toString(16)}}`);

/** Text that is not longer than so many characters. */
export const shortened = (text: string, most: number): string =>
  text.length > most ? `${text.slice(0, most)}…` : text;

/** A value as a reader would write it, short. */
export const shown = (value: unknown): string =>
  typeof value === "string" ? JSON.stringify(shortened(value, 40)) : String(value);
