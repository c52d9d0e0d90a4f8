/** What is wrong with a policy file, with the place in it. */
import { readFileSync } from "node:fs";
import type { PolicyFileError } from "@tidegate/policy-file";
import type { Colour } from "./io.ts";
import { plain } from "./plain.ts";

/** By its code: two copies of a package may be loaded. */
export const isFileProblem = (error: unknown): error is PolicyFileError =>
  error instanceof Error &&
  String((error as { code?: unknown }).code).startsWith("TIDEGATE_FILE_") &&
  "problems" in error;

export const problemDocument = ({ problems }: PolicyFileError): unknown =>
  problems.map(({ code, line, column, option, message }) => ({ code, line, column, option, message }));

/** `limits.yaml:4:15: what is wrong`, the line, and a caret under the column. */
export function problemLines(error: PolicyFileError, colour: Colour): string[] {
  const file = plain(error.file);
  const text = linesIn(error.file);
  return error.problems.flatMap(({ line, column, message }) => {
    const place = line === 0 ? file : `${file}:${line}:${column}`;
    return [
      `${colour.bold(place)}: ${colour.red(plain(message))}`,
      ...excerpt(text[line - 1], column, colour),
    ];
  });
}

/** A line of a generated file may be all of it. */
const MOST_SHOWN = 100;

/** The file as it is now. Whoever changed it meanwhile gets the message alone. */
function linesIn(file: string): readonly string[] {
  try {
    return readFileSync(file, "utf8").split(/\r?\n/);
  } catch {
    return [];
  }
}

/** @param column from 1 */
function excerpt(line: string | undefined, column: number, colour: Colour): string[] {
  if (line === undefined || column < 1 || column > line.length + 1) return [];
  const from = column > MOST_SHOWN ? column - MOST_SHOWN / 2 : 0;
  const before = plain(line.slice(from, column - 1));
  const after = plain(line.slice(column - 1, from + MOST_SHOWN));
  return [colour.dim(`  ${before}${after}`), `  ${" ".repeat(before.length)}${colour.red("^")}`];
}
