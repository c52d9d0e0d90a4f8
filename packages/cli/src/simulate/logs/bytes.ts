import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { pipeline, Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { CliError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { plain } from "../../plain.ts";

/** How much a file may become while it is unpacked, and how much is read at all. */
export interface Limits {
  /** Bytes unpacked for each that is packed. */
  readonly ratio: number;
  /** Bytes of one file, unpacked. */
  readonly bytes: number;
}

/** Of logs gzip makes a tenth to a thirtieth; what is all one line, a thousandth. */
export const DEFAULT_LIMITS: Limits = { ratio: 250, bytes: 1e12 };

/** A file, or standard input, as its bytes. */
export interface Bytes {
  readonly name: string;
  /** Bytes on disk; undefined for standard input. */
  readonly size: number | undefined;
  readonly chunks: AsyncIterable<Buffer>;
}

const CHUNK = 256 * 1024;

/** @throws CliError when the file is not there, or none */
export async function openBytes(file: string, { stdin }: Pick<Io, "stdin">): Promise<Bytes> {
  if (file === "-") return { name: "standard input", size: undefined, chunks: buffersOf(stdin) };
  const found = await stat(file).catch((error: NodeJS.ErrnoException) => {
    throw unreadable(file, error);
  });
  if (found.isDirectory())
    throw new CliError("TIDEGATE_CLI_FILE", `${plain(file)} is a folder: give the files in it.`);
  return {
    name: file,
    size: found.isFile() ? found.size : undefined,
    chunks: readable(file),
  };
}

async function* readable(file: string): AsyncGenerator<Buffer> {
  try {
    yield* createReadStream(file, { highWaterMark: CHUNK });
  } catch (error) {
    throw unreadable(file, error as NodeJS.ErrnoException);
  }
}

/** A stream that somebody has given an encoding tells text. */
async function* buffersOf(stream: AsyncIterable<Buffer | string>): AsyncGenerator<Buffer> {
  for await (const chunk of stream) yield typeof chunk === "string" ? Buffer.from(chunk) : chunk;
}

function unreadable(file: string, { code, message }: NodeJS.ErrnoException): CliError {
  const why =
    code === "ENOENT" ? "there is no such file" : code === "EACCES" ? "it may not be read" : plain(message);
  return new CliError("TIDEGATE_CLI_FILE", `${plain(file)}: ${why}.`);
}

/** What is known of reading a file while it is read. */
export interface Course {
  /** Bytes that were read, packed as they are. */
  read: number;
  /** Why a file was not read to its end. */
  problem?: string;
}

/** The bytes, unpacked where they are gzip. What stops that is told in `course`; what came before is kept. */
export async function* unpacked({ chunks }: Bytes, limits: Limits, course: Course): AsyncGenerator<Buffer> {
  const source = counted(chunks, course)[Symbol.asyncIterator]();
  const head = await firstBytes(source, 6);
  const whole = rejoined(head, source);
  const packed = packingOf(head);
  if (packed === undefined) yield* within(whole, { ...limits, ratio: Infinity }, course);
  else if (packed === "gzip") yield* gunzipped(whole, limits, course);
  else {
    await source.return?.(undefined);
    course.problem = `it is packed with ${packed}: unpack it, as in ${packed} -dc FILE | tidegate simulate -`;
  }
}

async function* gunzipped(
  chunks: AsyncIterable<Buffer>,
  limits: Limits,
  course: Course,
): AsyncGenerator<Buffer> {
  const gunzip = createGunzip({ chunkSize: CHUNK });
  // The iteration below throws what goes wrong.
  pipeline(Readable.from(chunks, { highWaterMark: 1 }), gunzip, () => {});
  try {
    yield* within(gunzip, limits, course);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (!code?.startsWith("Z_")) throw error;
    course.problem =
      code === "Z_BUF_ERROR" ? "the gzip file is cut off" : "the gzip file is broken from here on";
  }
}

/** Smaller files may be as dense as they like. */
const DENSE_FROM = 16 << 20;

async function* within(
  chunks: AsyncIterable<Buffer>,
  { ratio, bytes }: Limits,
  course: Course,
): AsyncGenerator<Buffer> {
  let out = 0;
  for await (const chunk of chunks) {
    out += chunk.length;
    if (out > bytes) {
      course.problem = `it has more than ${bytes} bytes: --max-bytes allows more`;
      return;
    }
    if (out > DENSE_FROM && out > course.read * ratio) {
      course.problem = `it grows to more than ${ratio} times its size, as no log does: --max-ratio allows more`;
      return;
    }
    yield chunk;
  }
}

async function* counted(chunks: AsyncIterable<Buffer>, course: Course): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    course.read += chunk.length;
    yield chunk;
  }
}

/** At least so many bytes, unless there are less. */
async function firstBytes(source: AsyncIterator<Buffer>, count: number): Promise<Buffer> {
  let head = Buffer.alloc(0);
  while (head.length < count) {
    const { value, done } = await source.next();
    if (done) break;
    head = Buffer.concat([head, value]);
  }
  return head;
}

async function* rejoined(head: Buffer, source: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  try {
    if (head.length > 0) yield head;
    for (let next = await source.next(); !next.done; next = await source.next()) yield next.value;
  } finally {
    await source.return?.(undefined);
  }
}

const MAGIC: readonly (readonly [packing: string, hex: string])[] = [
  ["gzip", "1f8b"],
  ["zstd", "28b52ffd"],
  ["bzip2", "425a68"],
  ["xz", "fd377a585a00"],
];

/** By the first bytes, whatever the file is called. */
const packingOf = (head: Buffer): string | undefined =>
  MAGIC.find(([, hex]) => head.subarray(0, hex.length / 2).toString("hex") === hex)?.[0];
