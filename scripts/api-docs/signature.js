/** How a declaration looks to those who use it: without bodies, defaults and what is private. */
import { SyntaxKind } from "typescript/unstable/ast";
import { NodeBuilderFlags } from "typescript/unstable/sync";

/**
 * Nodes of the syntax tree, of many kinds at once.
 *
 * @typedef {any} Node
 * @typedef {import("typescript/unstable/sync").Checker} Checker
 */

/** @typedef {"function" | "class" | "interface" | "type" | "const"} Kind */

const KINDS = new Map(
  /** @type {[number, Kind][]} */ ([
    [SyntaxKind.FunctionDeclaration, "function"],
    [SyntaxKind.ClassDeclaration, "class"],
    [SyntaxKind.InterfaceDeclaration, "interface"],
    [SyntaxKind.TypeAliasDeclaration, "type"],
    [SyntaxKind.VariableDeclaration, "const"],
  ]),
);

/**
 * @param {Node} node
 * @returns {Kind}
 */
export function kindOf(node) {
  const kind = KINDS.get(node.kind);
  if (kind === undefined) throw new Error(`no page shows a declaration of kind ${SyntaxKind[node.kind]}`);
  return functionOf(node) ? "function" : kind;
}

/**
 * What is called, where a declaration is of a function.
 *
 * @param {Node} node
 * @returns {Node} undefined where it is not
 */
export function functionOf(node) {
  if (node.kind === SyntaxKind.FunctionDeclaration) return node;
  const made = node.kind === SyntaxKind.VariableDeclaration && !node.type ? node.initializer : undefined;
  return made?.kind === SyntaxKind.ArrowFunction ? made : undefined;
}

/**
 * Declarations that users see: of overloads, all but the one that does the work.
 *
 * @param {Node[]} nodes
 */
export const seen = (nodes) => (nodes.length === 1 ? nodes : nodes.filter(({ body }) => !body));

/**
 * @param {string} name
 * @param {Node} node
 * @param {Checker} checker
 * @returns {string}
 */
export function signatureOf(name, node, checker) {
  const called = functionOf(node);
  if (called) return `declare function ${name}${callOf(called, checker)};`;
  switch (kindOf(node)) {
    case "const":
      return `declare const ${name}: ${typeOf(node, checker)};`;
    case "type":
      return `type ${name}${typeParametersOf(node)} = ${withComments(node.type)};`;
    case "interface":
      return `interface ${name}${typeParametersOf(node)} ${heritageOf(node)}{ ${membersText(node, checker)} }`;
    default:
      return `declare class ${name}${typeParametersOf(node)} ${heritageOf(node)}{ ${membersText(node, checker)} }`;
  }
}

/**
 * A type as it is written, with what stands before its first part.
 *
 * @param {Node} type
 * @returns {string}
 */
const withComments = (type) => type.getSourceFile().text.slice(type.pos, type.end);

/** @param {Node} node */
const heritageOf = (node) => list(node.heritageClauses, "", " ", " ");

/** @param {Node} node */
const typeParametersOf = (node) => list(node.typeParameters, "<", ", ", ">");

/**
 * @param {Iterable<Node> | undefined} nodes
 * @param {string} before
 * @param {string} between
 * @param {string} behind
 */
function list(nodes, before, between, behind) {
  const texts = [...(nodes ?? [])].map((node) => node.getText());
  return texts.length === 0 ? "" : `${before}${texts.join(between)}${behind}`;
}

/**
 * @param {Node} node
 * @param {Checker} checker
 */
const membersText = (node, checker) =>
  membersOf(node)
    .map((member) => `${memberText(member, checker)};`)
    .join("\n");

/**
 * Members of an interface or a class that users see, or that whoever extends it does.
 *
 * @param {Node} node
 * @returns {Node[]}
 */
export const membersOf = (node) => [...(node.members ?? [])].filter((member) => !isPrivate(member));

/** Names that nobody else can write. */
const UNSPEAKABLE = [SyntaxKind.PrivateIdentifier, SyntaxKind.ComputedPropertyName];

