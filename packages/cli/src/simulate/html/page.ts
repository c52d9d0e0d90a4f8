import type { PolicyReport } from "@tidegate/core/simulate";
import { lasting, moment, percent, shareOf, span, whole } from "../numbers.ts";
import { remarksOf, type SimulateResult } from "../result.ts";
import { aloneText, promiseOf } from "../text.ts";
import { curvePlot, curveTable } from "./curve.ts";
import { escaped, scriptJson } from "./escape.ts";
import { STYLE } from "./style.ts";
import { plainTable, tableOf } from "./table.ts";
import { refusalsPlot, totalsPlot, totalsTable } from "./timeline.ts";
import { topBars, topTable } from "./top.ts";

/** Nothing is fetched and nothing runs, whatever stands in a log. */
const CONTENT = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/**
 * The report as a page that is whole in itself: no script, no network. The numbers stand in it as JSON as well, in the
 * element `report`.
 *
 * @param policyFile what it is called
 */
export function htmlOf(result: SimulateResult, policyFile: string): string {
  return [
    '<!doctype html><html lang="en"><head><meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${CONTENT}">`,
    '<meta name="viewport" content="width=device-width,initial-scale=1">',
    '<meta name="referrer" content="no-referrer">',
    `<title>${escaped(policyFile)}: what these limits would have done</title>`,
    `<style>${STYLE}</style></head><body><main>`,
    head(result, policyFile),
    tiles(result),
    notes(result),
    overTime(result),
    ...result.policies.map((policy) => section(policy, result)),
    files(result),
    '<footer class="soft small">Made by tidegate simulate. Times are UTC.</footer>',
    `</main><script type="application/json" id="report">${scriptJson(result)}</script></body></html>\n`,
  ].join("\n");
}

function head({ from, to, requests, files }: SimulateResult, policyFile: string): string {
  const names = files.length > 3 ? `${whole(files.length)} files` : files.map(({ file }) => file).join(", ");
  const when =
    from === null || to === null
      ? "No request"
      : `${whole(requests)} requests, ${moment(from)} to ${moment(to)} (${lasting(to - from)})`;
  return `<header><h1>What these limits would have done</h1><p class="soft"><code>${escaped(policyFile)}</code> on <code>${escaped(names)}</code></p><p class="soft">${escaped(when)}</p></header>`;
}

function tiles({
  requests,
  admitted,
  refused,
  notLimited,
  identities,
  identitiesRefused,
}: SimulateResult): string {
  const limited = admitted + refused;
  const all: [id: string, name: string, value: number, more: string][] = [
    ["admitted", "admitted", admitted, `${percent(shareOf(admitted, limited))} of requests`],
    ["refused", "refused", refused, `${percent(shareOf(refused, limited))} of requests`],
    ["identities", "clients", identities, "different ones"],
    [
      "identities-refused",
      "clients refused",
      identitiesRefused,
      `${percent(shareOf(identitiesRefused, identities))}, at least once`,
    ],
  ];
  if (notLimited > 0)
    all.push(["not-limited", "not limited", notLimited, `${percent(shareOf(notLimited, requests))} of all`]);
  const shown = all.map(
    ([id, name, value, more]) =>
      `<div><dt>${name}</dt><dd><span id="${id}">${whole(value)}</span><small>${more}</small></dd></div>`,
  );
  return `<dl class="tiles">${shown.join("")}</dl>`;
}

function notes(result: SimulateResult): string {
  const all = [...remarksOf(result), ...result.warnings];
  if (all.length === 0) return "";
  return `<div class="notes" role="note">${all.map((note) => `<p>${escaped(note)}</p>`).join("")}</div>`;
}

function overTime(result: SimulateResult): string {
  if (result.timeline.admitted.length === 0) return "";
  return [
    `<section aria-labelledby="time"><h2 id="time">Over time</h2>`,
    `<p class="soft small">Requests in each ${span(result.timeline.stepMs)}</p>`,
    key(["", "admitted"], ["stop", "refused"]),
    totalsPlot(result),
    totalsTable(result.timeline),
    "</section>",
  ].join("");
}

const key = (...entries: readonly (readonly [kind: string, text: string])[]): string =>
  `<ul class="key">${entries.map(([kind, text]) => `<li><i class="${kind}"></i>${text}</li>`).join("")}</ul>`;

