import type { CurvePoint, PolicyReport } from "@tidegate/core/simulate";
import type { Io } from "../io.ts";
import { plain } from "../plain.ts";
import { lasting, moment, percent, shareOf, span, whole } from "./numbers.ts";
import { remarksOf, type SimulateResult } from "./result.ts";

type Out = Pick<Io, "colour" | "table">;

/** The report for a terminal: totals, then each policy with who it refused and what other limits would do. */
export function textOf(result: SimulateResult, io: Out): string {
  const parts = [headOf(result), totalsOf(result, io), brokenOf(result, io)];
  parts.push(...result.policies.map((policy) => policyText(policy, result, io)));
  const notes = [...remarksOf(result), ...result.warnings];
  parts.push(notes.map((note) => `${io.colour.yellow("note")}  ${plain(note)}`).join("\n"));
  return parts.filter((part) => part !== "").join("\n\n");
}

function headOf({ from, to, requests, files, format }: SimulateResult): string {
  const names = files.length === 1 ? plain(files[0]!.file, 60) : `${whole(files.length)} files`;
  if (from === null || to === null) return `No requests in ${names}`;
  const times = `${moment(from)} to ${moment(to)} UTC (${lasting(to - from)})`;
  return `${whole(requests)} requests in ${names} (${format}), ${times}`;
}

function totalsOf(result: SimulateResult, io: Out): string {
  const { requests, admitted, refused, notLimited, identities, identitiesRefused } = result;
  const limited = admitted + refused;
  const rows: [string, string, string][] = [
    ["admitted", whole(admitted), percent(shareOf(admitted, limited))],
    ["refused", whole(refused), percent(shareOf(refused, limited))],
    ["clients", whole(identities), ""],
    ["clients refused", whole(identitiesRefused), percent(shareOf(identitiesRefused, identities))],
  ];
  if (notLimited > 0)
    rows.push(["not limited", whole(notLimited), `${percent(shareOf(notLimited, requests))} of all`]);
  if (result.leftOut > 0) rows.push(["left out", whole(result.leftOut), "by --since and --until"]);
  if (result.outOfOrder > 0) rows.push(["out of order", whole(result.outOfOrder), "decided late"]);
  return aligned(rows, io);
}

function brokenOf({ broken, lines, files }: SimulateResult, { colour }: Out): string {
  if (broken === 0) return "";
  const shown = files.flatMap(({ file, firstBroken }) => firstBroken.map((line) => ({ file, ...line })));
  const told = shown.slice(0, MOST_BROKEN).map(({ file, line, why, text }) => {
    const place = files.length === 1 ? `line ${line}` : `${plain(file, 60)}:${line}`;
    return `  ${place}, ${why}: ${colour.dim(text)}`;
  });
  return [`${whole(broken)} of ${whole(lines)} lines hold no request that can be read:`, ...told].join("\n");
}

const MOST_BROKEN = 5;

function policyText(policy: PolicyReport, { policies }: SimulateResult, io: Out): string {
  const { name, route, shadow, requests, refused, identities, identitiesRefused, peak } = policy;
  const title = [io.colour.bold(plain(name)), route && plain(route), promiseOf(policy), shadow && "on trial"];
  const verb = shadow ? "would refuse" : "refuses";
  const lines = [
    title.filter(Boolean).join("  "),
    `${verb} ${whole(refused)} of ${whole(requests)} requests (${percent(shareOf(refused, requests))}), ${whole(identitiesRefused)} of ${whole(identities)} clients (${percent(shareOf(identitiesRefused, identities))})`,
  ];
  if (peak) lines.push(`peak: ${whole(peak.units)} units of ${plain(peak.identity)} at ${moment(peak.at)}`);
  const curve = [aloneText(policy, policies), curveOf(policy, io)].filter((part) => part !== "").join("\n");
  return [lines.join("\n"), topOf(policy, io), curve, suggestionsOf(policy)]
    .filter((part) => part !== "")
    .join("\n\n");
}

/** What a curve leaves out: what other policies refuse is not charged to this one. Empty where there is no other, or no curve. */
export function aloneText(policy: PolicyReport, policies: readonly PolicyReport[]): string {
  const { curve, shadow, requests, refused } = policy;
  if (policies.length < 2 || !curve || curve.length === 0) return "";
  const verb = shadow ? "would refuse" : "refuses";
  return `this policy alone; beside the others it ${verb} ${percent(shareOf(refused, requests))} of requests`;
}

/** `slidingWindow, 100 in 1 min` */
export function promiseOf({ algorithm, limit, windowMs }: PolicyReport): string {
  const within = windowMs === null ? " at once" : ` in ${span(windowMs)}`;
  return `${algorithm}, ${whole(limit)}${within}`;
}

function topOf({ top }: PolicyReport, io: Out): string {
  if (top.length === 0) return "";
  return io.table(
    ["client", "requests", "refused", "peak", "first refused", "last refused"],
    top.map(({ identity, requests, refused, peak, firstRefusedAt, lastRefusedAt }) => [
      plain(identity),
      whole(requests),
      whole(refused),
      whole(peak),
      firstRefusedAt === null ? "" : moment(firstRefusedAt),
      lastRefusedAt === null ? "" : moment(lastRefusedAt),
    ]),
  );
}

const BAR = 24;
const MOST_ROWS = 12;

function curveOf(policy: PolicyReport, { colour }: Out): string {
  const { curve, limit } = policy;
  if (!curve || curve.length === 0) return "";
  const points = fewer(curve, limit);
  const most = Math.max(...points.map((point) => point.identitiesRefused));
  const rows = points.map((point) => {
    const own = point.limit === limit;
    const bar = barOf(shareOf(point.identitiesRefused, most));
    const cells = [whole(point.limit).padStart(9), bar, percent(point.identitiesRefused).padStart(9)];
    const line = `${cells.join("  ")}  ${percent(point.requestsRefused).padStart(9)}${own ? "  this limit" : ""}`;
    return own ? colour.bold(line) : line;
  });
  const head = `${"limit".padStart(9)}  ${"clients refused at least once".padEnd(BAR + 11)}  requests`;
  return [colour.bold(head), ...rows].join("\n");
}

const EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/** Of {@link BAR} columns. What is little is seen as little, and what is not nothing is seen. */
function barOf(share: number): string {
  const eighths = share === 0 ? 0 : Math.max(1, Math.round(share * BAR * 8));
  return ("█".repeat(eighths >> 3) + EIGHTHS[eighths & 7]!).padEnd(BAR);
}

/** Points over the whole curve, the own limit among them. */
function fewer(curve: readonly CurvePoint[], own: number): CurvePoint[] {
  const step = Math.max(1, Math.ceil((curve.length - 1) / (MOST_ROWS - 1)));
  return curve.filter((point, i) => i % step === 0 || i === curve.length - 1 || point.limit === own);
}

function suggestionsOf({ suggestions }: PolicyReport): string {
  if (!suggestions || suggestions.length === 0) return "";
  return suggestions
    .map(
      ({ share, limit, requestsRefused }) =>
        `a limit of ${whole(limit)} refuses at most ${percent(share)} of clients, and ${percent(requestsRefused)} of requests`,
    )
    .join("\n");
}

function aligned(rows: readonly [string, string, string][], { colour }: Out): string {
  const [first, second] = [0, 1].map((i) => Math.max(...rows.map((row) => row[i as 0].length)));
  return rows
    .map(([name, value, more]) =>
      `${colour.bold(name.padEnd(first!))}  ${value.padStart(second!)}  ${more}`.trimEnd(),
    )
    .join("\n");
}
