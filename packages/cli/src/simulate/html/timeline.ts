import type { Timeline } from "@tidegate/core/simulate";
import { scaleLinear, scaleUtc } from "d3-scale";
import { area, curveStepAfter, stack } from "d3-shape";
import { moment, span, whole } from "../numbers.ts";
import { HEIGHT, path, plotOf, type Tick, WIDTH } from "./plot.ts";
import { type Cell, tableOf } from "./table.ts";

/** Admitted and refused, one on the other. */
export function totalsPlot({ timeline }: { readonly timeline: Timeline }): string {
  const { admitted, refused, stepMs } = timeline;
  return stacked(
    `Requests over time, ${span(stepMs)} each: admitted, and refused on top`,
    timeline,
    [
      { kind: "admitted", counts: admitted },
      { kind: "refused", counts: refused },
    ],
    14,
  );
}

/** What one policy refused. */
export function refusalsPlot(name: string, counts: readonly number[], timeline: Timeline): string {
  return stacked(`Requests that ${name} refused over time`, timeline, [{ kind: "refused", counts }], 6);
}

export function totalsTable({ start, stepMs, admitted, refused }: Timeline): string {
  const rows = admitted.map((count, i): Cell[] => [
    moment(start + i * stepMs),
    whole(count),
    whole(refused[i] ?? 0),
  ]);
  return tableOf("Requests over time", ["from (UTC)", "admitted", "refused"], rows);
}

interface Layer {
  readonly kind: string;
  readonly counts: readonly number[];
}

function stacked(
  title: string,
  { start, stepMs, admitted }: Timeline,
  layers: readonly Layer[],
  rem: number,
): string {
  const steps = admitted.length;
  const rows = Array.from({ length: steps }, (_, i) => layers.map(({ counts }) => counts[i] ?? 0));
  const most = Math.max(1, ...rows.map((row) => row.reduce((sum, count) => sum + count, 0)));
  const x = scaleLinear([0, Math.max(1, steps)], [0, WIDTH]);
  const y = scaleLinear([0, most], [HEIGHT, 0]).nice(4);
  const shape = area<readonly [number, number]>()
    .x((_, i) => x(i))
    .y0(([low]) => y(low))
    .y1(([, high]) => y(high))
    .curve(curveStepAfter)
    .digits(2);
  const stacks = stack<number[], number>()
    .keys(layers.map((_, i) => i))
    .value((row, key) => row[key] ?? 0)(rows);
  const shapes = stacks.map((points, i) => {
    const spans = points.map((point) => [point[0], point[1]] as const);
    // A step lasts until the next begins: the last one as well.
    const last = spans.at(-1);
    return path(layers[i]!.kind, shape(last ? [...spans, last] : spans));
  });
  return plotOf({ title, shapes, x: times(start, start + steps * stepMs), y: counts(y, rem), rem });
}

function counts(y: ReturnType<typeof scaleLinear<number, number>>, rem: number): Tick[] {
  const ticks = y.ticks(rem > 8 ? 5 : 3).filter(Number.isInteger);
  return ticks.map((value) => ({ at: y(value) / HEIGHT, text: whole(value) }));
}

const DAY_MS = 86_400_000;

function times(start: number, end: number): Tick[] {
  const scale = scaleUtc([start, end], [0, 1]);
  const days = end - start > 2 * DAY_MS;
  const seconds = end - start < 10 * 60_000;
  return scale
    .ticks(6)
    .map((date) => ({ at: scale(date), text: textOf(date, days, seconds) }))
    .filter(({ at }) => at >= 0.02 && at <= 0.98);
}

function textOf(date: Date, days: boolean, seconds: boolean): string {
  const iso = date.toISOString();
  if (days && date.getTime() % DAY_MS === 0) return iso.slice(5, 10);
  return days ? `${iso.slice(5, 10)} ${iso.slice(11, 16)}` : iso.slice(11, seconds ? 19 : 16);
}
