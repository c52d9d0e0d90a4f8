/** docs/testing.md: its tests pass, all on the one application that it makes. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { type Block, blocksOf, read, root } from "./markdown.ts";

mkdirSync(join(root, ".cache"), { recursive: true });
const folder = mkdtempSync(join(root, ".cache/testing-page-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const blocks = blocksOf(read("docs/testing.md")).filter(({ language }) => language === "ts");
const APPLICATION = blocks.find(({ text }) => text.includes("export function createApp"))!;
const users = blocks.filter(({ text }) => text.includes("= createApp("));

/** Tests that a block has told, by their names. */
const told: [name: string, run: () => Promise<void>][] = [];
Object.assign(globalThis, {
  [Symbol.for("tidegate.docs.it")]: (name: string, run: () => Promise<void>) => told.push([name, run]),
});

it("all blocks that make an application mean the same one", () => {
  const [, takes] = /createApp\(where: (.*?)\): Express/.exec(APPLICATION.text)!;
  const declared = users.map(({ preamble }) => /createApp: \(where: (.*?)\) => Express/.exec(preamble)?.[1]);
  expect(users.length).toBe(3);
  expect(declared).toEqual(users.map(() => takes));
});

it.each(users.map((block) => [block.line, block] as const))(
  "the block in line %i holds of it",
  async (_, block) => {
    told.length = 0;
    const file = join(folder, `block-${block.line}.ts`);
    writeFileSync(join(folder, "app.ts"), moduleOf(APPLICATION));
    writeFileSync(file, moduleOf(block));
    await import(/* @vite-ignore */ file);
    for (const [name, run] of told) await expect(run(), name).resolves.toBeUndefined();
    expect(told.length).toBe(block.text.match(/^it\(/gm)?.length ?? 0);
  },
);

/** The block as a file. A test that it tells is told to us, and what its preamble declares is made. */
function moduleOf({ preamble, text }: Block): string {
  const head = preamble
    .replace(/import \{ (expect, )?it \} from "vitest";/, (_, more: string) => {
      return `${more ? 'import { expect } from "vitest"; ' : ""}const it = globalThis[Symbol.for("tidegate.docs.it")];`;
    })
    .replace(/declare const createApp: .*?;(?= |$)/, 'import { createApp } from "./app.ts";')
    .replace(/declare const isKnownKey: .*?;(?= |$)/, "const isKnownKey = async () => true;");
  return `${head}\n${text}`;
}
