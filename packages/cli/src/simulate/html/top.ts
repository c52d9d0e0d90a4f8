import type { PolicyReport } from "@tidegate/core/simulate";
import { scaleLinear } from "d3-scale";
import { moment, whole } from "../numbers.ts";
import { escaped } from "./escape.ts";
import { short, WIDTH } from "./plot.ts";
import { tableOf } from "./table.ts";

/** A bar for each client: what it asked, and what of that was refused. */
export function topBars({ top }: PolicyReport): string {
  const x = scaleLinear([0, Math.max(1, ...top.map(({ requests }) => requests))], [0, WIDTH]);
  const bars = top.map(({ identity, requests, refused }) => {
    const [passed, all] = [x(requests - refused), x(requests)];
    const title = `${escaped(identity)}: ${whole(refused)} of ${whole(requests)} requests refused`;
    return [
      `<li><p><code>${escaped(identity)}</code><span>${whole(refused)} of ${whole(requests)}</span></p>`,
      `<svg viewBox="0 0 ${WIDTH} 10" preserveAspectRatio="none" role="img" aria-label="${title}"><title>${title}</title>`,
      `<rect class="rest" width="${short(passed)}" height="10"/>`,
      `<rect class="stopped" x="${short(passed)}" width="${short(all - passed)}" height="10"/></svg></li>`,
    ].join("");
  });
  return `<ol class="bars">${bars.join("")}</ol>`;
}

export function topTable({ top }: PolicyReport, title: string): string {
  const rows = top.map(({ identity, requests, refused, peak, firstRefusedAt, lastRefusedAt }) => [
    identity,
    whole(requests),
    whole(refused),
    whole(peak),
    firstRefusedAt === null ? "" : moment(firstRefusedAt),
    lastRefusedAt === null ? "" : moment(lastRefusedAt),
  ]);
  const head = ["client", "requests", "refused", "peak", "first refused (UTC)", "last refused (UTC)"];
  return tableOf(title, head, rows);
}
