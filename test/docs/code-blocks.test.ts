import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { blocksOf, documents, read, root } from "./markdown.ts";

const FOLDER = join(root, ".cache/docs-blocks");

const blocks = documents.flatMap((file) =>
  blocksOf(read(file))
    .filter(({ language }) => language === "ts")
    .map((block) => ({ ...block, file: `${file.replaceAll("/", "+")}+line-${block.line}.ts` })),
);

/** The blocks are checked as a user would write them: strictly, and against our own types. */
const CONFIG = {
  extends: "../../packages/tsconfig.json",
  compilerOptions: { noEmit: true, rootDir: "../.." },
  include: ["*.ts"],
};

it("every ts block of the documents type-checks", { timeout: 120_000 }, () => {
  expect(blocks.length).toBeGreaterThan(0);
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, "tsconfig.json"), JSON.stringify(CONFIG));
  // `export {}` makes a module of every block, so that none sees the names of another.
  for (const { file, preamble, text } of blocks)
    writeFileSync(join(FOLDER, file), `${preamble}\n${text}\nexport {};\n`);
  const tsc = join(root, "node_modules/.bin/tsc");
  const { stdout, status } = spawnSync(tsc, ["--project", FOLDER, "--pretty", "false"], {
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  expect(stdout).toBe("");
  expect(status).toBe(0);
});
