import { createInterface } from "node:readline/promises";
import type { Readable, Writable } from "node:stream";
import { SingleBar } from "cli-progress";
import pico from "picocolors";
import { CliError, type ExitCode } from "./errors.ts";
import { jsonText } from "./plain.ts";
import { tableOf } from "./table.ts";

/**
 * Colours and weights, or texts as they are where there are none. Written here: a type of picocolors would ask users of
 * these declarations for `esModuleInterop`.
 */
export interface Colour extends Readonly<Record<Paint, (text: string | number) => string>> {
  /** Whether there are colours. */
  readonly isColorSupported: boolean;
}

type Paint = "bold" | "cyan" | "dim" | "green" | "red" | "yellow";

type Stream<T> = T & { readonly isTTY?: boolean; readonly columns?: number };

/** Where a command reads and writes. */
export interface Streams {
  readonly stdin: Stream<Readable>;
  readonly stdout: Stream<Writable>;
  readonly stderr: Stream<Writable>;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborted when the command is to end early. */
  readonly signal?: AbortSignal;
}

/** What a command has of the outside. */
export interface Io extends Streams {
  /** Whether standard output is a terminal. */
  readonly isTTY: boolean;
  /** Whether somebody can be asked. */
  readonly isInteractive: boolean;
  /** Columns of standard output. */
  readonly width: number;
  /** For standard output. */
  readonly colour: Colour;
  /** For standard error. */
  readonly errorColour: Colour;
  /** Takes colours away, whatever the environment says. */
  plainly(): void;
  /** Writes lines to standard output. */
  print(...lines: readonly string[]): void;
  /** Writes one JSON document to standard output. */
  json(value: unknown): void;
  /** Writes lines to standard error. */
  note(...lines: readonly string[]): void;
  /** Rows under their heads; where they do not fit side by side, one below the other. No cell is escaped. */
  table(head: readonly string[], rows: readonly (readonly string[])[]): string;
  /**
   * A bar on standard error, where that is a terminal, and only of what takes longer than a second.
   *
   * @param total in the unit of what is done; without one, only the time is told
   * @param label what is done
   */
  progress(total?: number, label?: string): Progress;
  /** Asks on standard error; `false` for anything but a yes. */
  confirm(question: string): Promise<boolean>;
  /** What the command ends with, unless it fails. 1: its answer is no. */
  exitCode: ExitCode;
  /** Ends the command: told in one line. 2 by default. */
  fail(code: string, message: string, exitCode?: ExitCode): never;
}

/** How far a work is. */
export interface Progress {
  /** @param done so much in all, in the unit of the total */
  update(done: number): void;
  /** Takes the bar away. */
  stop(): void;
}

/** What a table has where nothing tells how wide the output is. */
const USUAL_WIDTH = 120;

const PROGRESS_AFTER_MS = 1000;

export function createIo(streams: Streams): Io {
  const { stdin, stdout, stderr, env } = streams;
  const isTTY = stdout.isTTY === true;
  let bare = false;
  const colours = [stdout, stderr].map((stream) => pico.createColors(isColoured(stream, env)));
  const none = pico.createColors(false);
  const io: Io = {
    ...streams,
    isTTY,
    exitCode: 0,
    isInteractive: stdin.isTTY === true && stderr.isTTY === true,
    get width() {
      return widthOf(stdout, env);
    },
    get colour() {
      return bare ? none : colours[0]!;
    },
    get errorColour() {
      return bare ? none : colours[1]!;
    },
    plainly: () => void (bare = true),
    print: (...lines) => void stdout.write(lines.map((line) => `${line}\n`).join("")),
    json: (value) => void stdout.write(`${jsonText(value, isTTY ? 2 : 0)}\n`),
    note: (...lines) => void stderr.write(lines.map((line) => `${line}\n`).join("")),
    table(head, rows) {
      return tableOf(head, rows, { width: io.width, colour: io.colour });
    },
    progress: (total, label) => progressOn(stderr, total, label),
    confirm: (question) => confirmed(streams, question),
    fail(code, message, exitCode) {
      throw new CliError(code, message, exitCode);
    },
  };
  return io;
}

/** source: no-color.org, force-color.org */
function isColoured(stream: Stream<Writable>, env: Streams["env"]): boolean {
  if (env["NO_COLOR"]) return false;
  const forced = env["FORCE_COLOR"];
  if (forced !== undefined && forced !== "") return forced !== "0" && forced !== "false";
  return stream.isTTY === true && env["TERM"] !== "dumb";
}

function widthOf({ columns }: Stream<Writable>, env: Streams["env"]): number {
  const told = columns ?? Number(env["COLUMNS"]);
  return Number.isInteger(told) && told > 0 ? told : USUAL_WIDTH;
}

function progressOn(stderr: Stream<Writable>, total: number | undefined, label = ""): Progress {
  if (stderr.isTTY !== true) return { update() {}, stop() {} };
  const begun = performance.now();
  let bar: SingleBar | undefined;
  return {
    update(done) {
      if (!bar && performance.now() - begun < PROGRESS_AFTER_MS) return;
      if (!bar) (bar = barOn(stderr, total, label)).start(total ?? 0, done);
      bar.update(done);
    },
    stop: () => bar?.stop(),
  };
}

const barOn = (stream: Writable, total: number | undefined, label: string): SingleBar =>
  new SingleBar({
    stream,
    clearOnComplete: true,
    hideCursor: false,
    format: formatOf(total, label),
  });

function formatOf(total: number | undefined, label: string): string {
  const told = label === "" ? "" : `${label} · `;
  if (total !== undefined) return `${told}{bar} {percentage} % · {eta_formatted} left`;
  return label === "" ? "{value} · {duration_formatted}" : `${told}{duration_formatted}`;
}

async function confirmed({ stdin, stderr, signal }: Streams, question: string): Promise<boolean> {
  // No raw mode: Ctrl-C stays the terminal's, and ends the process.
  const asking = createInterface({ input: stdin, output: stderr, terminal: false });
  const ended = new Promise<string>((resolve) => asking.once("close", () => resolve("")));
  try {
    const answer = await Promise.race([asking.question(`${question} [y/N] `, { signal }), ended]);
    return /^\s*y(es)?\s*$/i.test(answer);
  } finally {
    asking.close();
  }
}
