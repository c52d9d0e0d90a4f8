import { type PolicyFileConfig, policiesFrom } from "@tidegate/policy-file";
import {
  createSimulation,
  type PastRequest,
  type Simulation,
  type SimulationReport,
} from "@tidegate/core/simulate";
import type { Io } from "../io.ts";
import { type Bytes, type Limits, openBytes } from "./logs/bytes.ts";
import { type Believed, clientBehind, type ClientOf, unproxied } from "./logs/client.ts";
import type { Columns } from "./logs/columns.ts";
import type { FormatName } from "./logs/format.ts";
import { merge } from "./logs/merge.ts";
import { Pool } from "./logs/pool.ts";
import { LogSource } from "./logs/source.ts";
import { formatOf, type SimulateResult } from "./result.ts";
import { patternsOf, type Router } from "./routers.ts";

export interface SimulateOptions {
  /** Paths; `-` is standard input. */
  readonly logs: readonly string[];
  /** Path of the policy file. */
  readonly policy: string;
  readonly format?: FormatName | undefined;
  readonly columns?: Columns | undefined;
  /** Whether the times in the logs are those of requests' ends; each format knows by default. */
  readonly timesAreEnds?: boolean | undefined;
  /** Instead of the policy file's `trustProxy`. */
  readonly trustProxy?: Believed | undefined;
  /** ms since 1970: requests from then on. */
  readonly since?: number | undefined;
  /** ms since 1970: requests before. */
  readonly until?: number | undefined;
  readonly router: Router;
  readonly top?: number | undefined;
  readonly curve?: boolean | undefined;
  readonly limits: Limits;
}

/**
 * Replays logs against a policy file.
 *
 * @throws PolicyFileError, ConfigError for a file that cannot work
 * @throws CliError for a log that is missing, or in no format that is known
 */
export async function simulateLogs(options: SimulateOptions, io: Io): Promise<SimulateResult> {
  const config = policiesFrom(options.policy);
  const simulation = createSimulation(config, {
    pattern: patternsOf(options.router),
    ...(options.top === undefined ? {} : { top: options.top }),
    ...(options.curve === undefined ? {} : { curve: options.curve }),
  });
  const files = await Promise.all(options.logs.map((file) => openBytes(file, io)));
  const clients = watched(clientOfAll(options, config));
  const sources = sourcesOf(files, options, clients.clientOf);
  const leftOut = await replay(sources, simulation, options, progressOf(files, sources, io));
  return resultOf(simulation, sources, leftOut, clients.warnings());
}

function clientOfAll({ trustProxy }: SimulateOptions, config: PolicyFileConfig): ClientOf | undefined {
  const believed = trustProxy ?? (config as { trustProxy?: Believed }).trustProxy;
  return believed === undefined ? undefined : clientBehind(believed);
}

/** Who the client is, and what was seen of proxies while that was found out. */
function watched(given: ClientOf | undefined): { clientOf: ClientOf; warnings: () => string[] } {
  if (given) return { clientOf: given, warnings: () => [] };
  let requests = 0;
  let forwarded = 0;
  return {
    clientOf(entry) {
      requests++;
      if (entry.forwarded !== undefined && entry.client === undefined) forwarded++;
      return unproxied(entry);
    },
    warnings: () =>
      forwarded > requests / 2
        ? [
            "Most lines have an X-Forwarded-For, and nobody is believed about it: clients are counted by the address that connected. Say which proxies to believe with --trust-proxy, or with trustProxy in the policy file.",
          ]
        : [],
  };
}

function sourcesOf(files: readonly Bytes[], options: SimulateOptions, clientOf: ClientOf): LogSource[] {
  const { columns = {}, format, timesAreEnds, limits } = options;
  const pool = new Pool();
  return files.map((file) => new LogSource(file, { clientOf, columns, pool, format, timesAreEnds, limits }));
}

/** @returns how many requests were left out */
async function replay(
  sources: readonly LogSource[],
  simulation: Simulation,
  { since = -Infinity, until = Infinity }: SimulateOptions,
  progress: { step: () => void; stop: () => void },
): Promise<number> {
  let leftOut = 0;
  const take = (request: PastRequest) => {
    if (request.at >= since && request.at < until) simulation.add(request);
    else leftOut++;
  };
  try {
    await merge(sources, take, progress.step);
  } finally {
    progress.stop();
    await Promise.all(sources.map((source) => source.close()));
  }
  return leftOut;
}

function progressOf(files: readonly Bytes[], sources: readonly LogSource[], io: Io) {
  const sizes = files.map(({ size }) => size);
  const total = sizes.reduce(
    (sum, size) => (sum === undefined || size === undefined ? undefined : sum + size),
    0,
  );
  const progress = io.progress(total);
  return {
    step: () => progress.update(sources.reduce((sum, { read }) => sum + read, 0)),
    stop: () => progress.stop(),
  };
}

/** How a log can be made to tell what it was asked for in vain. */
function columnsFor({ policies }: SimulationReport): string[] {
  const missing = [...new Set(policies.flatMap(({ neverFound }) => neverFound))];
  return missing.flatMap((field) => {
    const [place, name] = field.split(" ");
    if (place === "query") return [];
    if (place !== "header") return [`Name the column that holds a ${field} by --columns ${field}=….`];
    return [
      `Log the header ${name}, or a digest of it, in JSON or CSV, and name its column by --columns header.${name}=….`,
    ];
  });
}

function resultOf(
  simulation: Simulation,
  sources: readonly LogSource[],
  leftOut: number,
  warnings: readonly string[],
): SimulateResult {
  const files = sources.map(({ report }) => report);
  const report = simulation.report();
  return {
    ...report,
    warnings: [...report.warnings, ...columnsFor(report), ...warnings],
    format: formatOf(files),
    lines: files.reduce((sum, { lines }) => sum + lines, 0),
    broken: files.reduce((sum, { broken }) => sum + broken, 0),
    leftOut,
    files,
  };
}
