/** What a Redis user needs, read out of the scripts as they are shipped. */
import { compose } from "../../lua/compose.js";

/** What core sends by itself. */
const SENT = ["evalsha", "eval", "script|load", "info"];

/** The commands that a script calls. */
function calledBy(entry: string): string[] {
  const text = compose(entry);
  const called = [...text.matchAll(/\bredis\.p?call\('([A-Z]+)'/g)].map(([, name]) => name!.toLowerCase());
  const answers = text.match(/\bredis\.error_reply\b/g) ?? [];
  // A name that is put together, or a call under another name, would not be seen.
  if (text.match(/\bredis\b(?=\s*[.[(,)])/g)?.length !== called.length + answers.length)
    throw new Error(`${entry}.lua calls a command in a way that this does not read`);
  return called;
}

const listOf = (...commands: string[]): string[] => [...new Set([...SENT, ...commands])].toSorted();

/** To decide, settle and reserve. */
export const deciding = listOf(...calledBy("decide"), ...calledBy("settle"));

/** To reset, block and unblock. */
export const managing = listOf(...calledBy("manage"));
