import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { entries, moduleFile, moduleText } from "../../lua/build.js";
import { compose } from "../../lua/compose.js";

describe("the shipped scripts", () => {
  it.each(entries)("%s is what its Lua says (else run `pnpm lua`)", (name) => {
    expect(readFileSync(moduleFile(name), "utf8")).toBe(moduleText(name));
  });

  it("hold no comment: a reworded one keeps the SHA", () => {
    expect(compose("decide")).not.toMatch(/^\s*--/m);
    expect(compose("decide")).not.toContain("@include");
  });

  it("refuse an include that was misspelt", () => {
    const folder = mkdtempSync(join(tmpdir(), "tidegate-include-"));
    const file = join(folder, "time.lua");
    writeFileSync(file, '-- @include "shared/nothing"\n');
    expect(() => compose("decide", { "shared/time": pathToFileURL(file) })).toThrow("@include");
    rmSync(folder, { recursive: true });
  });

  it.each(entries)("%s touches no key that is not KEYS[i], and asks for the time once", (name) => {
    const text = compose(name);
    const calls = [...text.matchAll(/redis\.p?call\('(\w+)'(?:, ([\w.[\]]+))?/g)];
    expect(calls.length).toBeGreaterThan(2);
    // The keys' names in the functions, which get them from KEYS[i] below.
    for (const [call, command, key] of calls) {
      expect([call, command === "TIME" ? "" : "key"]).toEqual([
        call,
        (key ?? "").replace(/^(KEYS\[i\]|nonce)$/, "key"),
      ]);
    }
    for (const [taken] of text.matchAll(/KEYS\[[^\]]+\]/g))
      expect(taken).toMatch(/^KEYS\[(\w+ \+ )?(i|1)\]$/);
    expect(text.match(/'TIME'/g)).toHaveLength(1);
  });
});

describe("an algorithm", () => {
  const names = readdirSync(new URL("../../lua/algorithms", import.meta.url)).map((file) =>
    file.replace(".lua", ""),
  );

  it.each(names)("%s stands on both shelves, with a story", (name) => {
    const shelf = readdirSync(new URL("../../packages/core/src/algorithms", import.meta.url));
    expect(shelf).toEqual(expect.arrayContaining([`${name}.ts`, `${name}.story.ts`]));
  });
});
