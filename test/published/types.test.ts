/** The packed packages in TypeScript, under every setting of modules. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { ran } from "../../scripts/published.js";
import { useSite } from "./site.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const site = useSite();
const source = readFileSync(new URL("programs/every-package.ts", import.meta.url), "utf8");

interface Setting {
  /** What the nearest package.json says, which may decide what a file is. */
  readonly format: "commonjs" | "module";
  readonly options: Readonly<Record<string, unknown>>;
  /** Without `skipLibCheck`: our declarations are checked themselves. It takes a while, and CommonJS and ESM have one set each. */
  readonly whole?: true;
  /** The error that a default import of ours is, where one is tried. */
  readonly noDefault: string;
}

const NO_DEFAULT = "default.ts(1,8): error TS1192: Module ";
/** A default is made up for CommonJS, so the import is none; what is imported is no function. */
const NOT_CALLABLE = "default.ts(2,1): error TS2349: This expression is not callable.";

const SETTINGS: Readonly<Record<string, Setting>> = {
  // As TypeScript 5 resolves for it by itself: subpaths are found by `typesVersions` alone.
  "commonjs with esModuleInterop": {
    format: "commonjs",
    options: { module: "commonjs", esModuleInterop: true },
    noDefault: NOT_CALLABLE,
  },
  "commonjs without esModuleInterop": {
    format: "commonjs",
    options: { module: "commonjs", esModuleInterop: false },
    whole: true,
    noDefault: NO_DEFAULT,
  },
  "node16, a CommonJS package": {
    format: "commonjs",
    options: { module: "node16" },
    noDefault: NOT_CALLABLE,
  },
  "node16, an ESM package": { format: "module", options: { module: "node16" }, noDefault: NO_DEFAULT },
  "nodenext, a CommonJS package": {
    format: "commonjs",
    options: { module: "nodenext" },
    noDefault: NOT_CALLABLE,
  },
  "nodenext, an ESM package": {
    format: "module",
    options: { module: "nodenext", verbatimModuleSyntax: true },
    whole: true,
    noDefault: NO_DEFAULT,
  },
  "bundler with esnext": {
    format: "module",
    options: { module: "esnext", moduleResolution: "bundler" },
    noDefault: NO_DEFAULT,
  },
  "bundler with preserve": {
    format: "module",
    options: { module: "preserve", moduleResolution: "bundler" },
    noDefault: NO_DEFAULT,
  },
};

const STRICT = {
  target: "es2022",
  lib: ["es2023"],
  types: ["node"],
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
};

/** The compiler that the application has, and the repository's own. It does not matter where one is installed. */
const compilers = {
  "TypeScript 5.9": () => join(site.folder, "node_modules/typescript/bin/tsc"),
  "TypeScript 7": () => join(root, "node_modules/typescript/bin/tsc"),
};

/** An application in a folder of its own; one file of it imports a default. */
function project(name: string, { format, options, whole }: Setting): string {
  const folder = join(site.room, name.replace(/\W+/g, "-"));
  mkdirSync(folder);
  const write = (file: string, text: string) => writeFileSync(join(folder, file), text);
  write("package.json", JSON.stringify({ type: format }));
  const compilerOptions = { ...STRICT, ...options, skipLibCheck: whole !== true };
  write("tsconfig.json", JSON.stringify({ compilerOptions, files: ["main.ts", "default.ts"] }));
  write("main.ts", source);
  write("default.ts", 'import tidegate from "@tidegate/express";\ntidegate({});\n');
  return folder;
}

/** What a compiler says of the application and of our packages. What others' types say of each other is theirs. */
async function complaints(compiler: string, folder: string): Promise<string[]> {
  const { output } = await ran(process.execPath, [compiler, "--pretty", "false"], { cwd: folder });
  const lines = output.split("\n").filter((line) => line !== "");
  return lines.filter((line) => /^\S/.test(line) && !/^[./]*node_modules\/(?!@tidegate\/)/.test(line));
}

describe.each(Object.entries(compilers))("P34 T2 %s", { timeout: 180_000 }, (name, compiler) => {
  const settings = Object.entries(SETTINGS).filter(([setting]) => isKnownTo(name, setting));

  it.each(settings)(
    "%s: every entry has its types, what is compiled runs, and a default import is an error",
    async (setting, given) => {
      const folder = project(`${name} ${setting}`, given);
      const found = await complaints(compiler(), folder);
      expect(found).toEqual([expect.stringContaining(given.noDefault)]);
      const { output } = await ran(process.execPath, ["main.js"], { cwd: folder });
      expect(output).toBe("function policies object object");
    },
  );
});

/** TypeScript 7 has taken out what it calls out of date: interop can no longer be left out. */
function isKnownTo(compiler: string, setting: string): boolean {
  return compiler !== "TypeScript 7" || !setting.includes("without esModuleInterop");
}
