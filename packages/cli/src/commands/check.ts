import { Command } from "commander";
import type { By, Config, FailureRule, Policy } from "@tidegate/core";
import { isFileProblem, problemDocument, problemLines } from "../file-problems.ts";
import type { Io } from "../io.ts";
import { plain } from "../plain.ts";
import { type PolicyFile, policiesIn, readPolicies } from "../policies.ts";
import { type Counts, countsOf, countsText } from "../counted.ts";
import { limitText } from "./explain.ts";

interface Flags {
  readonly json?: boolean;
}

/** `tidegate check`: whether a policy file is right. */
export function checkCommand(io: Io): Command {
  return new Command("check")
    .summary("whether a policy file is right")
    .description(
      "Reads a policy file as an application does. What is wrong is told with file, line and column; of a file that is right, its policies and routes.",
    )
    .argument("<file>", "YAML or JSON")
    .option("--json", "write one JSON document")
    .addHelpText("after", EXAMPLES)
    .action((file: string, flags: Flags) => check(io, file, flags));
}

const EXAMPLES = `
Examples:
  tidegate check limits.yaml
  tidegate check limits.yaml --json | jq '.problems[] | {line, column, message}'

Exit codes:
  0  the file is right
  1  it is wrong
  2  it cannot be read`;

function check(io: Io, name: string, { json }: Flags): void {
  let file: PolicyFile;
  try {
    file = readPolicies(io, name);
  } catch (error) {
    // What cannot be read is no file that is wrong.
    if (!isFileProblem(error) || error.code === "TIDEGATE_FILE_UNREADABLE") throw error;
    io.exitCode = 1;
    if (json) return io.json({ file: name, ok: false, problems: problemDocument(error) });
    return io.print(...problemLines(error, io.colour));
  }
  const lines = linesOf(file.config);
  if (json) return io.json({ file: name, ok: true, policies: lines });
  draw(io, file, lines);
}

/** A policy where it stands. */
interface Line {
  /** `null`: where no route says otherwise. */
  readonly route: string | null;
  /** `null`: the route is not limited, or has what holds without it. */
  readonly policy: string | null;
  readonly algorithm: string | null;
  readonly limit: number | null;
  readonly windowMs: number | null;
  readonly unit: string | null;
  /** `null`: the file leaves it to the application, which counts by address if it says nothing. */
  readonly counts: Counts | null;
  readonly mode: string | null;
  readonly scope: string | null;
  readonly onFailure: string | null;
}

const NOTHING = {
  algorithm: null,
  limit: null,
  windowMs: null,
  unit: null,
  counts: null,
  mode: null,
  scope: null,
  onFailure: null,
};

function linesOf(config: Config): Line[] {
  const onRoutes = Object.entries(config.routes ?? {}).flatMap(([route, override]): Line[] => {
    const own = override === false ? undefined : policiesIn(override);
    if (override === false || !own)
      return [{ route, policy: null, ...NOTHING, mode: override === false ? "off" : null }];
    return partLines(route, own, { ...config, ...override });
  });
  return [...partLines(null, policiesIn(config) ?? {}, config), ...onRoutes];
}

const partLines = (
  route: string | null,
  policies: Readonly<Record<string, Policy>>,
  { by, mode, onFailure }: { by?: By; mode?: string; onFailure?: FailureRule },
): Line[] =>
  Object.entries(policies).map(([name, policy]) => ({
    route,
    policy: name,
    algorithm: policy.algorithm.name,
    limit: policy.limit,
    windowMs: policy.windowMs ?? null,
    unit: policy.unit,
    counts: countsOf(policy.by ?? by) ?? null,
    mode: mode ?? policy.mode,
    scope: policy.scope,
    onFailure: ruleText(policy.onFailure ?? onFailure ?? "open"),
  }));

const ruleText = (rule: FailureRule): string => (typeof rule === "string" ? rule : "local");

function draw(io: Io, { name, config }: PolicyFile, lines: readonly Line[]): void {
  const { colour } = io;
  const policies = lines.filter(({ policy }) => policy !== null).length;
  const routes = Object.keys(config.routes ?? {}).length;
  io.print(
    `${colour.green(`${name} is right`)}: ${count(policies, "policy", "policies")}, ${count(routes, "route", "routes")}.`,
    "",
  );
  const rows = lines.map((line) => [
    plain(line.route ?? "everywhere"),
    line.policy === null ? (line.mode === "off" ? "not limited" : "as everywhere") : plain(line.policy),
    line.algorithm ?? "",
    line.limit === null || line.algorithm === null
      ? ""
      : limitText({ ...line, limit: line.limit, algorithm: line.algorithm, unit: line.unit ?? "" }),
    line.policy === null ? "" : countsText(line.counts ?? undefined),
    line.policy !== null && line.mode === "shadow" ? "on trial" : "",
    line.onFailure ?? "",
  ]);
  io.print(io.table(["where", "policy", "algorithm", "limit", "counts", "", "without Redis"], rows));
}

const count = (n: number, one: string, several: string): string => `${n} ${n === 1 ? one : several}`;
