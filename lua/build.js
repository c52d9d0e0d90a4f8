/**
 * Writes each entry script as a module of core: `node lua/build.js`. With `--check`, writes
 * nothing and fails when a module is not what its Lua says.
 *
 * A module, not a file beside it: it survives bundlers and both module formats, and nothing is
 * read from disk at run time. Committed: the diff shows the exact bytes whose SHA changes.
 */
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { compose } from "./compose.js";

export const entries = ["decide", "settle", "manage"];

/** @param {string} name */
export const moduleFile = (name) => new URL(`../packages/core/src/scripts/${name}.ts`, import.meta.url);

/** @param {string} name */
export function moduleText(name) {
  const text = compose(name);
  const unsafe = text.match(/[`\\]|\$\{/);
  if (unsafe) throw new Error(`${name}.lua holds ${unsafe[0]}, which a template literal would change`);
  return `// Made from lua/${name}.lua by \`pnpm lua\`. Edit that file, not this one.
export const ${name} = {
  sha: "${createHash("sha1").update(text).digest("hex")}",
  text: \`${text}\`,
};
`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const check = process.argv.includes("--check");
  for (const name of entries) {
    const file = moduleFile(name);
    const made = moduleText(name);
    if (!check) writeFileSync(file, made);
    else if (readFileSync(file, "utf8") !== made) {
      console.error(
        `packages/core/src/scripts/${name}.ts is not what lua/${name}.lua says: run \`pnpm lua\`.`,
      );
      process.exitCode = 1;
    }
  }
}
