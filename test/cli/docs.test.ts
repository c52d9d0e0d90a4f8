import { readdirSync, readFileSync } from "node:fs";
import { createIo, createProgram } from "@tidegate/cli";
import { expect, it } from "vitest";
import { PAGE, page } from "../../scripts/cli-docs.js";

it("docs/cli.md is what scripts/cli-docs.js writes of the parser", async () => {
  expect(readFileSync(PAGE, "utf8")).toBe(await page());
});

it("docs/cli.md tells of every command and every option, with an example of each command", () => {
  const text = readFileSync(PAGE, "utf8");
  const { stdin, stdout, stderr } = process;
  const program = createProgram(createIo({ stdin, stdout, stderr, env: {} }));
  for (const command of program.commands) {
    const part = text.split(`\n## ${command.name()}\n`)[1]?.split("\n## ")[0];
    expect(part, command.name()).toContain(`tidegate ${command.name()} `);
    for (const { flags } of command.options) expect(part).toContain(`| \`${flags}\` |`);
    expect(part).toContain("```sh\n");
  }
});

it("docs/cli.md has an entry for every code of the command line's own, and for no other", () => {
  const src = new URL("../../packages/cli/src/", import.meta.url);
  const written = readdirSync(src, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .flatMap(
      (file) =>
        readFileSync(new URL(file, src), "utf8").match(/"TIDEGATE_(CLI_[A-Z_]+|BLOCKING_OFF)"/g) ?? [],
    )
    .map((quoted) => quoted.slice(1, -1));
  const listed = [...readFileSync(PAGE, "utf8").matchAll(/^\| `(TIDEGATE_\w+)` \|/gm)].map(
    ([, code]) => code!,
  );
  expect(listed.toSorted()).toEqual([...new Set(written)].toSorted());
});
