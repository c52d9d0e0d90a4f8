/** Logs as `tidegate simulate` reads them. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { PastRequest } from "@tidegate/core/simulate";
import { DEFAULT_LIMITS } from "../../packages/cli/src/simulate/logs/bytes.ts";
import { unproxied } from "../../packages/cli/src/simulate/logs/client.ts";
import { merge } from "../../packages/cli/src/simulate/logs/merge.ts";
import { Pool } from "../../packages/cli/src/simulate/logs/pool.ts";
import {
  type FileReport,
  LogSource,
  type SourceOptions,
} from "../../packages/cli/src/simulate/logs/source.ts";

export const sample = (name: string): string => fileURLToPath(new URL(`samples/${name}`, import.meta.url));
export const sampleText = (name: string): string => readFileSync(sample(name), "utf8");

export interface ReadLog {
  /** Only what each says: nothing that is undefined. */
  readonly requests: PastRequest[];
  readonly reports: FileReport[];
}

type Pieces = string | Buffer | AsyncIterable<Buffer> | readonly Buffer[];

/** The requests of these files together, in the order in which they are replayed. */
export async function readLogs(
  files: readonly Pieces[],
  options: Partial<SourceOptions> = {},
): Promise<ReadLog> {
  const pool = new Pool();
  const sources = files.map(
    (pieces, i) =>
      new LogSource(
        { name: `file ${i}`, size: undefined, chunks: chunksOf(pieces) },
        { clientOf: unproxied, columns: {}, limits: DEFAULT_LIMITS, pool, ...options },
      ),
  );
  const requests: PastRequest[] = [];
  await merge(sources, (request) => requests.push(JSON.parse(JSON.stringify(request))));
  return { requests, reports: sources.map(({ report }) => report) };
}

export async function readLog(file: Pieces, options: Partial<SourceOptions> = {}) {
  const { requests, reports } = await readLogs([file], options);
  return { requests, report: reports[0]! };
}

async function* chunksOf(pieces: Pieces): AsyncGenerator<Buffer> {
  if (typeof pieces !== "string" && !Buffer.isBuffer(pieces)) return yield* pieces;
  const bytes = Buffer.from(pieces);
  for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
}

/** As much as a pipe hands on at once. */
const PIECE = 1 << 16;
