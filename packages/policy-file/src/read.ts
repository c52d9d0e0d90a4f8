import { isMap, isScalar, isSeq, type Node, type Scalar, type YAMLMap, type YAMLSeq } from "yaml";
import type { Parsed } from "./document.ts";
import { shown } from "./errors.ts";
import { nearestText } from "./nearest.ts";
import type { Place, Problems } from "./problems.ts";
import { fits, hasLeadingZero, hintFor, shownNode } from "./scalars.ts";
import { adviceFor, type Named, type Options, type Shape } from "./shapes.ts";
import { DEFINITIONS } from "./table.ts";

/** What a file says, without its form. */
export type Data = string | number | boolean | readonly Data[] | Entries;
export interface Entries {
  readonly [name: string]: Data;
}

/** A file that has been read. */
export interface Reading {
  /** `undefined` where nothing could be made of it. */
  readonly data: Entries | undefined;
  /** Where an option stands, or the nearest that it is a part of. */
  placeOf(option: string): Place;
  /** Whether something was wrong within this part of the data. */
  isUnsound(part: Data): boolean;
}

/** A value in its place. A key without a value has none. */
interface Spot {
  readonly node: Node | null;
  readonly option: string;
  /** Where the value stands; its key where there is none. */
  readonly offset: number;
}

interface Entry extends Spot {
  readonly name: string;
  readonly key: number;
}

/** Aliases may make much of little. */
const MOST_VALUES = 250_000;
/** Beyond what a file may be nested, as aliases may nest it further. */
const DEEPEST = 64;

class TooMuch extends Error {}

/** Reads a whole file by its shape. What is wrong is told, and left out. */
export function read(parsed: Parsed, shape: Shape, problems: Problems): Reading {
  const reader = new Reader(parsed, problems);
  const { root } = parsed;
  const spot = { node: root, option: "", offset: root?.range?.[0] ?? 0 };
  let data: Data | undefined;
  try {
    data = reader.read(spot, shape);
  } catch (error) {
    if (!(error instanceof TooMuch)) throw error;
    const place = parsed.placeAt(0);
    problems.add({ code: "TIDEGATE_FILE_SYNTAX", place, option: "", message: error.message });
  }
  return {
    data: data as Entries | undefined,
    placeOf: (option) => parsed.placeAt(reader.offsetOf(option)),
    isUnsound: (part) => reader.unsound.has(part as object),
  };
}

class Reader {
  readonly unsound = new WeakSet<object>();
  readonly #parsed: Parsed;
  readonly #problems: Problems;
  readonly #offsets = new Map<string, number>();
  /** A policy that stands in several places is one: as an object is that has several names. */
  readonly #policies = new Map<Node, Data | undefined>();
  #values = 0;
  #depth = 0;

  constructor(parsed: Parsed, problems: Problems) {
    this.#parsed = parsed;
    this.#problems = problems;
  }

  offsetOf(option: string): number {
    for (let part = option; part !== ""; part = part.slice(0, Math.max(0, part.lastIndexOf(".")))) {
      const offset = this.#offsets.get(part);
      if (offset !== undefined) return offset;
    }
    return this.#offsets.get("") ?? 0;
  }

  read(spot: Spot, shape: Shape): Data | undefined {
    this.#seen(1);
    this.#offsets.set(spot.option, this.#offsets.get(spot.option) ?? spot.offset);
    const node = spot.node && this.#parsed.target(spot.node);
    if (node === undefined) return this.#wrong(spot, "nothing before it has the name of this alias");
    if (this.#depth >= DEEPEST) return this.#wrong(spot, "it is nested too deeply, or an alias holds itself");
    this.#depth++;
    const data = this.#shaped({ ...spot, node }, concrete(shape), shape);
    this.#depth--;
    return data;
  }

  #seen(values: number): void {
    this.#values += values;
    if (this.#values > MOST_VALUES) throw new TooMuch("it says too much; use fewer aliases in aliases");
  }

  #shaped(spot: Spot, shapes: readonly Shape[], whole: Shape): Data | undefined {
    const { node } = spot;
    if (isMap(node)) {
      const shape = shapes.find(isMapping);
      if (shape) return this.#soundly(() => this.#mapping(spot, node, shape));
    } else if (isSeq(node)) {
      const shape = shapes.find((one) => one.kind === "list");
      if (shape) return this.#soundly(() => this.#list(spot, node, shape));
    } else if (node === null || isScalar(node)) {
      const scalars = shapes.filter((one) => !isMapping(one) && one.kind !== "list");
      return this.#scalar(spot, node, scalars, whole);
    }
    return this.#wrong(spot, adviceFor(whole, DEFINITIONS), node);
  }

  /** Marks what is made of something that is wrong. */
  #soundly<T extends Data | undefined>(make: () => T): T {
    const before = this.#problems.count;
    const data = make();
    if (this.#problems.count > before && typeof data === "object") this.unsound.add(data);
    return data;
  }

