import type { Io } from "../io.ts";
import { plain } from "../plain.ts";
import { spanText, timeText } from "../times.ts";
import type { Explanation } from "./explain.ts";

/** Reasons are another's words, of any length. */
const MOST_OF_REASON = 500;

/** A line for each block, and whether anybody heeds it. @param found times in ms since 1970, by the server's clock */
export function blockLines(
  { colour }: Io,
  found: Pick<Explanation, "at" | "blocks" | "heedsBlocks">,
): string[] {
  const { at, blocks, heedsBlocks } = found;
  const lines = blocks.map(({ key, reason, until }) => {
    const span =
      until === undefined
        ? "until it is lifted"
        : `until ${timeText(until)} (${spanText(Math.max(0, until - at))})`;
    const why = reason === "" ? "no reason was given" : `"${plain(reason, MOST_OF_REASON)}"`;
    const who = /\{(.*)\}/.exec(key)?.[1] ?? key;
    return colour.red(`Blocked: ${plain(who)}, ${span}: ${why}.`);
  });
  if (lines.length > 0 && !heedsBlocks)
    lines.push(
      colour.yellow("The file has no `blocking: true`: an application that reads it heeds no block."),
    );
  return lines;
}
