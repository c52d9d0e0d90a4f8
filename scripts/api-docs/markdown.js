/** Pages out of what was read: Markdown as GitHub shows it, the same bytes for the same sources. */
import { basename } from "node:path";
import { format } from "oxfmt";
import { EXAMPLES, INTRODUCTIONS, OPAQUE, PARTS } from "./contents.js";
import { defaultIn, firstSentence, inCell, linked } from "./prose.js";
import { byName } from "./read.js";

/**
 * @typedef {import("./read.js").Item} Item
 * @typedef {import("./read.js").Member} Member
 * @typedef {import("./read.js").Page} Page
 * @typedef {import("./docstring.js").Docstring} Docstring
 * @typedef {(name: string) => string | undefined} Find a link to what is documented of a name
 */

const HEAD = "<!-- Written by scripts/api-docs.js, out of the docstrings. Do not change it by hand. -->\n";

/** Wide enough for the column of text that GitHub shows, without scrolling. */
const WIDTH = 100;

/** @param {Item} item */
const anchorOf = ({ kind, name }) => `${kind}-${name}`.toLowerCase();

/**
 * Every page's text, by the name of its file.
 *
 * @param {Page[]} pages
 * @returns {Promise<Map<string, string>>}
 */
export async function textsOf(pages) {
  const texts = new Map([["README.md", indexOf(pages)]]);
  for (const page of pages) texts.set(`${page.entry.page}.md`, await new Writer(page, pages).text());
  return texts;
}

/** @param {Page[]} pages */
function indexOf(pages) {
  const rows = pages.map(({ entry }) => [
    `[${entry.specifier}](${entry.page}.md)`,
    introductionOf(entry.page).replace(/^\w/, (letter) => letter.toLowerCase()),
  ]);
  return `${HEAD}
# API reference

Made from the docstrings of the packages by \`node scripts/api-docs.js\`. A name that is not here is no part of the interface, and may change in any version. The [README](../../README.md) has every option of a limiter in one table; these pages have every name.

${table(["import from", ""], rows)}
## Every name

${namesOf(pages).join(" · ")}
`;
}

/**
 * Links to every name in the order of the alphabet; what several entry points have, with the entry point.
 *
 * @param {Page[]} pages
 * @returns {string[]}
 */
function namesOf(pages) {
  const all = pages.flatMap((page) => page.items.map((item) => ({ item, page: page.entry.page })));
  const count = (/** @type {string} */ name) => all.filter(({ item }) => item.name === name).length;
  return all
    .toSorted((a, b) => byName(a.item, b.item))
    .map(({ item, page }) => {
      const where = count(item.name) > 1 ? ` (${page})` : "";
      return `[\`${item.name}\`${where}](${page}.md#${anchorOf(item)})`;
    });
}

/** @param {string} page */
function introductionOf(page) {
  const text = INTRODUCTIONS[page];
  if (text === undefined) throw new Error(`${page}: say in contents.js what it is`);
  return text;
}

class Writer {
  /**
   * @param {Page} page
   * @param {Page[]} pages
   */
  constructor(page, pages) {
    this.page = page;
    this.pages = pages;
    this.byKey = new Map(
      pages.toReversed().flatMap((other) => other.items.map((item) => [item.key, { item, page: other }])),
    );
    for (const item of page.items) this.byKey.set(item.key, { item, page });
  }

  async text() {
    const { entry, handsOn } = this.page;
    const parts = this.#parts();
    const bodies = [];
    for (const [title, members] of parts) bodies.push(await this.#part(title, members));
    const handed = handsOn
      ? "Everything that [@tidegate/core](core.md) exports can be imported from here, too: this page has what is this package's own.\n"
      : "";
    return [
      `${HEAD}\n# ${entry.specifier}\n`,
      `${introductionOf(entry.page)} [All entry points](README.md).\n`,
      handed,
      ...parts.map(([title, members]) => this.#contents(parts.length > 1 ? title : "", members)),
      this.#added(),
      ...bodies,
    ]
      .filter((text) => text !== "")
      .join("\n");
  }

  /** @returns {[title: string, items: Item[]][]} */
  #parts() {
    const { entry, items } = this.page;
    const parts = PARTS[entry.page];
    if (!parts) return [["Reference", items]];
    const titles = new Map(items.map((item) => [item, partOf(parts, entry.folder, item)]));
    return parts.map(([title]) => [title, items.filter((item) => titles.get(item) === title)]);
  }

  /**
   * @param {string} title
   * @param {Item[]} items
   */
  #contents(title, items) {
    const rows = items.map((item) => [
      `[\`${item.name}\`](#${anchorOf(item)})`,
      item.kind,
      inCell(firstSentence(this.#linked(item.doc.text, item))),
    ]);
    const head = title ? `**${title}**\n\n` : "";
    return `${head}${table(["name", "", ""], rows)}`;
  }

  #added() {
    if (this.page.added.length === 0) return "";
    const rows = this.page.added.map(({ owner, member }) => [
      `\`${owner}.${member.name}\``,
      code(member.type),
      inCell(linked(member.doc.text, () => undefined)),
    ]);
    return `What is added to types of the framework:\n\n${table(["property", "type", ""], rows)}`;
  }

  /**
   * @param {string} title
   * @param {Item[]} items
   */
  async #part(title, items) {
    const texts = [];
    for (const item of items) texts.push(await this.#item(item));
    return `## ${title}\n\n${texts.join("\n")}`;
  }

  /** @param {Item} item */
  async #item(item) {
    const { doc, kind, name } = item;
    const find = this.#finder(item);
    return [
      `### ${kind} ${name}\n`,
      await this.#signature(item),
      paragraph(linked(doc.text, find)),
      await this.#examples(name, doc),
      callText(doc, find),
      membersTable(item, find),
      this.#inherited(item),
      await this.#methods(item, find),
      this.#footer(item),
    ]
      .filter((text) => text !== "")
      .join("\n");
  }

