/** What is made of a docstring's words. */

/**
 * Puts links in place of `{@link name}` and `{@link name text}`, or code where nothing is known of the name; and in
 * place of what stands for a document, such as `docs/errors.md`.
 *
 * @param {string} text
 * @param {(name: string) => string | undefined} find
 * @returns {string}
 */
export const linked = (text, find) =>
  text
    .replace(/\{@link ([\w.]+)(?: ([^}]+))?\}/g, (_, name, words) => {
      const shown = words ?? `\`${name}\``;
      const target = find(name);
      return target ? `[${shown}](${target})` : shown;
    })
    .replace(/\bdocs\/([\w-]+\.md)\b/g, "[$1](../$1)");

/**
 * @param {string} text
 * @returns {string}
 */
export function firstSentence(text) {
  const [paragraph = ""] = text.split(/\n\n|^- |\n- /);
  const [sentence = ""] = /^.*?\.(?=\s|$)|^.+/.exec(paragraph.replaceAll("\n", " ")) ?? [];
  return sentence.replace(/:$/, ".");
}

/**
 * A docstring in a cell of a table: one line, its lists with breaks.
 *
 * @param {string} text
 * @returns {string}
 */
export const inCell = (text) =>
  text
    .replace(/\n+(?=- )/g, "<br>")
    .replace(/\n\n+/g, "<br>")
    .replace(/\s*\n\s*/g, " ")
    .replaceAll("|", "\\|");

/** What docstrings say of a value that is left out; the group is the value. */
const DEFAULTS = [
  /(?:^|[.;:,(]\s)([^.;:(]*?) \(the default\)/,
  /(?:^|[.;:,(]\s|\bor )((?:[^.;:,(\s]|\s(?!by default)|,(?!\s)|\.(?=\d))+)[,\s]+by default/,
  /\bby default[,:]? ([^.;:,]+)/i,
  /(?:Omitted|Left out|Without it): ([^.;]+)/i,
];

/**
 * The value that holds when an option is left out, as its docstring tells it; empty when it does not.
 *
 * @param {string} text
 * @returns {string}
 */
export function defaultIn(text) {
  const flat = text.replace(/\n- /g, ". ").replace(/\s+/g, " ");
  for (const pattern of DEFAULTS) {
    const [, value] = pattern.exec(flat) ?? [];
    if (value) return asCode(value.trim());
  }
  return "";
}

/**
 * Numbers, `true` and `false` as code would write them; other words as they are, without a capital.
 *
 * @param {string} value
 */
function asCode(value) {
  if (/^(?:true|false)$/i.test(value)) return `\`${value.toLowerCase()}\``;
  if (/^[\d,.]+$/.test(value)) return `\`${value.replaceAll(",", "_")}\``;
  return value.replace(/^[A-Z](?=[a-z]|\s)/, (letter) => letter.toLowerCase());
}