  #scalar(spot: Spot, node: Scalar | null, shapes: readonly Shape[], whole: Shape): Data | undefined {
    const value = node?.value ?? null;
    if (!hasLeadingZero(node) && shapes.some((shape) => fits(value, shape))) return value as Data;
    const instead = shapes
      .map((shape) => shape.kind === "words" && shape.instead?.[String(value)])
      .find(Boolean);
    const [first] = shapes;
    const isSecret = first?.kind === "text" && first.secret === true;
    const advice = instead || adviceFor(whole, DEFINITIONS);
    return this.#wrong(spot, `${advice}${hintFor(node, shapes)}`, isSecret ? undefined : node);
  }

  #list(spot: Spot, node: YAMLSeq, shape: Shape & { kind: "list" }): Data[] {
    const { length } = node.items;
    const { least, most = Infinity } = shape;
    if (length < least || length > most)
      this.#wrong(spot, `give ${least === most ? least : `${least} to ${most}`} entries, got ${length}`);
    const found: Data[] = [];
    for (const [i, item] of node.items.entries()) {
      const inner = item as Node;
      const data = this.read(
        { node: inner, option: under(spot.option, String(i)), offset: inner.range?.[0] ?? spot.offset },
        shape.of,
      );
      if (data !== undefined) found.push(data);
    }
    return found;
  }

  #mapping(spot: Spot, node: YAMLMap, shape: Mapping): Data | undefined {
    switch (shape.kind) {
      case "named":
        return this.#named(spot, node, shape);
      case "options":
        return this.#options(spot, this.#entries(spot, node), shape);
      case "choice": {
        const entries = this.#entries(spot, node);
        const chosen = { kind: "options", options: shape.options } as const;
        if (entries.size !== 1) return this.#wrong(spot, adviceFor(shape, DEFINITIONS), node);
        return this.#options(spot, entries, chosen);
      }
      case "variants":
        if (!this.#policies.has(node)) this.#policies.set(node, this.#variant(spot, node, shape));
        return this.#policies.get(node);
    }
  }

  #variant(spot: Spot, node: YAMLMap, shape: Shape & { kind: "variants" }): Data | undefined {
    const entries = this.#entries(spot, node);
    const names = Object.keys(shape.of);
    const entry = entries.get(shape.by);
    if (!entry) {
      this.#fault(spot.offset, under(spot.option, shape.by), `say which: ${names.join(", ")}`);
      return undefined;
    }
    const name = this.read(entry, { kind: "words", words: names });
    return name === undefined ? undefined : this.#options(spot, entries, shape.of[name as string]!);
  }

  #named(spot: Spot, node: YAMLMap, shape: Named): Entries {
    const entries = [...this.#entries(spot, node).values()];
    const { least, most = Infinity } = shape;
    if (entries.length < least) this.#wrong(spot, "name at least one policy");
    if (entries.length > most) this.#wrong(spot, `give at most ${most} policies, got ${entries.length}`);
    const seen = new Map<string, string>();
    const found: [string, Data][] = [];
    for (const entry of entries) {
      const { name, key, option } = entry;
      const twin = seen.get(name.toLowerCase());
      if (!new RegExp(shape.names).test(name))
        this.#fault(key, option, `${shape.advice}, got ${shown(name)}`, name);
      else if (twin !== undefined && shape.anyCase)
        this.#fault(key, option, `names that differ in case only are one name: rename it or ${twin}`, name);
      seen.set(name.toLowerCase(), name);
      const data = this.read(entry, shape.of);
      if (data !== undefined) found.push([name, data]);
    }
    return Object.fromEntries(found);
  }

  #options(spot: Spot, entries: ReadonlyMap<string, Entry>, shape: Options): Entries {
    const found: [string, Data][] = [];
    let strangers = 0;
    /** Known, but not here. */
    let guests = 0;
    for (const entry of entries.values()) {
      const { name, key, option } = entry;
      if (Object.hasOwn(shape.options, name)) {
        const data = this.read(entry, shape.options[name]!.shape);
        if (data !== undefined) found.push([name, data]);
      } else if (!(shape.extensible && name.startsWith("x-"))) {
        // The value is not shown: it may be a password.
        const known = Object.keys(shape.options).join(", ");
        const elsewhere = Object.hasOwn(shape.elsewhere ?? {}, name) ? shape.elsewhere![name] : undefined;
        if (elsewhere === undefined) strangers++;
        else guests++;
        this.#fault(
          key,
          option,
          elsewhere ??
            `there is no such option${nearestText(name, Object.keys(shape.options))}; known are ${known}`,
        );
      }
    }
    // What seems to be missing may be what is misspelt.
    if (strangers + guests === 0) this.#required(spot, entries, shape);
    if (strangers === 0) this.#needed(spot, entries, shape);
    this.#beside(entries, shape);
    return Object.fromEntries(found);
  }

  #required(spot: Spot, entries: ReadonlyMap<string, Entry>, shape: Options): void {
    for (const [name, { required, description, shape: of }] of Object.entries(shape.options)) {
      if (!required || entries.has(name)) continue;
      const noun = adviceFor(of, DEFINITIONS);
      this.#fault(
        spot.offset,
        under(spot.option, name),
        `${noun}; it is missing. ${description.replace(/\.$/, "")}`,
      );
    }
  }

  #needed(spot: Spot, entries: ReadonlyMap<string, Entry>, shape: Options): void {
    const { needs = [], oneOf = [] } = shape;
    if (needs.length > 0 && !needs.some((name) => entries.has(name)))
      this.#fault(spot.offset, under(spot.option, needs[0]!), "name policies, or give limit and window");
    if (oneOf.length > 0 && oneOf.filter((name) => entries.has(name)).length !== 1)
      this.#fault(spot.offset, spot.option, `give exactly one of ${oneOf.join(", ")}`);
    const { together = [] } = shape;
    const given = together.filter((name) => entries.has(name));
    if (given.length === 0 || given.length === together.length) return;
    for (const name of together)
      if (!entries.has(name))
        this.#fault(
          entries.get(given[0]!)!.key,
          under(spot.option, name),
          `give it too, beside ${given.join(" and ")}`,
        );
  }

  #beside(entries: ReadonlyMap<string, Entry>, { together = [], insteadOf }: Options): void {
    if (insteadOf === undefined || !entries.has(insteadOf)) return;
    const extra = together.map((name) => entries.get(name)).find(Boolean);
    if (extra) this.#fault(extra.key, extra.option, `give either ${together.join(" and ")}, or ${insteadOf}`);
  }

  /** The keys of a mapping, with those that it merges: its own go first, as YAML has it. */
  #entries(spot: Spot, map: YAMLMap): Map<string, Entry> {
    const found = new Map<string, Entry>();
    const merged: Spot[] = [];
    for (const { key, value } of map.items as { key: Node; value: Node | null }[]) {
      const at = key?.range?.[0] ?? spot.offset;
      const offset = value?.range?.[0] ?? at;
      if (isMerge(key)) {
        merged.push({ node: value, option: spot.option, offset });
        continue;
      }
      const name = nameOf(key);
      if (name === undefined) {
        this.#fault(at, spot.option, "a key is text; quote it", undefined);
        continue;
      }
      const option = under(spot.option, name);
      const twin = found.get(name);
      if (twin) {
        const { line } = this.#parsed.placeAt(twin.key);
        this.#twice(at, option, line);
      } else found.set(name, { node: value, option, offset, name, key: at });
    }
    for (const source of merged) this.#merge(found, source);
    return found;
  }

  #merge(into: Map<string, Entry>, spot: Spot): void {
    const node = spot.node && this.#parsed.target(spot.node);
    const isDeep = this.#depth >= DEEPEST;
    this.#depth++;
    if (isMap(node) && !isDeep) {
      this.#seen(1 + node.items.length);
      for (const [name, entry] of this.#entries({ ...spot, node }, node))
        if (!into.has(name)) into.set(name, entry);
    } else if (isSeq(node) && !isDeep) {
      for (const item of node.items) this.#merge(into, { ...spot, node: item as Node });
    } else this.#wrong(spot, "<< takes an alias of a mapping that stands before it, or a list of such");
    this.#depth--;
  }

  #twice(at: number, option: string, line: number): void {
    const message = `it stands in line ${line} already; take one of the two away`;
    const place = this.#parsed.placeAt(at);
    this.#problems.add({ code: "TIDEGATE_FILE_SYNTAX", place, option, message });
  }

  #wrong(spot: Spot, advice: string, got?: Node | null): undefined {
    const message = got === undefined ? advice : `${advice}, got ${shownNode(got)}`;
    const value = isScalar(got) ? got.value : undefined;
    this.#fault(spot.offset, spot.option, message, value);
    return undefined;
  }

  #fault(offset: number, option: string, message: string, value?: unknown): void {
    this.#problems.add({ place: this.#parsed.placeAt(offset), option, message, value });
  }
}

type Mapping = Shape & { kind: "options" | "named" | "choice" | "variants" };

const isMapping = (shape: Shape): shape is Mapping =>
  ["options", "named", "choice", "variants"].includes(shape.kind);

/** The shapes that a value may have, without those that only stand for others. */
function concrete(shape: Shape): readonly Shape[] {
  if (shape.kind === "ref") return concrete(DEFINITIONS[shape.name]!);
  return shape.kind === "either" ? shape.of.flatMap(concrete) : [shape];
}

const under = (at: string, name: string): string => (at === "" ? name : `${at}.${name}`);

const isMerge = (key: unknown): boolean =>
  isScalar(key) && (typeof key.value === "symbol" || (key.value === "<<" && key.type === "PLAIN"));

/** A key as it is written: `404` is text, too. */
function nameOf(key: Node | null): string | undefined {
  if (!isScalar(key)) return undefined;
  return typeof key.value === "string" ? key.value : (key.source ?? String(key.value));
}