  /** @param {Item} item */
  async #signature(item) {
    const inner = this.#innerOf(item);
    const shown = inner.filter(({ name }) => !OPAQUE.includes(name));
    const opaque = inner.filter(({ name }) => OPAQUE.includes(name));
    const texts = [item.signature, ...shown.map(({ signature }) => `\n${signature}`)];
    const preamble = [
      ...this.#imports([item, ...shown]),
      // Whatever they are, with any number of parameters: the blocks only have to hold together.
      ...opaque.map(({ name }) => `type ${name}<T = any> = any;`),
    ].join(" ");
    return block(preamble, await formatted(texts.join("\n")));
  }

  /**
   * What a declaration names that nobody can import, and what that names.
   *
   * @param {Item} item
   * @returns {Item[]}
   */
  #innerOf(item) {
    /** @type {Set<Item>} */
    const found = new Set();
    const open = [item];
    for (let next = open.pop(); next; next = open.pop()) {
      for (const { key } of next.references) {
        const inner = key === undefined ? undefined : this.#innerItem(key);
        if (!inner || found.has(inner)) continue;
        found.add(inner);
        if (!OPAQUE.includes(inner.name)) open.push(inner);
      }
    }
    return [...found];
  }

  /** @param {string} key */
  #innerItem(key) {
    return this.byKey.has(key) ? undefined : this.page.inner.get(key);
  }

  /**
   * Imports for what the declarations name, one for each place it comes from.
   *
   * @param {Item[]} items
   * @returns {string[]}
   */
  #imports(items) {
    /** @type {Map<string, Set<string>>} */
    const names = new Map();
    const own = new Set(items.map(({ key }) => key));
    for (const { name, key, specifier } of items.flatMap(({ references }) => references)) {
      const from =
        specifier ??
        (key !== undefined && !own.has(key) ? this.byKey.get(key)?.page.entry.specifier : undefined);
      if (from) names.set(from, (names.get(from) ?? new Set()).add(name));
    }
    return [...names]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([from, list]) => `import type { ${[...list].toSorted().join(", ")} } from "${from}";`);
  }

  /**
   * @param {string} name whose example it is
   * @param {Docstring} doc
   */
  async #examples(name, { examples }) {
    const preamble = EXAMPLES[`${this.page.entry.page} ${name}`];
    if (examples.length > 0 && preamble === undefined)
      throw new Error(`${name}: say in contents.js what its example needs`);
    const texts = [];
    for (const example of examples) texts.push(block(preamble ?? "", await formatted(example)));
    return texts.join("\n");
  }

  /**
   * @param {Item} item
   * @param {Find} find
   */
  async #methods(item, find) {
    const texts = [];
    for (const member of item.members.filter(({ kind }) => kind !== "property")) {
      const title = member.kind === "constructor" ? `new ${item.name}` : `${item.name}.${member.name}`;
      const { doc } = member;
      const parts = [
        paragraph(linked(doc.text, find)),
        await this.#examples(title, doc),
        callText(doc, find),
      ];
      if (parts.some((part) => part !== "")) texts.push(`#### ${title}\n`, ...parts);
    }
    return texts.filter((text) => text !== "").join("\n");
  }

  /**
   * What a declaration has besides its own members.
   *
   * @param {Item} item
   */
  #inherited(item) {
    const links = item.references
      .filter(({ name }) => item.kind === "interface" && item.bases.includes(name))
      .map(({ name, key }) => this.#link(key) ?? `\`${name}\``);
    return links.length === 0 ? "" : `Besides these, it has what ${links.join(" and ")} has.\n`;
  }

  /** @param {Item} item */
  #footer(item) {
    const others = item.references.filter(({ key }) => key !== item.key);
    const links = others.map(({ key }) => this.#link(key)).filter((link) => link !== undefined);
    const uses = links.length > 0 ? `Uses ${links.join(", ")}. ` : "";
    return `<sub>${uses}Declared in [${basename(item.file)}](../../${item.file})</sub>\n`;
  }

  /** @param {string | undefined} key */
  #link(key) {
    const found = key === undefined ? undefined : this.byKey.get(key);
    return found && `[\`${found.item.name}\`](${this.#target(found)})`;
  }

  /** @param {{ item: Item, page: Page }} found */
  #target({ item, page }) {
    return `${page === this.page ? "" : `${page.entry.page}.md`}#${anchorOf(item)}`;
  }

  /**
   * @param {string} text
   * @param {Item} item
   */
  #linked(text, item) {
    return linked(text, this.#finder(item));
  }

  /**
   * Finds what a docstring links to: on its own page, or wherever it is.
   *
   * @param {Item} item
   * @returns {Find}
   */
  #finder(item) {
    return (name) => {
      if (item.members.some((member) => member.name === name)) return undefined;
      const owner = name.split(".")[0];
      const here = this.page.items.find((other) => other.name === owner);
      if (here) return `#${anchorOf(here)}`;
      const there = [...this.byKey.values()].find((other) => other.item.name === owner);
      return there && this.#target(there);
    };
  }
}

