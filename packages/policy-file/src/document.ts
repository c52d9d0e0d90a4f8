import { Composer, type Document, isAlias, isScalar, LineCounter, type Node, Parser, visit } from "yaml";
import type { Place, Problems } from "./problems.ts";

/** A text that is YAML, and where everything in it stands. */
export interface Parsed {
  readonly root: Node | null;
  /** Whether nothing stands there but comments. */
  readonly isEmpty: boolean;
  placeAt(offset: number): Place;
  /** What an alias stands for; anything else itself; `undefined`: nothing has that name. */
  target(node: Node): Node | undefined;
}

/**
 * Deeper than any configuration goes. What is deeper still is refused before it is composed: the library goes down
 * itself, and where its stack ends within a regular expression, V8 ends the process.
 */
const DEEPEST = 64;

const OPTIONS = {
  prettyErrors: false,
  // Ours are by name, and take no time by the square of their number.
  uniqueKeys: false,
  merge: true,
  schema: "core",
  resolveKnownTags: false,
} as const;

/** @returns `undefined` when it is none; then the problems tell why */
export function parse(text: string, problems: Problems): Parsed | undefined {
  const lines = new LineCounter();
  const placeAt = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const fail = (offset: number, message: string) =>
    problems.add({ code: "TIDEGATE_FILE_SYNTAX", place: placeAt(offset), option: "", message });

  const documents = documentsIn(text, lines, fail);
  if (!documents) return undefined;
  const [document, second] = documents;
  if (second) fail(second.range[0], "give one document in a file; take the rest behind --- away");
  if (!document) return undefined;
  const { yaml } = document.directives;
  if (yaml.version !== "1.2")
    fail(
      Math.max(0, text.search(/^%YAML/m)),
      `it is read as YAML 1.2, where off is text and 010 is ten; take the line %YAML ${yaml.version} away`,
    );
  for (const { pos, code, message } of [...document.errors, ...document.warnings])
    fail(pos[0], code === "TAG_RESOLVE_FAILED" ? "tags mean nothing here; take it away" : plain(message));
  const root = document.contents;
  const isEmpty = root === null || (isScalar(root) && root.value === null);
  return { root, isEmpty, placeAt, target: targetsIn(document) };
}

/** A message of the library in our form. */
const plain = (message: string): string => {
  const [first = message] = message.split("\n");
  const text = first.replace(/\.$/, "");
  return `it is no YAML or JSON: ${text.charAt(0).toLowerCase()}${text.slice(1)}`;
};

type Fail = (offset: number, message: string) => void;

function documentsIn(text: string, lines: LineCounter, fail: Fail): Document.Parsed[] | undefined {
  const composer = new Composer(OPTIONS);
  const documents: Document.Parsed[] = [];
  for (const token of new Parser(lines.addNewLine).parse(text)) {
    const deep = tooDeep(token);
    if (deep !== undefined) {
      fail(deep, `it is nested more than ${DEEPEST} levels deep`);
      return undefined;
    }
    documents.push(...composer.next(token));
    // What comes behind is told of as a whole.
    if (documents.length > 1) return documents;
  }
  return [...documents, ...composer.end(true, text.length)];
}

/** A part of what the parser makes, as far as it matters here. */
interface Token {
  readonly offset?: number;
  readonly value?: unknown;
  readonly items?: readonly { readonly key?: unknown; readonly value?: unknown }[];
}

/** Where something is nested too deeply. Does not go down itself. */
function tooDeep(root: Token): number | undefined {
  const rest: [token: Token, depth: number][] = [[root, 0]];
  for (let next = rest.pop(); next; next = rest.pop()) {
    const [{ offset = 0, value, items = [] }, depth] = next;
    if (depth > DEEPEST) return offset;
    for (const inner of [value, ...items.flatMap((item) => [item.key, item.value])])
      if (typeof inner === "object" && inner !== null) rest.push([inner, depth + 1]);
  }
  return undefined;
}

/** By the last anchor of that name before the alias, as YAML has it. */
function targetsIn(document: Document.Parsed): Parsed["target"] {
  const anchors = new Map<string, Node>();
  const targets = new Map<Node, Node>();
  visit(document, {
    Node(_, node) {
      if (isAlias(node)) {
        const target = anchors.get(node.source);
        if (target) targets.set(node, target);
      } else if (node.anchor !== undefined) anchors.set(node.anchor, node);
    },
  });
  return (node) => (isAlias(node) ? targets.get(node) : node);
}
