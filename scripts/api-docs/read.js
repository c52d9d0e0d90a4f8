/**
 * Reads what packages export, by the compiler that builds them. Its interface to programs may change with any version:
 * whatever knows of it is in this folder.
 */
import { join, relative } from "node:path";
import { SyntaxKind } from "typescript/unstable/ast";
import { API, SymbolFlags } from "typescript/unstable/sync";
import { root } from "../run.js";
import { docstringOf } from "./docstring.js";
import { entries } from "./entries.js";
import { callOf, functionOf, isOptional, kindOf, membersOf, seen, signatureOf, typeOf } from "./signature.js";

/**
 * @typedef {import("./signature.js").Node} Node
 * @typedef {import("./entries.js").Entry} Entry
 * @typedef {import("./docstring.js").Docstring} Docstring
 * @typedef {import("typescript/unstable/sync").Checker} Checker
 * @typedef {import("typescript/unstable/sync").Project} Project
 */

/**
 * @typedef {object} Member
 * @property {string} name
 * @property {"property" | "method" | "constructor" | "call"} kind
 * @property {string} type of a property; of what is called, what stands behind its name
 * @property {boolean} optional whether it may be left out
 * @property {Docstring} doc
 */

/**
 * A name in a signature. `key` is there when it is declared in this repository, `specifier` when it is imported from
 * another package.
 *
 * @typedef {{ name: string, key?: string, specifier?: string }} Reference
 */

/**
 * A declaration.
 *
 * @typedef {object} Item
 * @property {string} key where it is declared; the same wherever it is exported
 * @property {string} name
 * @property {import("./signature.js").Kind} kind
 * @property {string} file from the root
 * @property {Docstring} doc
 * @property {string} signature
 * @property {Reference[]} references
 * @property {Member[]} members
 * @property {string[]} bases names of what it extends and implements
 */

/**
 * @typedef {object} Page
 * @property {Entry} entry
 * @property {Item[]} items what the entry exports and its package declares, by name
 * @property {boolean} handsOn whether it exports what another package declares, too
 * @property {Map<string, Item>} inner what signatures name and nobody can import, by key
 * @property {{ owner: string, member: Member }[]} added what is declared on the types of other packages
 */

/** @returns {Page[]} */
export function readApi() {
  const api = new API({ cwd: root });
  try {
    const found = entries();
    const snapshot = api.updateSnapshot({ openProjects: [...new Set(found.map(configOf))] });
    const read = found.map((entry) => readEntry(entry, projectOf(snapshot, configOf(entry))));
    const known = read.flatMap(({ page }) => page.items.map(({ key }) => key));
    for (const { page, reader } of read) page.inner = reader.inner(page.items, known);
    return read.map(({ page }) => page);
  } finally {
    api.close();
  }
}

/** @param {Entry} entry */
const configOf = ({ folder }) => join(root, folder, "tsconfig.json");

/**
 * @param {import("typescript/unstable/sync").Snapshot} snapshot
 * @param {string} config
 */
function projectOf(snapshot, config) {
  const project = snapshot.getProject(config);
  if (!project) throw new Error(`${config}: the compiler opened no project`);
  return project;
}

/**
 * @param {Entry} entry
 * @param {Project} project
 * @returns {{ page: Page, reader: Reader }}
 */
function readEntry(entry, project) {
  const source = project.program.getSourceFile(join(root, entry.source));
  const module = source && project.checker.getSymbolAtLocation(source);
  if (!module) throw new Error(`${entry.source}: the compiler sees no module`);
  const reader = new Reader(project);
  const all = project.checker.getExportsOfModule(module);
  const targets = all.map((symbol) => ({ name: symbol.name, target: reader.target(symbol) }));
  const own = targets.filter(({ target }) => fileOf(target).startsWith(`${entry.folder}/`));
  const items = own.map(({ name, target }) => reader.item(name, target)).toSorted(byName);
  const handsOn = own.length < all.length;
  return { page: { entry, items, handsOn, inner: new Map(), added: reader.added(source) }, reader };
}

