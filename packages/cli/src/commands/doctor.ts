import { Command, InvalidArgumentError } from "commander";
import type { Cluster, Redis } from "ioredis";
import { type Config, doctor as examine, type DoctorReport, type Finding, type Level } from "@tidegate/core";
import type { Colour, Io } from "../io.ts";
import { plain } from "../plain.ts";
import { readPolicies } from "../policies.ts";
import {
  clusterOf,
  connected,
  type RedisFlags,
  serverOf,
  targetOf,
  type Target,
  withRedis,
} from "../redis.ts";
import { numberText } from "../times.ts";

interface Flags extends RedisFlags {
  readonly policy?: string;
  readonly keys: number;
  readonly verbose?: boolean;
  readonly json?: boolean;
}

/** `tidegate doctor`: whether a Redis is fit for limits. */
export function doctorCommand(io: Io): Command {
  const command = new Command("doctor")
    .summary("whether a Redis is fit for limits")
    .description(
      "Asks a Redis or Valkey server, or every primary of a Cluster, whether limits can be kept on it: version, rights of the user, eviction, clock, latency, Cluster, scripts, and keys that do not expire. Each finding says what to change. It writes no key.",
    )
    .option(
      "-p, --policy <file>",
      "a policy file: its prefix, and keys that none of its policies would have left are found",
    )
    .option(
      "--keys <number>",
      "how many keys under the prefix to look at, in each server",
      wholeNumber,
      10_000,
    )
    .option("-v, --verbose", "tell what is well, too")
    .option("--json", "write one JSON document");
  return withRedis(command)
    .addHelpText("after", EXAMPLES)
    .action((flags: Flags) => doctor(io, flags));
}

const EXAMPLES = `
Examples:
  tidegate doctor --redis redis://localhost:6379
  REDIS_URL=rediss://tidegate:secret@redis.internal:6380 tidegate doctor --policy limits.yaml
  tidegate doctor --redis redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/mymaster
  tidegate doctor --json | jq '.findings[] | select(.level == "must")'

Exit codes:
  0  nothing must be changed
  1  something must be changed
  2  the server does not answer, or lets nobody in`;

function wholeNumber(text: string): number {
  const n = Number(text);
  if (!/^\d+$/.test(text) || n > 1_000_000)
    throw new InvalidArgumentError("Give a whole number from 0 to 1000000.");
  return n;
}

async function doctor(io: Io, flags: Flags): Promise<void> {
  const file = flags.policy === undefined ? undefined : readPolicies(io, flags.policy, flags.prefix);
  const config: Partial<Config> = file?.config ?? {};
  const target = targetOf(io, flags);
  const prefix = flags.prefix === undefined ? {} : { prefix: flags.prefix };
  const looking = withClient(target, flags, (client) =>
    examine({ ...config, ...prefix, redis: client, keys: flags.keys }),
  );
  const report = await watched(io, `looking at ${target.where}`, looking);
  io.exitCode = wasSeen(report) ? (report.ok ? 0 : 1) : 2;
  const told = { redis: target.where, prefix: flags.prefix ?? config.prefix ?? "rl" };
  if (flags.json) io.json({ ...told, ...report });
  else draw(io, report, { where: target.where, prefix: told.prefix, verbose: flags.verbose === true });
}

async function withClient<T>(
  target: Target,
  flags: RedisFlags,
  act: (client: Redis | Cluster) => Promise<T>,
): Promise<T> {
  const client = await clientFor(target, flags);
  try {
    return await act(client);
  } finally {
    client.disconnect();
  }
}

const LOOK_MS = 250;

/** Tells how long a work takes that does not tell how far it is. */
async function watched<T>(io: Io, label: string, work: Promise<T>): Promise<T> {
  const bar = io.progress(undefined, label);
  const timer = setInterval(() => bar.update(0), LOOK_MS);
  try {
    return await work;
  } finally {
    clearInterval(timer);
    bar.stop();
  }
}

/** A client of the right kind. It need not be connected: the doctor makes a connection of its own, and says how that ends. */
async function clientFor(target: Target, { cluster }: RedisFlags) {
  const found = await connected(target, cluster === true);
  if (!("trouble" in found)) return found;
  return cluster ? clusterOf(target) : serverOf(target);
}

/** Whether any server let itself be looked at. */
const wasSeen = ({ servers }: DoctorReport): boolean =>
  servers.some(({ version, roundTripMs }) => version !== undefined || roundTripMs !== undefined);

interface Drawing {
  readonly where: string;
  readonly prefix: string;
  readonly verbose: boolean;
}

function draw(io: Io, { ok, findings, servers }: DoctorReport, { where, prefix, verbose }: Drawing): void {
  const { colour } = io;
  io.print(`${colour.bold(where)}, prefix ${plain(prefix)}`, "");
  if (servers.length > 0) io.print(io.table(SERVER_HEAD, servers.map(serverRow)), "");
  const shown = findings.filter(({ level }) => verbose || level !== "ok");
  const several = servers.length > 1;
  for (const finding of shown) io.print(...findingLines(io, finding, several), "");
  const counts = LEVELS.map(
    (level) => [level, findings.filter((each) => each.level === level).length] as const,
  );
  const told = counts.filter(([, n]) => n > 0).map(([level, n]) => countText(level, n));
  io.print(
    ok
      ? colour.green(`Nothing must be changed: ${told.join(", ")}.`)
      : colour.red(`Something must be changed: ${told.join(", ")}.`),
  );
}

const LEVELS: readonly Level[] = ["must", "warning", "notice", "ok"];

const NAMES: Readonly<Record<Level, string>> = {
  must: "must",
  warning: "warning",
  notice: "notice",
  ok: "well",
};

const countText = (level: Level, n: number): string => {
  const counted = level === "warning" || level === "notice";
  return `${n} ${NAMES[level]}${counted && n > 1 ? "s" : ""}`;
};

const SERVER_HEAD = ["server", "is", "round trip", "clock", "keys"];

const serverRow = ({
  address,
  name,
  version,
  roundTripMs,
  clockOffsetMs,
  keys,
}: DoctorReport["servers"][number]): string[] => [
  plain(address),
  plain([name, version].filter(Boolean).join(" ") || "unknown"),
  roundTripMs ? `${numberText(roundTripMs.p50)} ms, at most ${numberText(roundTripMs.max)} ms` : "unknown",
  clockOffsetMs === undefined ? "unknown" : offsetText(clockOffsetMs),
  keys === undefined ? "not looked at" : numberText(keys),
];

/** The server's clock against this machine's. */
function offsetText(ms: number): string {
  const rounded = Math.round(ms);
  if (rounded === 0) return "as here";
  return `${numberText(Math.abs(rounded))} ms ${rounded > 0 ? "ahead" : "behind"}`;
}

function findingLines(
  { colour }: Io,
  { level, code, server, message, advice }: Finding,
  several: boolean,
): string[] {
  const at = several && server !== undefined ? ` ${plain(server)}` : "";
  return [
    `${painted(level, colour)}${at}  ${plain(message)}`,
    ...(advice === undefined ? [] : [`  ${plain(advice)}`]),
    `  ${colour.dim(code)}`,
  ];
}

function painted(level: Level, colour: Colour): string {
  const paint = { must: colour.red, warning: colour.yellow, notice: colour.cyan, ok: colour.green }[level];
  return colour.bold(paint(NAMES[level]));
}
