import { CliError } from "../../errors.ts";
import { plain } from "../../plain.ts";
import { clf, isCombined } from "./clf.ts";
import { csv, headOf } from "./csv.ts";
import type { FormatName, FormatOptions, Read } from "./format.ts";
import { caddyJson, isCaddy, nginxJson } from "./json.ts";

/** How a file is read. */
export interface Reader {
  readonly format: FormatName;
  readonly read: Read;
  /** Whether its first line is no request but the names of columns. */
  readonly hasHead: boolean;
}

/** So many lines tell a format. */
export const SAMPLE_LINES = 100;

/**
 * Finds out how a file is written.
 *
 * @param sample its first lines, without those that are empty; at least one
 * @param given what the user says it is
 * @throws CliError when it is none that is known
 */
export function detect(
  file: string,
  sample: readonly string[],
  options: FormatOptions,
  given?: FormatName,
): Reader {
  if (given !== undefined) return readerOf(given, sample, options);
  // A file that ends behind the names of its columns is one without requests.
  if (sample.length === 1 && headOf(sample[0]!, options.columns)) return readerOf("csv", sample, options);
  const candidates = candidatesOf(sample, options).map((format) => {
    const reader = readerOf(format, sample, options);
    const requests = reader.read(reader.hasHead ? sample.slice(1) : sample);
    return { format, count: requests.filter((request) => request !== undefined).length };
  });
  // Sorting is stable: of those that read as much, the first.
  const [best] = candidates.toSorted((a, b) => b.count - a.count);
  if (!best || best.count === 0) throw unknownFormat(file, sample);
  return readerOf(best.format, sample, options);
}

function candidatesOf(sample: readonly string[], { columns }: FormatOptions): FormatName[] {
  if (sample.some((line) => line.startsWith("{")))
    return columns["at"] === undefined && sample.some(isCaddy) ? ["caddy-json"] : ["nginx-json"];
  const text: FormatName = sample.some(isCombined) ? "combined" : "common";
  return headOf(sample[0] ?? "", columns) ? [text, "csv"] : [text];
}

function readerOf(format: FormatName, sample: readonly string[], options: FormatOptions): Reader {
  switch (format) {
    case "common":
    case "combined":
      return { format, read: clf(options), hasHead: false };
    case "nginx-json":
      return { format, read: nginxJson(options), hasHead: false };
    case "caddy-json":
      return { format, read: caddyJson(options), hasHead: false };
    case "csv":
      return { format, read: csv(options, sample[0] ?? ""), hasHead: true };
  }
}

function unknownFormat(file: string, sample: readonly string[]): CliError {
  return new CliError(
    "TIDEGATE_CLI_FORMAT",
    `${plain(file)}: no line of the first ${sample.length} is one of an access log that is known: say which with --format, or name columns with --columns. The first: ${plain(sample[0] ?? "", 120)}`,
  );
}
