import { Command } from "commander";
import { knownAs } from "../counted.ts";
import { type Explained, explained, type Explanation, type Standing } from "../explain/explain.ts";
import type { Io } from "../io.ts";
import { plain } from "../plain.ts";
import { readPolicies } from "../policies.ts";
import { reach, type RedisFlags, targetOf, withRedis } from "../redis.ts";
import { numberText, spanText, timeText } from "../times.ts";
import { IDENTITY_HELP } from "../who.ts";
import { blockLines } from "../explain/blocked.ts";
import { peopleIn } from "../people.ts";

interface Flags extends RedisFlags {
  readonly policy: string;
  readonly route?: string;
  readonly json?: boolean;
}

/** `tidegate explain`: why somebody is refused, and until when. */
export function explainCommand(io: Io): Command {
  const command = new Command("explain")
    .summary("why somebody is refused, or how much they have left")
    .description(
      "Tells of somebody what every policy of a file has counted, what is left and until when, whether they are blocked and why, and the header fields of the answer to their next request. It charges nothing and writes no key.",
    )
    .argument("<identity...>", "who; several are one request of theirs, such as user:42 ip:203.0.113.7")
    .requiredOption("-p, --policy <file>", "the policy file")
    .option(
      "--route <name>",
      'tell of this route alone: as the file names it, or as the framework does, "GET /users/:id"',
    )
    .option("--json", "write one JSON document");
  return withRedis(command)
    .addHelpText("after", IDENTITY_HELP)
    .addHelpText("after", EXAMPLES)
    .action((identities: string[], flags: Flags) => explain(io, identities, flags));
}

const EXAMPLES = `
Examples:
  tidegate explain user:42 --policy limits.yaml
  tidegate explain user:42 ip:203.0.113.7 --policy limits.yaml --redis rediss://redis.internal:6380
  tidegate explain 'rl:{key:zAVvCDZnRxoHbEkVb7fY4g}:burst:tb' --policy limits.yaml --json
  printf %s "$API_KEY" | tidegate explain key:- --policy limits.yaml

Exit codes:
  0  it is told, refused or not: with --json, plans[].answer says which
  2  nobody is counted by that name, the policy file is wrong, or the server does not answer`;

async function explain(io: Io, identities: readonly string[], flags: Flags): Promise<void> {
  const given = await peopleIn(io, identities);
  const file = readPolicies(io, flags.policy, flags.prefix);
  const people = given.map((somebody) => knownAs(file.config, somebody));
  const target = targetOf(io, flags);
  if (flags.route !== undefined && file.config.routes?.[flags.route] === false)
    return notLimited(io, flags.route, flags.json);
  const { client } = await reach(io, target, flags);
  try {
    const found = await explained(file, people, client, flags.route);
    if (flags.json) return io.json(documentOf(found, people, target.where, file.config.prefix ?? "rl"));
    draw(io, found, { who: people.map(({ told }) => told).join(" "), where: target.where });
  } finally {
    client.disconnect();
  }
}

function notLimited(io: Io, route: string, json: boolean | undefined): void {
  if (json) io.json({ plans: [{ route, answer: "skip" }] });
  else io.print(`${plain(route)} is not limited: the file says so.`);
}

const documentOf = (
  { at, blocks, ...rest }: Explanation,
  people: Awaited<ReturnType<typeof peopleIn>>,
  redis: string,
  prefix: string,
) => ({
  identities: people.map(({ identity: { kind, value } }) => `${kind}:${value}`),
  redis,
  prefix,
  at,
  blocks: blocks.map(({ key, reason, until }) => ({ key, reason, until: until ?? null })),
  ...rest,
});

function draw(
  io: Io,
  found: Explanation,
  { who, where }: { readonly who: string; readonly where: string },
): void {
  const { colour } = io;
  io.print(`${colour.bold(who)} at ${timeText(found.at)}, ${where}`, "", ...summary(io, found), "");
  const shown = new Set<string>();
  const rows = found.plans.flatMap((plan) => rowsOf(io, plan, shown));
  const head = ["policy", "counts", "limit", "used", "left", "next unit back", "all again", ""];
  if (rows.length > 0) io.print(io.table(head, rows), "");
  for (const plan of distinct(found.plans)) io.print(...answerLines(io, plan, found.plans.length > 1), "");
  const others = new Set(found.plans.flatMap(({ leftOut }) => leftOut));
  if (others.size > 0)
    io.print(
      colour.dim(
        `Not told of, as they count by something else: ${[...others].map((name) => plain(name)).join(", ")}. Name that too, and the fields are whole.`,
      ),
    );
}

