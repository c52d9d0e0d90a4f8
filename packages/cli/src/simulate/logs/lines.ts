/** Longer lines are not read: no server writes them, and they would have to be in memory as a whole. */
const LONGEST_LINE = 1 << 20;
/** Of a line that is too long, so much is kept to be shown. */
const SHOWN = 256;

const NEWLINE = 0x0a;
const BYTE_ORDER_MARK = "\uFEFF";

/** Lines as they come out of one piece of a file. */
export interface Lines {
  readonly lines: string[];
  /** Which of them, by index, were too long: of these only the beginning is there. */
  readonly cut: readonly number[];
}

/** Cuts pieces of a file into lines. Holds less than one line of {@link LONGEST_LINE} between two pieces. */
export class LineCutter {
  #begun: Buffer[] = [];
  #length = 0;
  #first = true;

  push(chunk: Buffer): Lines {
    const first = chunk.indexOf(NEWLINE);
    if (first < 0) {
      this.#keep(chunk);
      return { lines: [], cut: [] };
    }
    this.#keep(chunk.subarray(0, first));
    const { lines, cut } = this.#take();
    const last = chunk.lastIndexOf(NEWLINE);
    if (last > first) appendAll(lines, chunk.toString("utf8", first + 1, last).split("\n"));
    this.#keep(chunk.subarray(last + 1));
    return { lines: lines.map(withoutReturn), cut };
  }

  /** What stands behind the last newline. */
  end(): Lines {
    if (this.#length === 0) return { lines: [], cut: [] };
    const { lines, cut } = this.#take();
    return { lines: lines.map(withoutReturn), cut };
  }

  #keep(part: Buffer): void {
    if (part.length === 0) return;
    const before = this.#length;
    this.#length += part.length;
    if (this.#length <= LONGEST_LINE) this.#begun.push(part);
    else if (before <= LONGEST_LINE) this.#begun = [Buffer.concat([...this.#begun, part]).subarray(0, SHOWN)];
  }

  #take(): { lines: string[]; cut: number[] } {
    const cut = this.#length > LONGEST_LINE ? [0] : [];
    const text = Buffer.concat(this.#begun).toString();
    const line = this.#first && text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
    this.#first = false;
    this.#begun = [];
    this.#length = 0;
    return { lines: [line], cut };
  }
}

/** Not `push(...more)`: a piece may hold more lines than a call takes arguments. */
function appendAll(lines: string[], more: readonly string[]): void {
  for (const line of more) lines.push(line);
}

const withoutReturn = (line: string): string => (line.endsWith("\r") ? line.slice(0, -1) : line);
