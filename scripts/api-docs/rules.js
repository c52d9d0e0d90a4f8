/** What a docstring has to say, as far as a machine can tell. */
import { SHAPES } from "./contents.js";
import { defaultIn, firstSentence } from "./prose.js";

/**
 * @typedef {import("./read.js").Item} Item
 * @typedef {import("./read.js").Member} Member
 * @typedef {import("./read.js").Page} Page
 * @typedef {import("./docstring.js").Docstring} Docstring
 */

/** A value that somebody sets, and not a function, a list or an object: without it, another holds. */
const PLAIN =
  /^(?:number|string|boolean|"[^"]*"|false|undefined|Mode|Scope|Unit|Scripting|Hook|FailureRule|[|\s])+$/;

/** A number or numbers, and what tells one. */
const NUMBER = /^(?:number|readonly number\[\]|\(?\(\) => number\)?)(?: \| (?:undefined|null))*$/;

/** What numbers count, or from where. */
const UNITS =
  /\b(?:milliseconds?|ms|microseconds|seconds?|units?|tokens?|bits|bytes|entries|keys|requests?|parts|proxies|identities|steps|times|shares?|integers?|status|\d{3}|from [01]|how (?:many|often))\b|µs/i;

/** Where something left out means something, but for what has it said of all of its options. */
const OPTIONS = /(?:Options|Config)$/;

/** What the end of a name promises, and the words that keep it. */
const ENDINGS = /** @type {const} */ ([
  [/(?:Ms|^ms)$/, /\bmilliseconds?\b|\bms\b/i, "milliseconds"],
  [/Us$/, /\bmicroseconds?\b|µs/i, "µs"],
  [/Seconds$/, /\bseconds?\b/i, "seconds"],
  [/(?:At|^at)$/, /\bmilliseconds\b|\bms\b|\bseconds\b|µs/i, "milliseconds or seconds, and since when"],
]);

/**
 * Everything that docstrings leave open, one line each.
 *
 * @param {Page[]} pages
 * @returns {string[]}
 */
export function faultsOf(pages) {
  const known = new Map(pages.flatMap(({ items }) => items.map((item) => [item.name, item])));
  const items = new Set(pages.flatMap((page) => page.items));
  const faults = [...items].flatMap((item) => faultsOfItem(item, known));
  // What several entry points hand on is told once.
  return [...new Set(faults)];
}

/**
 * @param {Item} item
 * @param {Map<string, Item>} known
 * @returns {string[]}
 */
export function faultsOfItem(item, known) {
  const own = [...faultsOfText(item.doc, "say what it is in a sentence"), ...deadLinks(item, known)];
  const members = SHAPES.includes(item.name)
    ? []
    : item.members.filter((member) => !isKnown(member, item, known));
  return [
    ...own.map((fault) => `${item.file}: ${item.name}: ${fault}`),
    ...members.flatMap((member) =>
      faultsOfMember(member, item).map((fault) => `${item.file}: ${item.name}.${member.name}: ${fault}`),
    ),
  ];
}

/**
 * @param {Item} item
 * @param {Map<string, Item>} known
 * @returns {string[]}
 */
function deadLinks({ doc, members }, known) {
  const texts = [doc, ...members.map((member) => member.doc)].flatMap((part) => [
    part.text,
    part.returns,
    ...part.throws,
    ...[...part.params, ...part.typeParams].map(({ text }) => text),
  ]);
  const links = texts.flatMap((text) => [...text.matchAll(/\{@link ([\w.]+)/g)].map(([, name = ""]) => name));
  const dead = links.filter(
    (link) => !known.has(link.split(".")[0] ?? "") && !members.some(({ name }) => name === link),
  );
  return dead.map((link) => `{@link ${link}} leads nowhere: no entry point exports it`);
}

/**
 * Whether what the member's owner extends says already what it is.
 *
 * @param {Member} member
 * @param {Item} owner
 * @param {Map<string, Item>} known
 * @returns {boolean}
 */
function isKnown(member, owner, known) {
  return owner.bases.some((name) => {
    const base = known.get(name);
    const same = base?.members.find((other) => other.name === member.name);
    return base !== undefined && (same ? same.doc.text !== "" : isKnown(member, base, known));
  });
}

/**
 * @param {Docstring} doc
 * @param {string} advice
 * @returns {string[]}
 */
function faultsOfText(doc, advice) {
  const tags = doc.unknown.map(
    (tag) => `@${tag} is taken for a tag, and all behind it is lost: put it into backticks`,
  );
  return firstSentence(doc.text) === "" ? [advice, ...tags] : tags;
}

/**
 * @param {Member} member
 * @param {Item} owner
 * @returns {string[]}
 */
function faultsOfMember(member, owner) {
  const { doc, kind, name, optional, type } = member;
  if (kind === "constructor" || kind === "call") return [];
  // A list says enough of a member: its name stands before it.
  if (doc.text === "") return ["say what it is"];
  const faults = faultsOfText({ ...doc, text: doc.text.replace(/^- /, "") }, "say what it is");
  if (kind === "method") return faults;
  if (NUMBER.test(type)) faults.push(...faultsOfNumber(name, doc.text));
  if (
    optional &&
    OPTIONS.test(owner.name) &&
    PLAIN.test(type) &&
    !/\bneeded\b/.test(doc.text) &&
    defaultIn(doc.text) === ""
  )
    faults.push(`say what holds without it, "… by default", or what is needed instead`);
  return faults;
}

/**
 * @param {string} name
 * @param {string} text
 * @returns {string[]}
 */
function faultsOfNumber(name, text) {
  const promised = ENDINGS.find(([ending]) => ending.test(name));
  if (promised) return promised[1].test(text) ? [] : [`say its unit: ${promised[2]}`];
  return UNITS.test(text) ? [] : ["say what the number counts, and in which unit"];
}