/**
 * Names that differ in their case alone stand together.
 *
 * @param {Item} a
 * @param {Item} b
 */
export const byName = (a, b) =>
  compare(a.name.toLowerCase(), b.name.toLowerCase()) || compare(a.name, b.name);

/**
 * @param {string} a
 * @param {string} b
 */
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

class Reader {
  /** @param {Project} project */
  constructor(project) {
    this.project = project;
    this.checker = project.checker;
    /** @type {Map<string, any>} symbols that are declared in this repository, by key */
    this.symbols = new Map();
  }

  /**
   * What a name stands for in the end.
   *
   * @param {any} symbol
   */
  target(symbol) {
    return symbol.flags & SymbolFlags.Alias ? this.checker.getAliasedSymbol(symbol) : symbol;
  }

  /**
   * @param {string} name
   * @param {any} symbol
   * @returns {Item}
   */
  item(name, symbol) {
    const nodes = seen(symbol.declarations.map((/** @type {any} */ handle) => handle.resolve(this.project)));
    const [first] = nodes;
    return {
      key: keyOf(symbol),
      name,
      kind: kindOf(first),
      file: fileOf(symbol),
      doc: docstringOf(first),
      signature: nodes.map((node) => signatureOf(name, node, this.checker)).join("\n"),
      references: this.#references(nodes),
      members: this.#members(first),
      bases: basesOf(first),
    };
  }

  /** @param {Node} node */
  #members(node) {
    const held = node.type?.kind === SyntaxKind.TypeLiteral ? node.type : node;
    return membersOf(held).map((member) => this.#member(member));
  }

