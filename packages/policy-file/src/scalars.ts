import { ip, slidingWindow } from "@tidegate/core";
import { isMap, isSeq, type Node, type Scalar } from "yaml";
import { shortened, shown } from "./errors.ts";
import type { Shape } from "./shapes.ts";

/** Whether a scalar is as a shape asks. What core can be asked about, core is asked. */
export function fits(value: unknown, shape: Shape): boolean {
  switch (shape.kind) {
    case "text":
      return typeof value === "string" && value !== "" && new RegExp(shape.pattern ?? "").test(value);
    case "words":
      return shape.words.includes(value as string);
    case "flag":
      return typeof value === "boolean";
    case "whole":
      return Number.isInteger(value) && (value as number) >= shape.least && (value as number) <= shape.most;
    case "positive":
      return Number.isFinite(value) && (value as number) > 0;
    case "span":
      return Boolean(shape.words?.includes(value as string)) || (msOf(value) ?? -1) >= shape.least;
    case "network":
      return isNetwork(value);
    default:
      return false;
  }
}

/** As core reads a span of time, milliseconds; `undefined`: it does not. */
function msOf(window: unknown): number | undefined {
  try {
    return slidingWindow({ limit: 1, window: window as string }).windowMs;
  } catch {
    return undefined;
  }
}

/** Whether core takes it for a network. */
function isNetwork(network: unknown): boolean {
  try {
    ip({ trustedHeaders: { header: "x", from: [network as string] } });
    return typeof network === "string";
  } catch {
    return false;
  }
}

/** `010` is ten in YAML 1.2 and eight in YAML 1.1. */
export const hasLeadingZero = (node: Scalar | null): boolean =>
  typeof node?.value === "number" && /^[-+]?0[0-9]/.test(node.source ?? "");

/** What often goes wrong with numbers and words in YAML. */
export function hintFor(node: Scalar | null, shapes: readonly Shape[]): string {
  const kinds = new Set(shapes.map(({ kind }) => kind));
  const source = node?.source ?? "";
  if (hasLeadingZero(node)) return " without a leading zero, which some read as octal";
  if (typeof node?.value !== "string") return "";
  if (kinds.has("flag") && /^(?:yes|no|on|off|y|n)$/i.test(source)) return ` (${source} is text in YAML 1.2)`;
  if (!["whole", "positive", "span"].some((kind) => kinds.has(kind as "whole"))) return "";
  if (/^\d{1,3}(?:[_,' ]\d{3})+$/.test(source)) return ` (without separators: ${source.replace(/\D/g, "")})`;
  if (node.type !== "PLAIN" && /^\d+(?:\.\d+)?$/.test(source)) return ` (without quotes: ${source})`;
  return "";
}

/** A value as it stands in the file, short. */
export function shownNode(node: Node | null): string {
  if (isMap(node)) return "a mapping";
  if (isSeq(node)) return "a list";
  const { value = null, source = "" } = (node ?? {}) as Partial<Scalar>;
  if (value === null) return "nothing";
  return typeof value === "number" && source !== "" ? shortened(source, 40) : shown(value);
}
