import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { Command, Option } from "commander";
import { CliError } from "../errors.ts";
import type { Io } from "../io.ts";
import { plain } from "../plain.ts";
import { htmlOf } from "../simulate/html/page.ts";
import { DEFAULT_LIMITS } from "../simulate/logs/bytes.ts";
import { parseBelieved } from "../simulate/logs/client.ts";
import { parseColumns } from "../simulate/logs/columns.ts";
import { type FormatName, FORMATS } from "../simulate/logs/format.ts";
import { percent, shareOf } from "../simulate/numbers.ts";
import { parseShare, parseTime, parseWhole } from "../simulate/options.ts";
import type { SimulateResult } from "../simulate/result.ts";
import { type Router, ROUTERS } from "../simulate/routers.ts";
import { simulateLogs, type SimulateOptions } from "../simulate/run.ts";
import { textOf } from "../simulate/text.ts";

interface Flags {
  readonly policy: string;
  readonly format?: FormatName;
  readonly columns?: string;
  readonly times?: "start" | "end";
  readonly trustProxy?: string;
  readonly since?: string;
  readonly until?: string;
  readonly router: Router;
  readonly top: string;
  readonly curve: boolean;
  readonly html?: string;
  readonly json?: boolean;
  readonly failAbove?: string;
  readonly maxRatio: string;
  readonly maxBytes: string;
}

/** `tidegate simulate LOG… --policy FILE` */
export function simulateCommand(io: Io): Command {
  return new Command("simulate")
    .summary("what limits would have done to the traffic of a log")
    .description(
      "Replay access logs against a policy file: who would have been refused, when and how often, and what other limits would have done. Nothing is asked of Redis, and nothing leaves this machine.",
    )
    .argument(
      "<log...>",
      "files, gzip or not, put together in order of time; - is standard input. Common and Combined Log Format, JSON of nginx and of Caddy, CSV",
    )
    .requiredOption("-p, --policy <file>", "the policy file, YAML or JSON")
    .addOption(
      new Option("--format <format>", "how the logs are written; found out from their first lines").choices(
        FORMATS,
      ),
    )
    .option(
      "--columns <names>",
      "which columns of CSV or JSON hold what: at=timestamp,address=ip,url=path,durationMs=took,user=login,header.x-api-key=key",
    )
    .addOption(
      new Option(
        "--times <which>",
        "whether a log's times are those of requests' ends, from which the duration is taken; end, but start in CSV",
      ).choices(["start", "end"]),
    )
    .option(
      "--trust-proxy <whom>",
      "whom to believe about X-Forwarded-For: how many proxies, or networks (10.0.0.0/8,loopback); trustProxy of the policy file",
    )
    .option("--since <time>", "leave out what came before: 2026-11-29T13:00:00Z, 2026-11-29 (UTC)")
    .option("--until <time>", "leave out what came at this time or later")
    .addOption(
      new Option("--router <name>", "whose patterns the routes are").choices(ROUTERS).default("express"),
    )
    .option("--top <n>", "how many clients to name for each policy", "10")
    .option("--no-curve", "do not try other limits")
    .option("--html <file>", "write a page with pictures as well, whole in itself")
    .option("--json", "write the report as one JSON document")
    .option(
      "--fail-above <share>",
      "exit with 1 when more of the requests, or of the clients, are refused: 0.1% or 0.001",
    )
    .option("--max-ratio <n>", "stop reading a gzip file that grows by more", String(DEFAULT_LIMITS.ratio))
    .option(
      "--max-bytes <n>",
      "stop reading a file, unpacked, behind so many bytes",
      String(DEFAULT_LIMITS.bytes),
    )
    .addHelpText("after", EXAMPLES)
    .addHelpText("after", EXIT_CODES)
    .action((logs: string[], flags: Flags) => simulated(logs, flags, io));
}

const EXAMPLES = `
Examples:
  tidegate simulate access.log --policy limits.yaml
  tidegate simulate access.log access.log.1 access.log.2.gz --policy limits.yaml --html report.html
  journalctl -u caddy -o cat | tidegate simulate - --policy limits.yaml --since 2026-11-29
  tidegate simulate requests.csv --columns at=time,address=ip,user=login --policy limits.yaml
  tidegate simulate last-week.log.gz --policy limits.yaml --fail-above 0.1% --json > report.json`;

const EXIT_CODES = `
Exit codes:
  0  the report is written
  1  more is refused than --fail-above allows
  2  a file cannot be read, an option cannot work, or nothing was limited that --fail-above could look at`;

async function simulated(logs: string[], flags: Flags, io: Io): Promise<void> {
  // What is wrong with an option is told before an hour of log is read.
  const most = flags.failAbove === undefined ? undefined : parseShare(flags.failAbove);
  const options = optionsOf(onlyOnce(logs), flags);
  if (flags.html !== undefined) checkIsOther(flags.html, [...logs, flags.policy]);
  const result = await simulateLogs(options, io);
  if (flags.html !== undefined) await written(flags.html, htmlOf(result, flags.policy));
  if (flags.json) io.json(result);
  else io.print(textOf(result, io));
  if (most !== undefined) judge(result, most, io);
}

/** @throws CliError for the first that cannot work */
function optionsOf(logs: string[], flags: Flags): SimulateOptions {
  const { policy, format, columns, times, trustProxy, since, until, router, curve } = flags;
  return {
    logs,
    policy,
    format,
    columns: columns === undefined ? undefined : parseColumns(columns),
    timesAreEnds: times && times === "end",
    trustProxy: trustProxy === undefined ? undefined : parseBelieved(trustProxy),
    since: since === undefined ? undefined : parseTime("--since", since),
    until: until === undefined ? undefined : parseTime("--until", until),
    router,
    top: parseWhole("--top", flags.top, 0, 1000),
    curve,
    limits: {
      ratio: parseWhole("--max-ratio", flags.maxRatio, 1, 1e6),
      bytes: parseWhole("--max-bytes", flags.maxBytes, 1, 1e15),
    },
  };
}

function onlyOnce(logs: string[]): string[] {
  if (logs.filter((log) => log === "-").length > 1)
    throw new CliError("TIDEGATE_CLI_FILE", "Standard input can be read once: give one - only.");
  return logs;
}

/** A page must not take the place of what it tells about. */
function checkIsOther(page: string, others: readonly string[]): void {
  if (others.every((other) => resolve(other) !== resolve(page))) return;
  throw new CliError("TIDEGATE_CLI_FILE", `--html ${plain(page)}: it is read as well, give another file.`);
}

async function written(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text);
  } catch (error) {
    const { message } = error as Error;
    throw new CliError("TIDEGATE_CLI_FILE", `--html ${plain(file)}: ${plain(message)}`);
  }
}

/** Ends with 1 when more is refused, and with 2 when nothing was there to be refused. */
function judge(result: SimulateResult, most: number, io: Io): void {
  const { admitted, refused, identities, identitiesRefused } = result;
  const limited = admitted + refused;
  const [ofRequests, ofClients] = [shareOf(refused, limited), shareOf(identitiesRefused, identities)];
  if (limited === 0) {
    io.note(io.errorColour.red("--fail-above: no request was limited, so nothing is shown."));
    io.exitCode = 2;
  } else if (ofRequests > most || ofClients > most) {
    const shares = `${percent(ofRequests)} of the requests and ${percent(ofClients)} of the clients`;
    io.note(io.errorColour.red(`${shares} would be refused: more than ${percent(most)} of one of them.`));
    io.exitCode = 1;
  }
}
