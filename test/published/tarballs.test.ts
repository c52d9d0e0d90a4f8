/** What is in the packed packages: nothing that does not belong, nothing that is missing, nothing that has grown unseen. */
import { existsSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { parseSync } from "vite";
import { beforeAll, describe, expect, it } from "vitest";
import { PAGE, sizeOf, sizesIn } from "../../scripts/package-sizes.js";
import { filesIn, packed, type Tarball } from "../../scripts/published.js";
import { packages } from "../../scripts/setup.js";

const root = fileURLToPath(new URL("../..", import.meta.url));

interface Manifest {
  name: string;
  version: string;
  license: string;
  description: string;
  type: string;
  sideEffects: boolean;
  engines: Record<string, string>;
  publishConfig: Record<string, unknown>;
  exports: Record<string, unknown>;
  bin?: Record<string, string>;
  dependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
}

const folders = packages();
const manifestOf = (folder: string) =>
  JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8")) as Manifest;
const all = folders.map((folder): [string, string, Manifest] => {
  const manifest = manifestOf(folder);
  return [manifest.name, folder, manifest];
});

let tarballs: Tarball[];
beforeAll(async () => void (tarballs = await packed()), 120_000);
const pathsOf = (name: string) =>
  filesIn(tarballs.find((tarball) => tarball.name === name)!.file).map(({ path }) => path);

it("seven packages are published, and what others need comes first", () => {
  const names = tarballs.map(({ name }) => name);
  expect([...names].sort()).toEqual([
    "@tidegate/cli",
    "@tidegate/compat",
    "@tidegate/core",
    "@tidegate/express",
    "@tidegate/fastify",
    "@tidegate/koa",
    "@tidegate/policy-file",
  ]);
  expect(names[0]).toBe("@tidegate/core");
  expect(names.indexOf("@tidegate/policy-file")).toBeLessThan(names.indexOf("@tidegate/cli"));
});

/** What each source becomes, in both formats. */
const BUILT = /\.(d\.ts|d\.cts|js|cjs)(\.map)?$/;

const ROOT_FILES: Readonly<Record<string, string[]>> = { "@tidegate/policy-file": ["schema.json"] };

describe.each(all)("the tarball of %s", (name, folder, manifest) => {
  it("holds each source and what is built of it in both formats, and else four files", () => {
    const paths = pathsOf(name);
    const sources = paths.filter((path) => path.startsWith("src/"));
    expect(sources.filter((path) => !/^src\/[\w/-]+\.(ts|cjs)$/.test(path))).toEqual([]);
    expect(sources.filter((path) => /\.(test|story|kit|bench)\.ts$/.test(path))).toEqual([]);
    const built = sources.flatMap((path) =>
      ["esm", "cjs"].flatMap((format) => builtOf(path).map((file) => `dist/${format}/${file}`)),
    );
    const others = ["LICENSE", "README.md", "package.json", ...(ROOT_FILES[name] ?? [])];
    expect(paths).toEqual([...others, ...sources, ...built, "dist/cjs/package.json"].sort());
    expect(built.every((path) => BUILT.test(path))).toBe(true);
  });

  it("has every file that its manifest names", () => {
    const paths = pathsOf(name);
    const named = [...targetsIn(manifest.exports), ...Object.values(manifest.bin ?? {})];
    expect(named.length).toBeGreaterThan(1);
    expect(named.filter((path) => !paths.includes(posix.normalize(path)))).toEqual([]);
  });

  it("imports nothing that its manifest does not name", () => {
    const { dependencies = {}, peerDependencies = {} } = manifest;
    const known = [...Object.keys({ ...dependencies, ...peerDependencies }), name];
    const wanted = pathsOf(name)
      .filter((path) => /^dist\/.*\.c?js$/.test(path))
      .flatMap((path) => importsIn(readFileSync(join(root, folder, path), "utf8"), path));
    const bare = [...new Set(wanted)].filter((specifier) => !/^[.]|^node:/.test(specifier));
    expect(bare.filter((specifier) => builtinModules.includes(specifier))).toEqual([]);
    expect(bare.map(packageOf).filter((wanted) => !known.includes(wanted))).toEqual([]);
    expect(Object.keys(dependencies).filter((name) => !bare.map(packageOf).includes(name))).toEqual([]);
  });

  it("says what a registry shows: licence, text, engines, public, no side effects", () => {
    expect(manifest).toMatchObject({
      license: "MIT",
      type: "module",
      sideEffects: false,
      engines: { node: ">=20" },
      publishConfig: { access: "public" },
    });
    expect(manifest.description.length).toBeGreaterThan(40);
    expect(existsSync(join(root, folder, "README.md"))).toBe(true);
  });

  it(`is as large as ${PAGE} says, within a tenth`, () => {
    const told = sizesIn(readFileSync(join(root, PAGE), "utf8")).find((size) => size.name === name);
    const size = sizeOf(tarballs.find((tarball) => tarball.name === name)!);
    expect(told, "`node scripts/package-sizes.js` writes the table").toBeDefined();
    for (const key of ["tarballKb", "unpackedKb", "files"] as const) {
      expect(told![key], key).toBeGreaterThan(size[key] * 0.9);
      expect(told![key], key).toBeLessThan(size[key] * 1.1);
    }
  });
});

it("all packages have one version, so that one number tells what fits what", () => {
  expect(new Set(tarballs.map(({ version }) => version)).size).toBe(1);
});

/** What a source becomes, below a folder of `dist`. */
function builtOf(path: string): string[] {
  const stem = path.replace(/^src\//, "").replace(/\.c?ts$|\.cjs$/, "");
  const c = path.endsWith(".cjs") ? "c" : "";
  return [`${stem}.${c}js`, `${stem}.d.${c}ts`].flatMap((file) => [file, `${file}.map`]);
}

/** The paths in `exports`, whatever the conditions before them. */
function targetsIn(exports: unknown): string[] {
  if (typeof exports === "string") return [exports];
  return Object.values(exports as object).flatMap(targetsIn);
}

const packageOf = (specifier: string): string =>
  specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");

/** What a module imports or requires, as it stands there. */
function importsIn(code: string, path: string): string[] {
  const { module } = parseSync(path, code);
  const required = [...code.matchAll(/\brequire\("([^"]+)"\)|\bimport\("([^"]+)"\)/g)];
  return [
    ...module.staticImports.map(({ moduleRequest }) => moduleRequest.value),
    ...module.staticExports.flatMap(({ entries }) =>
      entries.map(({ moduleRequest }) => moduleRequest?.value),
    ),
    ...required.map(([, name, dynamic]) => name ?? dynamic),
  ].filter((specifier) => specifier !== undefined);
}
