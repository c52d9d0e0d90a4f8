/** Texts that outlive the lines they stood in. */
export class Pool {
  readonly #known = new Map<string, string>();

  /**
   * The same text in memory of its own. V8 keeps a part of a string as a pointer into the whole: an address kept as it
   * was cut would keep a quarter of a megabyte of log alive.
   */
  own(text: string): string {
    if (text.length < SLICED_FROM) return text;
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    const copy = Buffer.from(text).toString();
    if (this.#known.size >= MOST) this.#known.clear();
    this.#known.set(copy, copy);
    return copy;
  }
}

/** Shorter parts are copied by V8 itself. */
const SLICED_FROM = 13;
const MOST = 200_000;
