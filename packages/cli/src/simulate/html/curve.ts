import type { CurvePoint, PolicyReport } from "@tidegate/core/simulate";
import { scaleLog, scaleSqrt } from "d3-scale";
import { curveMonotoneX, line as lineOf } from "d3-shape";
import { percent, whole } from "../numbers.ts";
import { dot, HEIGHT, line, path, plotOf, type Tick, WIDTH } from "./plot.ts";
import { tableOf } from "./table.ts";

/** Shares that a reader looks for. */
const SHARES = [0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1];

/**
 * Limit against the share that it refuses. Small shares matter most: the scale upwards is that of square roots, the one
 * to the right that of multiples.
 */
export function curvePlot({ name, limit, curve, suggestions }: PolicyReport): string {
  if (!curve || curve.length === 0) return "";
  const scales = scalesOf(curve, limit);
  const { x, y } = scales;
  const marks = (suggestions ?? []).map((suggestion) => ({
    ...suggestion,
    refused: refusedAt(curve, suggestion.limit),
  }));
  const shapes = [
    line("own", x(limit), 0, x(limit), HEIGHT),
    curveThrough("requests", curve, scales, (point) => point.requestsRefused),
    curveThrough("clients", curve, scales, (point) => point.identitiesRefused),
    ...marks.flatMap((mark) => [
      dot("dot", x(mark.limit), y(mark.refused)),
      dot("hole", x(mark.limit), y(mark.refused)),
    ]),
  ];
  return plotOf({
    title: `Share of clients and of requests that ${name} would refuse with other limits`,
    shapes,
    x: limits(x),
    y: SHARES.filter((share) => isReadable(share, y.domain()[1]!)).map((share) => ({
      at: y(share) / HEIGHT,
      text: percent(share),
    })),
    above: [{ at: x(limit) / WIDTH, text: `this limit: ${whole(limit)}` }],
    rem: 14,
  });
}

export function curveTable({ curve }: PolicyReport): string {
  if (!curve || curve.length === 0) return "";
  const rows = curve.map((point) => [
    whole(point.limit),
    percent(point.identitiesRefused),
    percent(point.requestsRefused),
  ]);
  return tableOf("Other limits", ["limit", "clients refused", "requests refused"], rows);
}

function scalesOf(curve: readonly CurvePoint[], own: number) {
  const all = [own, ...curve.map(({ limit }) => limit)].map((limit) => Math.max(1, limit));
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const highest = Math.max(...curve.flatMap((point) => [point.identitiesRefused, point.requestsRefused]));
  return {
    // A scale of multiples begins at 1: there is no limit of 0 on it.
    x: scaleLog([least, Math.max(most, least + 1)], [0, WIDTH]).clamp(true),
    y: scaleSqrt([0, SHARES.find((share) => share >= Math.max(0.01, highest)) ?? 1], [HEIGHT, 0]).clamp(true),
  };
}

type Scales = ReturnType<typeof scalesOf>;

function curveThrough(
  kind: string,
  curve: readonly CurvePoint[],
  { x, y }: Scales,
  share: (point: CurvePoint) => number,
): string {
  const shape = lineOf<CurvePoint>()
    .x(({ limit }) => x(limit))
    .y((point) => y(share(point)))
    .curve(curveMonotoneX)
    .digits(2);
  return path(kind, shape([...curve].filter(({ limit }) => limit >= 1)));
}

/** Between two points that were tried, on the line between them. */
function refusedAt(curve: readonly CurvePoint[], limit: number): number {
  const after = curve.findIndex((point) => point.limit >= limit);
  const [a, b] = [curve[after - 1], curve[after]];
  if (!b) return curve.at(-1)?.identitiesRefused ?? 0;
  if (!a || b.limit === limit) return b.identitiesRefused;
  const way = (limit - a.limit) / (b.limit - a.limit);
  return a.identitiesRefused + way * (b.identitiesRefused - a.identitiesRefused);
}

/** A tenth of a percent and nothing would stand on one another where the scale goes up to all. */
const isReadable = (share: number, most: number): boolean =>
  share === 0 || (share <= most && Math.sqrt(share / most) > 0.075 && !(share === 0.1 && most > 0.2));

/** 1, 2, 5, 10, 20 …, but no more than a phone has room for. */
function limits(x: Scales["x"]): Tick[] {
  const [least, most] = x.domain() as [number, number];
  const decades = Math.log10(most / least);
  const steps = decades > 4 ? [1] : decades > 2 ? [1, 3] : [1, 2, 5];
  const values: number[] = [];
  for (let power = 10 ** Math.floor(Math.log10(least)); power <= most; power *= 10)
    values.push(...steps.map((step) => step * power).filter((value) => value >= least && value <= most));
  return values.map((value) => ({ at: x(value) / WIDTH, text: whole(value) }));
}
