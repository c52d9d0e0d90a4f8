/**
 * One entry script in, one self-contained script out. `node lua/compose.js decide` prints it.
 *
 * Comments and blank lines are dropped, so that rewording one does not change the SHA that is
 * in anybody's production.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const INCLUDE = /^--- @include "(.+)"$/gm;
/** Lines that one entry alone needs: a function costs a script something at every run, used or not. */
const ONLY = /^--- @only "(.+)"\n([^]*?)^--- @end\n/gm;
const COMMENT = /^[ \t]*--\[\[[^]*?\]\]\n|^[ \t]*--.*\n/gm;
const BLANK = /^\s*\n/gm;

/**
 * @param {string} name the entry, without `.lua`
 * @param {Record<string, URL>} [swap] files that stand in for parts, by the part's name
 * @returns {string}
 */
export function compose(name, swap = {}) {
  const included = new Set();
  /** @type {(part: string) => string} */
  const read = (part) => {
    if (included.has(part)) return "";
    included.add(part);
    const file = swap[part] ?? new URL(`${part}.lua`, import.meta.url);
    return readFileSync(file, "utf8").replace(INCLUDE, (_, next) => read(next));
  };
  const whole = read(name).replace(ONLY, (_, entry, lines) => (entry === name ? lines : ""));
  const missed = whole.match(/^.*@(include|only|end).*$/m);
  if (missed) throw new Error(`${name}.lua: this line was not understood: ${missed[0]}`);
  return whole.replace(COMMENT, "").replace(BLANK, "");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.stdout.write(compose(process.argv[2] ?? "decide"));
}
