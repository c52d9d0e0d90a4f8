/** What each entry exports, in both module formats: the type of each name. */
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);

/** @param {Record<string, unknown>} module */
const typesOf = (module) =>
  Object.fromEntries(
    Object.keys(module)
      .sort()
      .map((name) => [name, typeof module[name]]),
  );

const told = [];
for (const entry of process.argv.slice(2)) {
  const required = require(entry);
  told.push({ entry, imported: typesOf(await import(entry)), required: typesOf(required) });
}
console.log(JSON.stringify(told));
