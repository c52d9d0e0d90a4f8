/** docs/api: every name that can be imported, as its docstring tells it. `node scripts/api-docs.js` writes the pages. */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { textsOf } from "./api-docs/markdown.js";
import { readApi } from "./api-docs/read.js";

export const FOLDER = new URL("../docs/api/", import.meta.url);

/** Every page as it has to be, by the name of its file. */
export const pages = (api = readApi()) => textsOf(api);

async function write() {
  const texts = await pages();
  mkdirSync(FOLDER, { recursive: true });
  for (const name of readdirSync(FOLDER)) if (!texts.has(name)) rmSync(new URL(name, FOLDER));
  for (const [name, text] of texts) writeFileSync(new URL(name, FOLDER), text);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await write();