/**
 * @param {readonly (readonly [string, readonly string[]])[]} parts
 * @param {string} folder
 * @param {Item} item
 */
function partOf(parts, folder, { file, name }) {
  const place = `${file.slice(`${folder}/src/`.length)}#${name}`;
  const found = parts.find(([, beginnings]) => beginnings.some((beginning) => fits(place, beginning)));
  if (!found) throw new Error(`${place}: say in contents.js which part it belongs to`);
  return found[0];
}

/**
 * @param {string} place
 * @param {string} beginning with `#`, all of it
 */
const fits = (place, beginning) =>
  beginning.includes("#") ? place === beginning : place.startsWith(beginning);

/**
 * What goes into a call, what comes out, and what it throws.
 *
 * @param {Docstring} doc
 * @param {Find} find
 */
function callText({ params, typeParams, returns, throws }, find) {
  const lines = [
    ...[...typeParams, ...params].map(({ name, text }) => `- \`${name}\`: ${flat(text)}`),
    ...(returns ? [`- Returns ${flat(returns)}`] : []),
    ...throws.map((text) => `- Throws ${flat(thrown(text))}`),
  ];
  return lines.length === 0 ? "" : `${linked(lines.join("\n"), find)}\n`;
}

/** @param {string} text */
const thrown = (text) => text.replace(/^\w+Error\b/, "{@link $&}");

/** @param {string} text */
const flat = (text) => text.replace(/\s*\n\s*/g, " ");

/**
 * @param {Item} item
 * @param {Find} find
 */
function membersTable(item, find) {
  const members = item.members.filter(({ kind, doc }) => kind === "property" && doc.text !== "");
  if (members.length === 0) return "";
  const hasDefaults = members.some(({ optional, doc }) => optional && defaultIn(doc.text) !== "");
  const rows = members.map((member) => rowOf(member, hasDefaults, find));
  const name = isOptions(item) ? "option" : "property";
  return table(hasDefaults ? [name, "type", "default", ""] : [name, "type", ""], rows);
}

/** @param {Item} item */
const isOptions = ({ kind, name }) =>
  kind === "interface" && /(Options|Config|Override|Request|Expectation)$/.test(name);

/**
 * @param {Member} member
 * @param {boolean} hasDefaults
 * @param {Find} find
 */
function rowOf({ name, type, optional, doc }, hasDefaults, find) {
  const text = inCell(linked(doc.text, find));
  const first = [`\`${name}\``, code(type)];
  return hasDefaults
    ? [...first, optional ? inCell(defaultIn(linked(doc.text, find))) : "", text]
    : [...first, text];
}

/** @param {string} text */
const paragraph = (text) => (text === "" ? "" : `${text}\n`);

/** @param {string} source */
async function formatted(source) {
  const { code, errors } = await format("block.ts", source, { printWidth: WIDTH });
  if (errors.length > 0) throw new Error(`${errors[0]?.message}\n${source}`);
  return code;
}

/**
 * @param {string} preamble what a test puts before the block, to compile it
 * @param {string} text
 */
const block = (preamble, text) =>
  `${preamble ? `<!-- test: ${preamble} -->\n` : ""}\`\`\`ts\n${text}\`\`\`\n`;

/** @param {string} type */
const code = (type) => `\`${flat(type).replaceAll("|", "\\|")}\``;

/**
 * @param {string[]} head
 * @param {string[][]} rows
 */
const table = (head, rows) =>
  [head, head.map(() => "---"), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n")
    .replaceAll("|  |", "| |")
    .replaceAll("|  |", "| |") + "\n";
