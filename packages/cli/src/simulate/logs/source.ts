import type { PastRequest } from "@tidegate/core/simulate";
import { plain } from "../../plain.ts";
import { type Bytes, type Course, type Limits, unpacked } from "./bytes.ts";
import { detect, type Reader, SAMPLE_LINES } from "./detect.ts";
import type { FormatName, FormatOptions, Read } from "./format.ts";
import { InOrder } from "./in-order.ts";
import { LineCutter, type Lines } from "./lines.ts";

/** What was read of one file. */
export interface FileReport {
  /** As it was given; `standard input` for `-`. */
  readonly file: string;
  /** null for a file without lines. */
  format: FormatName | null;
  /** Lines, without those that are empty and the names of columns. */
  lines: number;
  /** Lines that hold no request. */
  broken: number;
  /** The first of these. */
  readonly firstBroken: BrokenLine[];
  /** Lines whose request came earlier than one of a line before. */
  outOfOrder: number;
  /** Why it was not read to its end, or null. */
  problem: string | null;
}

/** A line that holds no request. */
interface BrokenLine {
  /** Counted from 1, all lines of the file. */
  readonly line: number;
  /** Its beginning, with escapes for what a terminal would act on. */
  readonly text: string;
  readonly why: "unreadable" | "longer than 1 MB";
}

export interface SourceOptions extends FormatOptions {
  readonly format?: FormatName | undefined;
  readonly limits: Limits;
}

/** So many pieces of a file tell its format, if it has only few lines: they are in memory until then. */
const MOST_PIECES = 16;

const nothing: Read = (lines) => lines.map(() => undefined);

/** Broken lines of a file that are kept to be shown, and characters of each. */
const MOST_SHOWN = 5;
const SHOWN = 120;

/** The requests of one file, in order of time, read as far as they are asked for. */
export class LogSource {
  readonly report: FileReport;
  readonly #chunks: AsyncGenerator<Buffer>;
  readonly #course: Course = { read: 0 };
  readonly #cutter = new LineCutter();
  readonly #queue = new InOrder();
  readonly #options: SourceOptions;
  /** Lines that came before the format was known. */
  readonly #sample: Lines[] = [];
  #reader: Reader | undefined;
  #lineNumber = 0;
  #ended = false;

  constructor(bytes: Bytes, options: SourceOptions) {
    this.#options = options;
    this.#chunks = unpacked(bytes, options.limits, this.#course);
    this.report = {
      file: bytes.name,
      format: null,
      lines: 0,
      broken: 0,
      firstBroken: [],
      outOfOrder: 0,
      problem: null,
    };
  }

  /** Bytes that were read, packed as they are. */
  get read(): number {
    return this.#course.read;
  }

  /** The first request that is left. undefined: {@link fill} has to read more, or all are out. */
  head(): PastRequest | undefined {
    return this.#queue.head();
  }

  drop(): void {
    this.#queue.drop();
  }

  /** Reads until there is a head. False when there is none any more. */
  async fill(): Promise<boolean> {
    while (this.#queue.head() === undefined) {
      if (this.#ended) return false;
      const { value, done } = await this.#chunks.next();
      this.#take(done ? this.#cutter.end() : this.#cutter.push(value), done === true);
      if (done) this.#end();
    }
    return true;
  }

  /** Lets go of the file. */
  async close(): Promise<void> {
    await this.#chunks.return(undefined);
  }

  #end(): void {
    this.#ended = true;
    this.#queue.end();
    this.report.problem = this.#course.problem ?? null;
  }

  #take(piece: Lines, isLast: boolean): void {
    if (this.#reader) return this.#read(this.#reader.read, piece);
    this.#sample.push(piece);
    const lines = this.#sample.flatMap(({ lines, cut }) =>
      lines.filter((line, i) => line !== "" && !cut.includes(i)),
    );
    if (lines.length >= SAMPLE_LINES || isLast || this.#sample.length >= MOST_PIECES) this.#begin(lines);
  }

  /** Reads on by what the first lines are found to be. Where there are none yet, what is there is none. */
  #begin(lines: readonly string[]): void {
    const { format, ...options } = this.#options;
    if (lines.length > 0)
      this.#reader = detect(this.report.file, lines.slice(0, SAMPLE_LINES), options, format);
    this.report.format = this.#reader?.format ?? null;
    let headed = this.#reader?.hasHead ?? false;
    for (const piece of this.#sample.splice(0)) {
      this.#read(this.#reader?.read ?? nothing, piece, headed);
      headed &&= piece.lines.every((line) => line === "");
    }
  }

  /** @param headed the first line that is not empty holds the names of columns */
  #read(read: Read, { lines, cut }: Lines, headed = false): void {
    const head = headed ? lines.findIndex((line) => line !== "") : -1;
    const requests = read(lines);
    for (let i = 0; i < lines.length; i++) {
      this.#lineNumber++;
      const line = lines[i]!;
      if (line === "" || i === head) continue;
      this.report.lines++;
      const request = cut.includes(i) ? undefined : requests[i];
      if (request === undefined) this.#broken(line, cut.includes(i));
      else if (this.#queue.add(request)) this.report.outOfOrder++;
    }
  }

  #broken(line: string, tooLong: boolean): void {
    this.report.broken++;
    const { firstBroken } = this.report;
    if (firstBroken.length >= MOST_SHOWN) return;
    const why = tooLong ? "longer than 1 MB" : "unreadable";
    firstBroken.push({ line: this.#lineNumber, text: plain(line, SHOWN), why });
  }
}
