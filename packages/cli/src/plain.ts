/**
 * What would act on a terminal instead of standing in it, or hide there: control characters with ESC, what turns the
 * direction of text, what has no width, halves of a character, and characters that nobody has assigned.
 */
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/**
 * Text from outside, as it may stand in a terminal: in one line, and with nothing in it that is not seen. What cannot
 * stand there becomes `\x1b`, `\u202e` or `\u{e0001}`.
 *
 * @param most characters; what is longer ends in `…`. Any number by default
 */
export function plain(text: string, most = Infinity): string {
  const cut = text.length > most ? `${text.slice(0, Math.max(0, most - 1))}…` : text;
  return cut.replace(UNSEEN, (character) => SHORT[character] ?? escapeOf(character.codePointAt(0)!));
}

/**
 * A JSON document in which nothing is unseen but the lines that it is laid out in: text from outside keeps its value, and
 * acts on no terminal.
 *
 * @param indent spaces of each level; 0 by default: one line
 */
export const jsonText = (value: unknown, indent = 0): string =>
  JSON.stringify(value, undefined, indent).replace(UNSEEN, (character) =>
    character === "\n"
      ? character
      : Array.from({ length: character.length }, (_, i) => unitIn(character, i)).join(""),
  );

const unitIn = (text: string, i: number): string => `\\u${text.charCodeAt(i).toString(16).padStart(4, "0")}`;

function escapeOf(code: number): string {
  const digits = code.toString(16);
  if (code < 0x100) return `\\x${digits.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\u{${digits}}`;
}
