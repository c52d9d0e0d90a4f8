/**
 * How a file may look, as data: the reader checks by it, and the JSON Schema and the documents' tables are made of it.
 */
export type Shape =
  | { readonly kind: "text"; readonly advice: string; readonly pattern?: string; readonly secret?: boolean }
  | { readonly kind: "words"; readonly words: readonly Word[]; readonly instead?: Advice }
  | { readonly kind: "flag" }
  | { readonly kind: "whole"; readonly least: number; readonly most: number }
  | { readonly kind: "positive" }
  /** Milliseconds, or text that says how long. */
  | { readonly kind: "span"; readonly least: number; readonly words?: readonly string[] }
  | { readonly kind: "network" }
  | { readonly kind: "list"; readonly of: Shape; readonly least: number; readonly most?: number }
  | Options
  | Named
  /** One option of several, and no other. */
  | { readonly kind: "choice"; readonly options: Readonly<Record<string, Option>> }
  /** The options depend on one of them. */
  | { readonly kind: "variants"; readonly by: string; readonly of: Readonly<Record<string, Options>> }
  | { readonly kind: "either"; readonly of: readonly Shape[] }
  /** A definition: these may hold themselves. */
  | { readonly kind: "ref"; readonly name: string };

type Word = string | false;

/** What to do, by the key or the word that somebody may write. */
export type Advice = Readonly<Record<string, string>>;

/** A mapping with options that are known. */
export interface Options {
  readonly kind: "options";
  readonly options: Readonly<Record<string, Option>>;
  /** Options that stand only together. */
  readonly together?: readonly string[];
  /** None of these may stand beside one of `together`. */
  readonly insteadOf?: string;
  /** One of these has to stand there. */
  readonly needs?: readonly string[];
  /** Exactly one of these has to stand there. */
  readonly oneOf?: readonly string[];
  /** What people look for here that has no place in a file. */
  readonly elsewhere?: Advice;
  /** Whether keys that begin with `x-` are left alone: a place for anchors. */
  readonly extensible?: boolean;
}

/** A mapping whose names are the user's own. */
export interface Named {
  readonly kind: "named";
  readonly of: Shape;
  readonly names: string;
  readonly advice: string;
  readonly least: number;
  readonly most?: number;
  /** Whether names that differ in case only are one. */
  readonly anyCase?: boolean;
}

export interface Option {
  readonly shape: Shape;
  /** For editors and for the reference: sentences. */
  readonly description: string;
  readonly required?: boolean;
  /** What holds without it, where one value says it. */
  readonly usual?: string | number | boolean;
}

/** What to write for a shape, in the imperative. */
export function adviceFor(shape: Shape, definitions: Readonly<Record<string, Shape>>): string {
  return `give ${nounFor(shape, definitions)}`;
}

function nounFor(shape: Shape, definitions: Readonly<Record<string, Shape>>): string {
  switch (shape.kind) {
    case "text":
      return shape.advice;
    case "words":
      return alternatives(shape.words.map((word) => JSON.stringify(word)));
    case "flag":
      return "true or false";
    case "whole":
      return `a whole number from ${shape.least} to ${shape.most}`;
    case "positive":
      return "a number above 0";
    case "span":
      return [...(shape.words ?? []).map((word) => `"${word}"`), spanFrom(shape.least)].join(", or ");
    case "network":
      return NETWORK;
    case "list":
      return LISTS[shape.of.kind] ?? "a list";
    case "choice":
      return `a mapping with one of ${Object.keys(shape.options).join(", ")}`;
    case "options":
    case "named":
    case "variants":
      return "a mapping";
    case "either":
      return shape.of.map((one) => nounFor(one, definitions)).join(", or ");
    case "ref":
      return nounFor(definitions[shape.name]!, definitions);
  }
}

/** `a`, `a or b`, `a, b or c`. */
const alternatives = (words: readonly string[]): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;

const spanFrom = (least: number): string =>
  `whole milliseconds from ${least} to ten years, or text such as "90s", "1m" or "1 day"`;
const LISTS: Partial<Record<Shape["kind"], string>> = {
  network: "a list of addresses and networks",
  text: "a list of names",
};
const NETWORK = 'an address or a network such as "203.0.113.7", "10.0.0.0/8" or "2001:db8::/32"';
