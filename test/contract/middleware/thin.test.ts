/** A framework's package says in its framework's words what core has decided, and no more. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { transformWithOxc } from "vite";
import { describe, expect, it } from "vitest";
import { root } from "../../docs/markdown.ts";

const packages = readdirSync(join(root, "packages"), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);
const OTHERS = ["cli", "compat", "core", "policy-file"];
const frameworks = packages.filter((name) => !OTHERS.includes(name));

const sourcesOf = (name: string): string[] =>
  readdirSync(join(root, "packages", name, "src"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .map((file) => readFileSync(join(root, "packages", name, "src", file), "utf8"));

/** What is left of a source without its types, comments and empty lines. */
async function codeLines(source: string): Promise<string[]> {
  const { code } = await transformWithOxc(source, "index.ts");
  return code
    .replaceAll(/\/\*[^]*?\*\//g, "")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("//"));
}

/** What runs: neither imports nor exports of others' names. */
const isCode = (line: string) => !/^(import|export \*|export \{)/.test(line);

it("there is a package for each framework", () => {
  expect(frameworks).toEqual(["express", "fastify", "koa"]);
});

describe.each(frameworks)("@tidegate/%s", (name) => {
  it("has at most 110 lines of code", async () => {
    const lines = (await Promise.all(sourcesOf(name).map(codeLines))).flat().filter(isCode);
    expect(lines.length).toBeGreaterThan(10);
    expect(lines.length).toBeLessThanOrEqual(110);
  });

  it("imports core's index, its framework and what reads its patterns: no store, no client", () => {
    const imported = sourcesOf(name)
      .flatMap((source) => [...source.matchAll(/(?:from|import\()\s*"([^"]+)"/g)])
      .map(([, module]) => module!);
    const known = {
      express: ["@tidegate/core", "express"],
      fastify: ["@tidegate/core", "fastify", "fastify-plugin", "find-my-way"],
      koa: ["@tidegate/core", "koa", "path-to-regexp"],
    };
    expect([...new Set(imported)].toSorted()).toEqual(known[name as keyof typeof known]);
  });

  it("uses nothing of core that keeps state or talks to Redis", () => {
    for (const source of sourcesOf(name))
      expect(source).not.toMatch(/\b(memoryStore|redisStore|ioredisClient|ScriptClient|Store)\b/);
  });
});