  /**
   * @param {Node} member
   * @returns {Member}
   */
  #member(member) {
    const called = member.parameters && member.kind !== SyntaxKind.GetAccessor;
    const doc = docstringOf(member);
    const optional = isOptional(member);
    const name = member.name?.getText() ?? "";
    if (!called) return { name, kind: "property", type: typeOf(member, this.checker), optional, doc };
    const makes = [SyntaxKind.Constructor, SyntaxKind.ConstructSignature].includes(member.kind);
    const kind = makes ? "constructor" : name ? "method" : "call";
    return { name, kind, type: makes ? "" : callOf(member, this.checker), optional, doc };
  }

  /**
   * @param {Node[]} nodes
   * @returns {Reference[]}
   */
  #references(nodes) {
    /** @type {Map<string, Reference>} */
    const found = new Map();
    const names = nodes.flatMap(publicParts).flatMap(namesIn);
    const symbols = names.map((node) => [node.getText(), this.checker.getSymbolAtLocation(node)]);
    for (const [name, symbol] of [...symbols, ...nodes.flatMap((node) => this.#inferred(node))]) {
      const reference = symbol && this.#reference(name, symbol);
      if (reference) found.set(name, reference);
    }
    return [...found.values()].toSorted((a, b) => compare(a.name, b.name));
  }

  /**
   * The names in the type of a variable that is written nowhere.
   *
   * @param {Node} node
   * @returns {[name: string, symbol: any][]}
   */
  #inferred(node) {
    if (node.kind !== SyntaxKind.VariableDeclaration || node.type || functionOf(node)) return [];
    const names = typeOf(node, this.checker).match(/\b[A-Z]\w*/g) ?? [];
    return names.map((name) => [name, this.checker.resolveName(name, SymbolFlags.Type, node)]);
  }

  /**
   * @param {string} name
   * @param {any} symbol
   * @returns {Reference | undefined} undefined for a type parameter and for what is there without an import
   */
  #reference(name, symbol) {
    if (symbol.flags & SymbolFlags.TypeParameter) return undefined;
    const specifier = this.#importOf(symbol);
    if (specifier && !/^(\.|@tidegate\/)/.test(specifier)) return { name, specifier };
    const target = this.target(symbol);
    if (!target.declarations[0] || fileOf(target).includes("node_modules/")) return undefined;
    this.symbols.set(keyOf(target), target);
    return { name, key: keyOf(target) };
  }

  /**
   * What the import says that brought a name, where one did.
   *
   * @param {any} symbol
   * @returns {string | undefined}
   */
  #importOf(symbol) {
    let node = symbol.flags & SymbolFlags.Alias ? symbol.declarations[0].resolve(this.project) : undefined;
    while (node && node.kind !== SyntaxKind.ImportDeclaration) node = node.parent;
    return node?.moduleSpecifier.text;
  }

  /**
   * What these declarations name and nobody can import, and what that names, and so on.
   *
   * @param {Item[]} items
   * @param {string[]} exported keys of all that can be imported
   * @returns {Map<string, Item>}
   */
  inner(items, exported) {
    /** @type {Map<string, Item>} */
    const inner = new Map();
    const known = new Set(exported);
    const open = items.flatMap(({ references }) => references);
    for (let reference = open.pop(); reference; reference = open.pop()) {
      const { name, key } = reference;
      if (key === undefined || known.has(key)) continue;
      known.add(key);
      const item = this.item(name, this.symbols.get(key));
      inner.set(key, item);
      open.push(...item.references);
    }
    return inner;
  }

  /**
   * @param {Node} source
   * @returns {Page["added"]}
   */
  added(source) {
    return [...source.statements]
      .filter(({ kind }) => kind === SyntaxKind.ModuleDeclaration)
      .flatMap(interfacesIn)
      .flatMap((node) =>
        membersOf(node).map((member) => ({ owner: node.name.getText(), member: this.#member(member) })),
      );
  }
}

/**
 * @param {Node} node
 * @returns {string[]}
 */
const basesOf = ({ heritageClauses }) =>
  [...(heritageClauses ?? [])]
    .flatMap(({ types }) => [...types])
    .map(({ expression }) => expression.getText());

/** @param {any} symbol */
const keyOf = ({ declarations: [first] }) => `${first.path}#${first.index}`;

/** @param {any} symbol */
const fileOf = ({ declarations: [first] }) => relative(root, first.path).replaceAll("\\", "/");

/**
 * @param {Node} module
 * @returns {Node[]}
 */
function interfacesIn(module) {
  if (module.kind === SyntaxKind.InterfaceDeclaration) return [module];
  return [...(module.body?.statements ?? [])].flatMap(interfacesIn);
}

/**
 * The parts of a declaration that its signature shows.
 *
 * @param {Node} node
 * @returns {Node[]}
 */
function publicParts(node) {
  const called = functionOf(node) ?? (node.parameters && node);
  if (called) return [...(called.typeParameters ?? []), ...called.parameters, called.type].filter(Boolean);
  if (node.kind === SyntaxKind.VariableDeclaration) return [node.type].filter(Boolean);
  if (node.kind !== SyntaxKind.ClassDeclaration) return [node];
  const members = membersOf(node).flatMap((member) =>
    member.parameters ? publicParts(member) : [member.type].filter(Boolean),
  );
  return [...(node.typeParameters ?? []), ...(node.heritageClauses ?? []), ...members];
}

/**
 * The names of types and values in a part of a declaration; of `A.B`, `A`.
 *
 * @param {Node} node
 * @returns {Node[]}
 */
function namesIn(node) {
  /** @type {Node[]} */
  const names = [];
  let name =
    node.typeName ??
    node.exprName ??
    (node.kind === SyntaxKind.ExpressionWithTypeArguments && node.expression);
  while (name?.left) name = name.left;
  if (name) names.push(name);
  // What a parameter is set to when it is left out is no part of the signature.
  node.forEachChild((/** @type {Node} */ child) => {
    if (child !== node.initializer) names.push(...namesIn(child));
  });
  return names;
}
