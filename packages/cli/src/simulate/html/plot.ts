import { escaped } from "./escape.ts";

/** A label beside a plot. */
export interface Tick {
  /** 0 to 1, from the left or from the top. */
  readonly at: number;
  readonly text: string;
}

export interface Plot {
  /** What it shows, for those who do not see it. */
  readonly title: string;
  /** Shapes, in a field of {@link WIDTH} by {@link HEIGHT}. */
  readonly shapes: readonly string[];
  readonly x: readonly Tick[];
  readonly y: readonly Tick[];
  /** Labels above. */
  readonly above?: readonly Tick[];
  /** Of the field on the page, in units of the text's size. */
  readonly rem: number;
}

/**
 * The field that shapes are drawn in. The page stretches it as it likes, in both directions; text stands beside it as
 * text of the page, so that it has the same size on a phone.
 */
export const WIDTH = 1000;
export const HEIGHT = 100;

export function plotOf({ title, shapes, x, y, above = [], rem }: Plot): string {
  const grid = y.map(({ at }) => line("grid", 0, at * HEIGHT, WIDTH, at * HEIGHT));
  return [
    `<div class="plot" style="height:${rem}rem">`,
    `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${escaped(title)}">`,
    `<title>${escaped(title)}</title>`,
    ...grid,
    ...shapes,
    line("base", 0, HEIGHT, WIDTH, HEIGHT),
    "</svg>",
    ...y.map(({ at, text }) => `<span class="y" style="top:${part(at)}">${escaped(text)}</span>`),
    ...x.map(
      ({ at, text }, i) =>
        `<span class="x${i % 2 ? " odd" : ""}" style="left:${part(at)}">${escaped(text)}</span>`,
    ),
    ...above.map(
      ({ at, text }) => `<span class="at${sideOf(at)}" style="left:${part(at)}">${escaped(text)}</span>`,
    ),
    "</div>",
  ].join("");
}

/** Near an end of the plot, a label stands inside. */
const sideOf = (at: number): string => (at < 0.15 ? " first" : at > 0.85 ? " last" : "");

export const line = (kind: string, x1: number, y1: number, x2: number, y2: number): string =>
  `<line class="${kind}" x1="${short(x1)}" y1="${short(y1)}" x2="${short(x2)}" y2="${short(y2)}"/>`;

/** `null` is the path of no points. */
export const path = (kind: string, d: string | null): string => `<path class="${kind}" d="${d ?? ""}"/>`;

/** A point: a line without length whose ends are round stays round, however the field is stretched. */
export const dot = (kind: string, x: number, y: number): string =>
  path(kind, `M${short(x)} ${short(y)}h.001`);

export const short = (value: number): number => Math.round(value * 100) / 100;

const part = (at: number): string => `${short(at * 100)}%`;