/** The sentence that was asked for. */
function summary(io: Io, found: Explanation): string[] {
  const { colour } = io;
  const { at, blocks, heedsBlocks, denied, plans } = found;
  const blocked = blockLines(io, found);
  if (denied) return [...blocked, colour.red("Refused: the address is on the file's deny list.")];
  if (heedsBlocks && blocks.length > 0) return blocked;
  const answers = plans.flatMap((plan) => answerLine(io, plan, at) ?? []);
  return [
    ...blocked,
    ...(answers.length > 0 ? answers : [colour.green("Not refused: the next request passes.")]),
  ];
}

/** @param at ms since 1970 */
function answerLine({ colour }: Io, plan: Explained, at: number): string | undefined {
  const { answer, route, refusedBy, retryAfterMs } = plan;
  const place = route === null ? "" : ` on ${plain(route)}`;
  if (answer === "pass") return undefined;
  if (answer === "skip") return colour.green(`Not limited${place}: the address is on the file's allow list.`);
  const names = refusedBy.map((name) => plain(name)).join(", ");
  return colour.red(`Refused${place} by ${names}, ${untilText(at, retryAfterMs)}.`);
}

function untilText(at: number, waitMs: number | null): string {
  if (waitMs === null) return "and no wait is known to help";
  return `until ${timeText(at + waitMs)} (${spanText(waitMs)})`;
}

/** Each key is told of once, however many routes count by it. */
function rowsOf(io: Io, { route, policies }: Explained, shown: Set<string>): string[][] {
  return policies.flatMap((standing) => {
    const seen = standing.key ?? `${route} ${standing.policy}`;
    if (shown.has(seen)) return [];
    shown.add(seen);
    const name = route === null ? standing.policy : `${standing.policy} (${route})`;
    return [[plain(name), plain(standing.identity ?? ""), ...cells(io, standing)]];
  });
}

function cells({ colour }: Io, standing: Standing): string[] {
  const { used, remaining, nextMs, fullMs, allowed, shadow, reason } = standing;
  if (remaining === null || used === null)
    return [limitText(standing), "", "", "", "", "counted in each process"];
  const state = allowed
    ? ""
    : shadow
      ? colour.yellow("would refuse (on trial)")
      : colour.red(reason === "never" ? "refuses: costs too much" : "refuses");
  return [
    limitText(standing),
    numberText(used),
    numberText(remaining),
    nextMs === null ? "" : nextMs === 0 ? "now" : `in ${spanText(nextMs)}`,
    fullMs === 0 || fullMs === null ? "now" : `in ${spanText(fullMs)}`,
    [state, standing.shards > 1 ? `one of ${standing.shards} shards` : ""].filter(Boolean).join(", "),
  ];
}

/** `100 per 1 min`; of a bucket, what it holds and how long that takes to flow in. */
export function limitText({
  limit,
  windowMs,
  algorithm,
  unit,
}: Pick<Standing, "limit" | "windowMs" | "algorithm" | "unit">): string {
  const units = unit === "content-bytes" ? " bytes" : "";
  if (windowMs === null) return `${numberText(limit)} in flight`;
  const bucket = algorithm === "tokenBucket" || algorithm === "gcra";
  return `${numberText(limit)}${units}${bucket ? ", refilled in" : " per"} ${spanText(windowMs)}`;
}

/** Of plans with the same answer, the first. */
function distinct(plans: readonly Explained[]): Explained[] {
  const answers = new Set<string>();
  return plans.filter(({ answer, headers }) => {
    const text = JSON.stringify([answer, headers]);
    return !answers.has(text) && answers.add(text);
  });
}

function answerLines(
  { colour }: Io,
  { route, status, answer, headers }: Explained,
  several: boolean,
): string[] {
  if (answer === "skip") return [];
  const place = !several ? "" : route === null ? " where no route says otherwise" : ` on ${plain(route)}`;
  const what = status === null ? "passes and is answered with" : `is refused (${status}) with`;
  const fields = Object.entries(headers).map(([name, value]) => `  ${colour.cyan(name)}: ${plain(value)}`);
  return [`The next request${place} ${what}`, ...fields];
}
