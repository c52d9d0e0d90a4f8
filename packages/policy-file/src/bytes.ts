import { isUtf8 } from "node:buffer";
import { closeSync, openSync, readSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { shown } from "./errors.ts";
import type { Place, Problems } from "./problems.ts";

/** More than any limits need; it bounds what a wrong path may cost. */
const MOST_BYTES = 1_000_000;
const NOWHERE: Place = { line: 0, column: 0 };

/** The path of a file, as its errors are to name it. */
export function pathOf(file: string | URL): string {
  return file instanceof URL && file.protocol === "file:" ? fileURLToPath(file) : String(file);
}

/** @returns `undefined` where there is none to be had; then the problems tell why */
export function textOf(file: string | URL, problems: Problems): string | undefined {
  if (!(typeof file === "string" && file !== "") && !(file instanceof URL && file.protocol === "file:"))
    return fail(problems, NOWHERE, `give the path of a file, got ${shown(String(file))}`);
  let bytes: Buffer;
  try {
    bytes = bytesOf(pathOf(file));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return fail(problems, NOWHERE, `it cannot be read: ${WHY[code ?? ""] ?? message}`);
  }
  return textIn(bytes, problems);
}

const WHY: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file (ENOENT)",
  EACCES: "this process may not read it (EACCES)",
  EISDIR: "it is a folder (EISDIR)",
};

/** No more than is taken, whatever the path leads to: a device may have no end. */
function bytesOf(path: string): Buffer {
  const descriptor = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(MOST_BYTES + 1);
    let length = 0;
    for (let got = -1; got !== 0 && length < bytes.length; length += got)
      got = readSync(descriptor, bytes, length, bytes.length - length, null);
    return bytes.subarray(0, length);
  } finally {
    closeSync(descriptor);
  }
}

function textIn(bytes: Buffer, problems: Problems): string | undefined {
  if (bytes.length > MOST_BYTES) return fail(problems, NOWHERE, `it is larger than ${MOST_BYTES} bytes`);
  if (isUtf8(bytes)) return bytes.toString("utf8");
  return fail(problems, { line: lineOfNoText(bytes), column: 1 }, "save it as UTF-8; this line is none");
}

/** No sign that takes several bytes holds the byte of a new line. */
function lineOfNoText(bytes: Buffer): number {
  let line = 1;
  for (let start = 0; start < bytes.length; line++) {
    const next = bytes.indexOf(0x0a, start);
    const end = next < 0 ? bytes.length : next + 1;
    if (!isUtf8(bytes.subarray(start, end))) return line;
    start = end;
  }
  return line;
}

/** Text that somebody else has read, as long as a file may be. */
export function checkText(text: unknown, problems: Problems): string | undefined {
  if (typeof text !== "string") return fail(problems, NOWHERE, `give text, got ${shown(text)}`);
  // A half of a pair of UTF-16 is no character: it could not come from a file.
  return textIn(Buffer.from(text, "utf8"), problems);
}

function fail(problems: Problems, place: Place, message: string): undefined {
  problems.add({ code: "TIDEGATE_FILE_UNREADABLE", place, option: "", message });
  return undefined;
}
