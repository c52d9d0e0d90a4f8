/** Structured fields, as far as responses have them. source: RFC 9651 §4.2 */

export type BareItem =
  | { readonly type: "integer" | "decimal"; readonly value: number }
  | { readonly type: "string" | "token" | "display"; readonly value: string }
  | { readonly type: "bytes"; readonly value: Uint8Array }
  | { readonly type: "boolean"; readonly value: boolean }
  | { readonly type: "date"; readonly value: Date };

export type Parameters = ReadonlyMap<string, BareItem>;

export interface Item {
  readonly item: BareItem;
  readonly parameters: Parameters;
}

interface InnerList {
  readonly items: readonly Item[];
  readonly parameters: Parameters;
}

export type Member = Item | InnerList;

/** What is not allowed in a field. */
export class FieldFault extends Error {}

/** @throws FieldFault */
export function parseList(field: string): Member[] {
  const reader = new Reader(field);
  const members: Member[] = [];
  reader.members(() => members.push(reader.member()));
  return members;
}

/**
 * A key that comes twice keeps its place, with the later value.
 *
 * @throws FieldFault
 */
export function parseDictionary(field: string): Map<string, Member> {
  const reader = new Reader(field);
  const members = new Map<string, Member>();
  reader.members(() => {
    const key = reader.key();
    const member = reader.take("=") ? reader.member() : { item: TRUE, parameters: reader.parameters() };
    members.set(key, member);
  });
  return members;
}

const TRUE: BareItem = { type: "boolean", value: true };

/** Sticky: each reads at the reader's place or nowhere. A number must not go on after its longest form. */
const KEY = /[a-z*][a-z0-9_\-.*]*/y;
const DECIMAL = /-?\d{1,12}\.\d{1,3}(?![\d.])/y;
const INTEGER = /-?\d{1,15}(?![\d.])/y;
const STRING = /"((?:[ !#-[\]-~]|\\["\\])*)"/y;
const TOKEN = /[A-Za-z*][\w!#$%&'*+\-.^`|~:/]*/y;
const BYTES = /:([A-Za-z0-9+/=]*):/y;
const BOOLEAN = /\?([01])/y;
const DATE = /@(-?\d{1,15})(?![\d.])/y;
const DISPLAY = /%"((?:[ !#$&-~]|%[0-9a-f]{2})*)"/y;
const SPACES = / */y;
/** Between members a tab is allowed too. */
const BLANKS = /[ \t]*/y;

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Comma by comma, until the end. */
  members(each: () => void): void {
    this.#read(SPACES);
    while (!this.#ended()) {
      each();
      this.#read(BLANKS);
      if (this.#ended()) return;
      if (!this.take(",")) throw this.#fault("a comma or the end");
      this.#read(BLANKS);
      if (this.#ended()) throw this.#fault("another member after the comma");
    }
  }

  member(): Member {
    if (!this.take("(")) return this.#item();
    const items: Item[] = [];
    for (;;) {
      this.#read(SPACES);
      if (this.take(")")) return { items, parameters: this.parameters() };
      items.push(this.#item());
      if (!/[ )]/.test(this.#text[this.#at] ?? "")) throw this.#fault("a space or )");
    }
  }

  key(): string {
    const [key] = this.#read(KEY) ?? [];
    if (key === undefined) throw this.#fault("a key in lower case");
    return key;
  }

  parameters(): Parameters {
    const parameters = new Map<string, BareItem>();
    while (this.take(";")) {
      this.#read(SPACES);
      const key = this.key();
      parameters.set(key, this.take("=") ? this.#bareItem() : TRUE);
    }
    return parameters;
  }

  take(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #item(): Item {
    return { item: this.#bareItem(), parameters: this.parameters() };
  }

  #bareItem(): BareItem {
    const item = this.#number() ?? this.#word() ?? this.#coded();
    if (!item) throw this.#fault("a number, a string in double quotes, a token or another item");
    return item;
  }

  #number(): BareItem | undefined {
    const decimal = this.#read(DECIMAL);
    if (decimal) return { type: "decimal", value: Number(decimal[0]) };
    const integer = this.#read(INTEGER);
    return integer && { type: "integer", value: Number(integer[0]) };
  }

  #word(): BareItem | undefined {
    const string = this.#read(STRING);
    if (string) return { type: "string", value: string[1]!.replace(/\\(.)/g, "$1") };
    const token = this.#read(TOKEN);
    return token && { type: "token", value: token[0] };
  }

  #coded(): BareItem | undefined {
    const bytes = this.#read(BYTES);
    if (bytes) return { type: "bytes", value: this.#bytesOf(bytes[1]!) };
    const boolean = this.#read(BOOLEAN);
    if (boolean) return { type: "boolean", value: boolean[1] === "1" };
    const date = this.#read(DATE);
    if (date) return { type: "date", value: new Date(Number(date[1]) * 1000) };
    const display = this.#read(DISPLAY);
    return display && { type: "display", value: this.#decoded(display[1]!) };
  }

  /** Padding may be missing, but not be wrong. `Buffer` would take anything. */
  #bytesOf(base64: string): Uint8Array {
    try {
      return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    } catch {
      throw new FieldFault(`what ends before character ${this.#at + 1} is no base64`);
    }
  }

  #decoded(text: string): string {
    try {
      return decodeURIComponent(text);
    } catch {
      throw new FieldFault(`what ends before character ${this.#at + 1} is no UTF-8`);
    }
  }

  #read(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text) ?? undefined;
    if (found) this.#at = pattern.lastIndex;
    return found;
  }

  #ended(): boolean {
    return this.#at === this.#text.length;
  }

  #fault(wanted: string): FieldFault {
    const rest = this.#text.slice(this.#at, this.#at + 20);
    const found = rest === "" ? "the end" : JSON.stringify(rest);
    return new FieldFault(`character ${this.#at + 1} should begin ${wanted}, and there is ${found}`);
  }
}