/** @param {Node} member */
const isPrivate = (member) =>
  UNSPEAKABLE.includes(member.name?.kind) || has(member, SyntaxKind.PrivateKeyword);

/**
 * Whether a member or a parameter may be left out.
 *
 * @param {Node} node
 * @returns {boolean}
 */
export const isOptional = ({ questionToken, postfixToken }) =>
  [questionToken, postfixToken].some((token) => token?.kind === SyntaxKind.QuestionToken);

/**
 * @param {Node} node
 * @param {number} keyword
 */
const has = (node, keyword) => [...(node.modifiers ?? [])].some(({ kind }) => kind === keyword);

/** What says something to those who only use a member. */
const SHOWN = [SyntaxKind.StaticKeyword, SyntaxKind.ReadonlyKeyword, SyntaxKind.ProtectedKeyword];

/**
 * @param {Node} member
 * @param {Checker} checker
 */
function memberText(member, checker) {
  const words = [...(member.modifiers ?? [])].filter(({ kind }) => SHOWN.includes(kind));
  const before = words.map((word) => `${word.getText()} `).join("");
  const name = member.name?.getText() ?? "";
  const optional = isOptional(member) ? "?" : "";
  switch (member.kind) {
    case SyntaxKind.PropertySignature:
    case SyntaxKind.PropertyDeclaration:
      return `${before}${name}${optional}: ${typeOf(member, checker)}`;
    case SyntaxKind.GetAccessor:
      return `${before}get ${name}(): ${typeOf(member, checker)}`;
    case SyntaxKind.Constructor:
      return `constructor${parametersOf(member, checker)}`;
    case SyntaxKind.MethodSignature:
    case SyntaxKind.MethodDeclaration:
      return `${before}${name}${optional}${callOf(member, checker)}`;
    default:
      return member.getText().replace(/;$/, "");
  }
}

/**
 * The type of a member or a variable: as it is written, or as the compiler finds it.
 *
 * @param {Node} node
 * @param {Checker} checker
 * @returns {string}
 */
export function typeOf(node, checker) {
  if (node.type) return node.type.getText();
  const type = checker.getTypeAtLocation(node.name);
  if (!type) throw new Error(`the type of ${node.name.getText()} is not known`);
  return textOfType(type, checker);
}

/**
 * @param {import("typescript/unstable/sync").Type} type
 * @param {Checker} checker
 */
const textOfType = (type, checker) => checker.typeToString(type, undefined, NodeBuilderFlags.NoTruncation);

/**
 * What stands behind a function's name.
 *
 * @param {Node} node
 * @param {Checker} checker
 * @returns {string}
 */
export const callOf = (node, checker) =>
  `${typeParametersOf(node)}${parametersOf(node, checker)}: ${returnTypeOf(node, checker)}`;

/**
 * @param {Node} node
 * @param {Checker} checker
 */
function returnTypeOf(node, checker) {
  if (node.type) return node.type.getText();
  const signature = checker.getSignatureFromDeclaration(node);
  const type = signature && checker.getReturnTypeOfSignature(signature);
  if (!type) throw new Error(`the return type of ${node.getText()} is not known`);
  return textOfType(type, checker);
}

/**
 * @param {Node} node
 * @param {Checker} checker
 */
const parametersOf = (node, checker) =>
  `(${[...node.parameters].map((parameter) => parameterText(parameter, checker)).join(", ")})`;

/**
 * @param {Node} parameter
 * @param {Checker} checker
 */
function parameterText(parameter, checker) {
  const type = typeOf(parameter, checker);
  const optional = isOptional(parameter) || parameter.initializer ? "?" : "";
  const rest = parameter.dotDotDotToken ? "..." : "";
  return `${rest}${parameterName(parameter.name, type)}${optional}: ${type}`;
}

/**
 * A parameter that is taken apart where it comes in has no name: it gets the last word of its type's.
 *
 * @param {Node} name
 * @param {string} type
 * @returns {string}
 */
function parameterName(name, type) {
  if (name.kind === SyntaxKind.Identifier) return name.getText();
  const [, word = "given"] = /([A-Z][a-z]+)(?:<.*)?$/s.exec(type) ?? [];
  return word.toLowerCase();
}