function section(policy: PolicyReport, { timeline, policies }: SimulateResult): string {
  const id = `policy-${policies.indexOf(policy)}`;
  const name = policy.route === undefined ? policy.name : `${policy.name} on ${policy.route}`;
  const trial = policy.shadow ? '<span class="tag">on trial</span>' : "";
  const when = policy.refused > 0 ? overTimeOf(name, policy, timeline) : "";
  return [
    `<section aria-labelledby="${id}" class="policy"><h2 id="${id}">${escaped(name)}${trial}</h2>`,
    `<p class="soft">${escaped(promiseOf(policy))}</p>`,
    `<p>${sentence(policy)}</p>`,
    when,
    `<div class="two"><div>${curvePart(policy, policies)}</div><div>${topPart(policy)}</div></div>`,
    "</section>",
  ].join("");
}

function sentence(policy: PolicyReport): string {
  const { shadow, requests, refused, identities, identitiesRefused, peak } = policy;
  const verb = shadow ? "Would refuse" : "Refuses";
  const most = peak
    ? ` The most that one client asked within one window: <b>${whole(peak.units)}</b>, by <code>${escaped(peak.identity)}</code> at ${moment(peak.at)}.`
    : "";
  return `${verb} <b>${whole(refused)}</b> of ${whole(requests)} requests (${percent(shareOf(refused, requests))}) and <b>${whole(identitiesRefused)}</b> of ${whole(identities)} clients (${percent(shareOf(identitiesRefused, identities))}).${most}`;
}

function overTimeOf(
  name: string,
  { timeline: counts }: PolicyReport,
  timeline: SimulateResult["timeline"],
): string {
  const rows = counts.map((count, i) => [moment(timeline.start + i * timeline.stepMs), whole(count)]);
  return [
    "<h3>Refused over time</h3>",
    refusalsPlot(name, counts, timeline),
    tableOf(
      "Refused over time",
      ["from (UTC)", "refused"],
      rows.filter((_, i) => counts[i] !== 0),
    ),
  ].join("");
}

function curvePart(policy: PolicyReport, policies: readonly PolicyReport[]): string {
  const { curve, suggestions } = policy;
  const alone = aloneText(policy, policies);
  if (!curve || curve.length === 0) return "";
  const rows = (suggestions ?? []).map(({ share, limit, requestsRefused }) => [
    percent(share),
    whole(limit),
    percent(requestsRefused),
  ]);
  return [
    "<h3>With other limits</h3>",
    alone === "" ? "" : `<p class="soft small alone">${alone[0]!.toUpperCase()}${alone.slice(1)}.</p>`,
    key(
      ["curve", "clients refused at least once"],
      ["dash", "requests refused"],
      ["own", "this limit"],
      ["dot", "suggested"],
    ),
    curvePlot(policy),
    rows.length === 0
      ? ""
      : plainTable(
          "Suggested: the least limit that ever refuses at most this share of clients",
          ["clients", "limit", "requests refused"],
          rows,
        ),
    curveTable(policy),
  ].join("");
}

function topPart(policy: PolicyReport): string {
  if (policy.top.length === 0) return "";
  const title = policy.refused === 0 ? "Who asked most" : "Who was refused most";
  return `<h3>${title}</h3>${key(["", "let in"], ["stop", "refused"])}${topBars(policy)}${topTable(policy, title)}`;
}

function files({ files, broken, lines }: SimulateResult): string {
  const rows = files.map(({ file, format, lines, broken, outOfOrder }) => [
    file,
    format ?? "",
    whole(lines),
    whole(broken),
    whole(outOfOrder),
  ]);
  const bad = files.flatMap(({ file, firstBroken }) =>
    firstBroken.map(({ line, why, text }) => [`${file}:${line}`, why, text]),
  );
  return [
    '<section aria-labelledby="files"><h2 id="files">What was read</h2>',
    `<p>${whole(lines)} lines; ${whole(broken)} of them hold no request that can be read.</p>`,
    tableOf("Files", ["file", "format", "lines", "broken", "out of order"], rows),
    bad.length === 0 ? "" : tableOf("The first broken lines", ["line", "why", "begins with"], bad),
    "</section>",
  ].join("");
}
