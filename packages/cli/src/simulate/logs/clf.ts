import {
  type Entry,
  type FormatOptions,
  present,
  type Read,
  requestLine,
  requestsOf,
  statusOf,
} from "./format.ts";
import { CLF_TIME_LENGTH, clfTimes } from "./times.ts";

/**
 * Common and Combined Log Format, as Apache and nginx write it:
 *
 *     203.0.113.7 - ann [29/Nov/2026:13:55:36 +0100] "GET /a HTTP/1.1" 200 512 "https://example.com/" "curl/8.5"
 *
 * A third quoted text, as in the `main` format of nginx' own packages, is `X-Forwarded-For`. What stands behind is not
 * looked at.
 */
export function clf(options: FormatOptions): Read {
  const request = requestsOf(options, true);
  const timeOf = clfTimes();
  return (lines) =>
    lines.map((line) => {
      const entry = entryOf(line, timeOf, options);
      return entry && request(entry);
    });
}

/** Whether a line has the fields that Combined adds. */
export const isCombined = (line: string): boolean => quotedTexts(line, afterStatus(line), 2).length === 2;

function entryOf(
  line: string,
  timeOf: (text: string) => number | undefined,
  { pool }: FormatOptions,
): Entry | undefined {
  const time = timeIn(line, timeOf);
  if (!time) return undefined;
  const start = time.end + 2;
  const end = line[start - 1] === '"' ? closingQuote(line, start) : -1;
  if (end < 0 || line[end + 1] !== " ") return undefined;
  const asked = requestLine(line.slice(start, end));
  const status = statusOf(line.slice(end + 2, end + 5));
  if (!asked || status === undefined) return undefined;
  const [referer, agent, forwarded] = quotedTexts(line, end + 5, 3);
  const headers: Record<string, string> = {};
  if (present(referer)) headers["referer"] = pool.own(unescaped(referer!));
  if (present(agent)) headers["user-agent"] = pool.own(unescaped(agent!));
  return {
    at: time.ms,
    method: asked.method,
    url: unescaped(asked.url),
    ...whoOf(line.slice(0, time.start)),
    forwarded: present(forwarded),
    status,
    headers,
  };
}

interface Time {
  readonly ms: number;
  /** Where ` [` stands. */
  readonly start: number;
  /** Behind `] `. */
  readonly end: number;
}

/** A user's name may hold brackets: the first that hold a time are those of the time. */
function timeIn(line: string, timeOf: (text: string) => number | undefined): Time | undefined {
  for (let at = line.indexOf(" ["); at >= 0; at = line.indexOf(" [", at + 1)) {
    const end = at + 2 + CLF_TIME_LENGTH;
    if (line[end] !== "]" || line[end + 1] !== " ") continue;
    const ms = timeOf(line.slice(at + 2, end));
    if (ms !== undefined) return { ms, start: at, end: end + 1 };
  }
  return undefined;
}

/** `address identd user`: only a user's name may hold spaces. */
function whoOf(text: string): Pick<Entry, "peer" | "user"> {
  const first = text.indexOf(" ");
  const second = text.indexOf(" ", first + 1);
  if (first < 0 || second < 0) return { peer: present(first < 0 ? text : text.slice(0, first)) };
  const user = present(text.slice(second + 1));
  return { peer: present(text.slice(0, first)), user: user && unescaped(user) };
}

/** Behind the status of a line; -1 where it has none. */
function afterStatus(line: string): number {
  const start = line.indexOf('] "') + 3;
  const end = start < 3 ? -1 : closingQuote(line, start);
  return end < 0 ? -1 : end + 5;
}

/** So many quoted texts at most, from there on. One that has no end is none. */
function quotedTexts(line: string, from: number, most: number): string[] {
  const texts: string[] = [];
  let at = from < 0 ? -1 : line.indexOf('"', from);
  while (at >= 0 && texts.length < most) {
    const end = closingQuote(line, at + 1);
    if (end < 0) break;
    texts.push(line.slice(at + 1, end));
    at = line.indexOf('"', end + 1);
  }
  return texts;
}

/** The next quote that no backslash stands before, or an even number of them. */
function closingQuote(line: string, from: number): number {
  for (let at = line.indexOf('"', from); at >= 0; at = line.indexOf('"', at + 1)) {
    let slashes = 0;
    while (at - slashes > from && line[at - slashes - 1] === "\\") slashes++;
    if (slashes % 2 === 0) return at;
  }
  return -1;
}

/** `\x1b`, `\"` and `\\` as the characters they stand for: servers write bytes so. */
function unescaped(text: string): string {
  if (!text.includes("\\")) return text;
  return text.replace(/(?:\\x[0-9A-Fa-f]{2})+|\\["\\]/g, (escape) =>
    escape[1] === "x" ? Buffer.from(escape.replaceAll("\\x", ""), "hex").toString() : escape[1]!,
  );
}
