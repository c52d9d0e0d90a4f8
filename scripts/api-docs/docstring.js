/** What a docstring says, taken apart by the compiler's own parser. */
import { SyntaxKind } from "typescript/unstable/ast";

/**
 * @typedef {import("typescript/unstable/ast").Node} Node
 * @typedef {{ readonly name: string, readonly text: string }} Named
 */

/**
 * Links in its texts are still `{@link name}`.
 *
 * @typedef {object} Docstring
 * @property {string} text what stands before the first tag
 * @property {Named[]} params
 * @property {Named[]} typeParams
 * @property {string} returns
 * @property {string[]} throws
 * @property {string[]} examples
 * @property {string[]} unknown tags that no page shows
 */

/**
 * The docstring of a declaration; of several, the one next to it.
 *
 * @param {Node} node
 * @returns {Docstring}
 */
export function docstringOf(node) {
  const doc = /** @type {any} */ (holderOf(node)).jsDoc?.at(-1);
  /** @type {Docstring} */
  const parts = {
    text: textOf(doc?.comment),
    params: [],
    typeParams: [],
    returns: "",
    throws: [],
    examples: [],
    unknown: [],
  };
  for (const tag of doc?.tags ?? []) put(parts, tag);
  return parts;
}

/**
 * What is declared by `const` has its docstring on the statement.
 *
 * @param {Node} node
 * @returns {Node}
 */
const holderOf = (node) => (node.kind === SyntaxKind.VariableDeclaration ? node.parent.parent : node);

/**
 * @param {Docstring} parts
 * @param {any} tag
 */
function put(parts, tag) {
  const text = textOf(tag.comment);
  const name = tag.tagName.text;
  if (name === "param") parts.params.push({ name: tag.name.getText(), text });
  else if (name === "typeParam") parts.typeParams.push(named(text));
  else if (name === "returns") parts.returns = text;
  else if (name === "throws") parts.throws.push(text);
  else if (name === "example") parts.examples.push(text);
  else parts.unknown.push(name);
}

/** @param {string} text */
function named(text) {
  const [name = "", ...rest] = text.split(" ");
  return { name, text: rest.join(" ") };
}

/**
 * @param {any} comment text, or a list of texts and links
 * @returns {string}
 */
function textOf(comment) {
  if (comment === undefined || typeof comment === "string") return (comment ?? "").trim();
  return [...comment].map(partOf).join("").trim();
}

/** @param {any} part */
const partOf = (part) => (part.name ? `{@link ${part.name.getText()}}${part.text}` : part.text);
