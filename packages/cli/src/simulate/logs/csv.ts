import { parse } from "csv-parse/sync";
import type { PastRequest } from "@tidegate/core/simulate";
import { CliError } from "../../errors.ts";
import { plain } from "../../plain.ts";
import { type Columns, entryOfCells, type Field, FIELDS, simpleName, textOf, USUAL } from "./columns.ts";
import { type Entry, type FormatOptions, type Read, requestsOf } from "./format.ts";
import type { Pool } from "./pool.ts";

const DELIMITERS = [",", ";", "\t"];

/** Where each field stands. */
interface Head {
  readonly delimiter: string;
  readonly places: ReadonlyMap<Field, number>;
  readonly headers: readonly (readonly [header: string, place: number])[];
}

/** The names in a file's first line; undefined when none of them is a time's. */
export function headOf(line: string, columns: Columns): Head | undefined {
  for (const delimiter of DELIMITERS) {
    const names = recordOf(line, delimiter)?.map((name) => name.trim());
    if (!names || names.length < 2) continue;
    const places = placesOf(names, columns);
    if (places.has("at")) return { delimiter, places, headers: headersAt(names, columns) };
  }
  return undefined;
}

function placesOf(names: readonly string[], columns: Columns): Map<Field, number> {
  const simple = names.map(simpleName);
  const places = new Map<Field, number>();
  for (const field of FIELDS) {
    const own = columns[field];
    const usual = USUAL[field].map((name) => simple.indexOf(name)).find((place) => place >= 0);
    const place = own === undefined ? usual : names.indexOf(own);
    if (place !== undefined && place >= 0) places.set(field, place);
  }
  return places;
}

/** By `--columns`, and columns that are called `header.<name>` or `http_<name>` themselves. */
function headersAt(names: readonly string[], columns: Columns): [string, number][] {
  const found: [string, number][] = [];
  for (const [place, name] of names.entries()) {
    const [, header] = /^(?:header\.|http_)(.+)$/i.exec(name) ?? [];
    if (header !== undefined) found.push([header.toLowerCase().replaceAll("_", "-"), place]);
  }
  for (const [field, name] of Object.entries(columns))
    if (field.startsWith("header.") && names.includes(name))
      found.push([field.slice("header.".length), names.indexOf(name)]);
  return found;
}

/**
 * CSV whose first line names its columns. A record is a line: what is quoted may hold the delimiter, but no line's end.
 *
 * @throws CliError when no column is a time, or one that `--columns` names is not there
 */
export function csv(options: FormatOptions, firstLine: string): Read {
  const head = headOf(firstLine, options.columns);
  if (!head) throw noHead(firstLine);
  checkNames(firstLine, head.delimiter, options.columns);
  const request = requestsOf(options, false);
  return (lines) =>
    recordsOf(lines, head.delimiter).map((record): PastRequest | undefined => {
      const entry = record && entryOf(record, head, options.pool);
      return entry && request(entry);
    });
}

function noHead(line: string): CliError {
  return new CliError(
    "TIDEGATE_CLI_COLUMNS",
    `No column of the first line is known to hold a time: name it, as in --columns at=timestamp,address=ip. The line: ${plain(line, 200)}`,
  );
}

function checkNames(line: string, delimiter: string, columns: Columns): void {
  const names = recordOf(line, delimiter)?.map((name) => name.trim()) ?? [];
  for (const [field, name] of Object.entries(columns))
    if (!names.includes(name))
      throw new CliError(
        "TIDEGATE_CLI_COLUMNS",
        `--columns ${field}=${plain(name, 80)}: there is no such column. There are: ${plain(names.join(", "), 400)}.`,
      );
}

function entryOf(record: readonly string[], { places, headers }: Head, pool: Pool): Entry | undefined {
  const named: Record<string, string> = {};
  for (const [header, place] of headers) {
    const text = textOf(record[place]);
    if (text !== undefined) named[header] = pool.own(text);
  }
  return entryOfCells((field) => record[places.get(field) ?? -1], named);
}

/** Each line's record. One that is none must not take its neighbours along, as a quote without an end does. */
function recordsOf(lines: readonly string[], delimiter: string): (string[] | undefined)[] {
  const together = lines.some((line) => line === "") ? undefined : recordsIn(lines.join("\n"), delimiter);
  if (together?.length === lines.length) return together;
  return lines.map((line) => recordOf(line, delimiter));
}

function recordOf(line: string, delimiter: string): string[] | undefined {
  const records = recordsIn(line, delimiter);
  return records?.length === 1 ? records[0] : undefined;
}

function recordsIn(text: string, delimiter: string): string[][] | undefined {
  try {
    return parse(text, { delimiter, record_delimiter: "\n", relax_column_count: true });
  } catch {
    return undefined;
  }
}
