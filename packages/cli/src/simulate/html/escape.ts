import { jsonText, plain } from "../../plain.ts";

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Text from outside, for the text or an attribute of a page: what is not seen becomes visible, too. */
export const escaped = (text: string): string =>
  plain(text).replace(/[&<>"']/g, (character) => ENTITIES[character]!);

/** JSON, for an element `script`: nothing in it can end the element, or hide there. */
export const scriptJson = (value: unknown): string => jsonText(value, 0).replaceAll("<", "\\u003c");
