import type { SimulationReport } from "@tidegate/core/simulate";
import type { FormatName } from "./logs/format.ts";
import type { FileReport } from "./logs/source.ts";

/** What `--json` prints: the report, and what was read for it. */
export interface SimulateResult extends SimulationReport {
  /** How the files are written; `mixed` when they differ, null when they have no lines. */
  readonly format: FormatName | "mixed" | null;
  /** Of all files, without those that are empty and the names of columns. */
  readonly lines: number;
  /** Lines that hold no request. */
  readonly broken: number;
  /** Requests before `--since` or from `--until` on. */
  readonly leftOut: number;
  readonly files: readonly FileReport[];
}

export function formatOf(files: readonly FileReport[]): SimulateResult["format"] {
  const formats = new Set(files.map(({ format }) => format).filter((format) => format !== null));
  if (formats.size > 1) return "mixed";
  return [...formats][0] ?? null;
}

/** What a reader has to know of the files, a sentence each. File names are as they were given. */
export function remarksOf({ files, format, requests }: SimulateResult): string[] {
  const stopped = files
    .filter(({ problem }) => problem !== null)
    .map(({ file, problem }) => `${file} was not read to its end: ${problem}. What came before counts.`);
  const empty = requests === 0 ? ["There was no request to simulate."] : [];
  return [
    ...stopped,
    ...(format === "mixed" ? ["The files are written in different formats."] : []),
    ...empty,
  ];
}
