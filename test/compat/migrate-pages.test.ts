/** That docs/migrate speaks of the peers as they are installed: their versions, every option of theirs, and their code. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { blocksOf, read, root, tablesOf } from "../docs/markdown.ts";

const { resolve } = createRequire(join(root, "package.json"));

/** The folder of an installed package; `undefined` where it is not. */
function folderOf(name: string): string | undefined {
  for (const path of resolve.paths(name) ?? []) {
    const folder = join(path, name);
    if (existsSync(join(folder, "package.json"))) return folder;
  }
  return undefined;
}

interface Page {
  readonly file: string;
  readonly packages: Readonly<Record<string, string>>;
  /** Each option of the peer, as its own types or sources have it. */
  readonly options: () => string[];
}

const typesOf = (name: string, file: string): string =>
  readFileSync(join(folderOf(name)!, file), "utf8").replace(/\/\*[^]*?\*\//g, "");

/** The members of a type, in the text of a declaration file. */
function membersOf(types: string, start: RegExp, indent: RegExp): string[] {
  const found = start.exec(types);
  if (!found) throw new Error(`there is no ${start}`);
  const body = types.slice(found.index + found[0].length);
  const end = body.search(/^\s{0,2}\};?$/m);
  return [...body.slice(0, end).matchAll(indent)].map(([, name]) => name!);
}

const interfacesIn = (types: string, names: readonly string[], indent = /^ {2,4}(\w+)\??:/gm): string[] =>
  names.flatMap((name) => membersOf(types, new RegExp(`interface ${name}\\b[^{]*\\{`), indent));

const pages: readonly Page[] = [
  {
    file: "express-rate-limit.md",
    packages: { "express-rate-limit": "8.7.5", "rate-limit-redis": "6.0.1" },
    options: () => [
      ...membersOf(
        typesOf("express-rate-limit", "dist/index.d.ts"),
        /^export type Options = \{/m,
        /^\t(\w+)\??:/gm,
      ),
      ...["Common", "Single", "Cluster"].flatMap((kind) =>
        membersOf(
          typesOf("rate-limit-redis", "dist/index.d.mts"),
          new RegExp(`^type ${kind}Options = [^{]*\\{`, "m"),
          /^ {4}readonly (\w+)\??:/gm,
        ),
      ),
    ],
  },
  {
    file: "fastify-rate-limit.md",
    packages: { "@fastify/rate-limit": "11.2.0" },
    options: () =>
      interfacesIn(
        typesOf("@fastify/rate-limit", "types/index.d.ts"),
        ["CreateRateLimitOptions", "RateLimitOptions", "RateLimitPluginOptions"],
        /^ {4}(\w+)\??:/gm,
      ),
  },
  {
    file: "nestjs-throttler.md",
    packages: { "@nestjs/throttler": "6.7.1", "@nest-lab/throttler-storage-redis": "1.2.0" },
    options() {
      const types = typesOf("@nestjs/throttler", "dist/throttler-module-options.interface.d.ts");
      return [
        ...interfacesIn(types, ["ThrottlerOptions"]),
        ...membersOf(types, /^export type ThrottlerModuleOptions = [^{]*\{/m, /^ {4}(\w+)\??:/gm),
      ];
    },
  },
  {
    file: "koa-ratelimit.md",
    packages: { "koa-ratelimit": "6.0.0" },
    // It has no types: what it reads of its options, and what its limiters do.
    options: () => [
      ...[...typesOf("koa-ratelimit", "index.js").matchAll(/opts\.(\w+)/g)].map(([, name]) => name!),
      ...[...typesOf("koa-ratelimit", "index.js").matchAll(/^ {2,4}(\w+) = 'X-/gm)].map(([, name]) => name!),
      "driver",
      "db",
      "duration",
      "max",
      "namespace",
    ],
  },
  {
    file: "rate-limiter-flexible.md",
    packages: { "rate-limiter-flexible": "11.4.0" },
    options() {
      const types = typesOf("rate-limiter-flexible", "types.d.ts");
      const names = [...types.matchAll(/^interface (I\w*(?:Options|Opts)\w*)/gm)].map(([, name]) => name!);
      return interfacesIn(types, names, /^ {4}(\w+)\??[:(]/gm);
    },
  },
  {
    file: "upstash-ratelimit.md",
    packages: { "@upstash/ratelimit": "2.2.0" },
    // Not installed, as its client speaks to Upstash alone: read of `dist/index.d.ts` of 2.2.0.
    options: () =>
      (
        "redis limiter prefix ephemeralCache timeout analytics cacheScripts enableProtection denyListThreshold " +
        "dynamicLimits enableTelemetry geo rate ip userAgent country"
      ).split(" "),
  },
];

/** All that stands in code marks in the first column of a page's tables. */
const namedOn = (file: string): Set<string> =>
  new Set(
    tablesOf(read(`docs/migrate/${file}`))
      .flatMap((rows) => rows.map((row) => `\`${row["option"] ?? row["theirs"] ?? ""}\``))
      .flatMap((cell) => [...cell.matchAll(/\w+/g)].map(([word]) => word)),
  );

describe.each(pages)("docs/migrate/$file", ({ file, packages, options }) => {
  const text = read(`docs/migrate/${file}`);

  it("is of the versions that are installed", () => {
    for (const [name, version] of Object.entries(packages)) {
      expect(text).toMatch(new RegExp(`Read of .*${name} ${version.replaceAll(".", "\\.")}`));
      const folder = folderOf(name);
      if (folder)
        expect(JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).version).toBe(version);
    }
  });

  it("names every option", () => {
    const all = [...new Set(options())];
    expect(all.length).toBeGreaterThan(8);
    const named = namedOn(file);
    expect(all.filter((name) => !named.has(name))).toEqual([]);
  });

  it("says the versions that the list of pages says", () => {
    const [rows] = tablesOf(read("docs/migrate/README.md"));
    const row = rows!.find(({ page }) => page!.includes(file))!;
    for (const version of Object.values(packages).slice(0, 1)) expect(row["version read"]).toContain(version);
  });
});

/** What blocks are given that stands for the reader's own application. */
const AROUND: Record<string, string> = {
  "express-rate-limit.md": `import type { Express } from "express"; declare const app: Express; declare const client: { sendCommand(args: string[]): Promise<string> };`,
  "fastify-rate-limit.md": `import type { FastifyInstance, RouteHandlerMethod } from "fastify"; declare const app: FastifyInstance; declare const search: RouteHandlerMethod;`,
  "nestjs-throttler.md": `import type { ThrottlerStorage } from "@nestjs/throttler"; declare const storage: ThrottlerStorage;`,
  "koa-ratelimit.md": `import type Koa from "koa"; declare const app: Koa;`,
  "rate-limiter-flexible.md": `import type { Redis } from "ioredis"; import type { ServerResponse } from "node:http"; declare const client: Redis; declare const userId: string; declare const response: ServerResponse;`,
};

/** Packages without types, and what a page uses of them. */
const UNTYPED = `declare module "koa-ratelimit" { export default function ratelimit(options: Record<string, any>): import("koa").Middleware; }\n`;

/**
 * Type-checks blocks in a program of their own, as they would stand beside the peers: @fastify/rate-limit and
 * @tidegate/fastify exclude each other in one program.
 */
function check(name: string, blocks: readonly string[], around: string): string {
  mkdirSync(join(root, ".cache"), { recursive: true });
  const folder = mkdtempSync(join(root, ".cache/migrate-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const compilerOptions = {
    noEmit: true,
    rootDir: "../..",
    noImplicitAny: false,
    useUnknownInCatchVariables: false,
  };
  const config = { extends: "../../packages/tsconfig.json", compilerOptions, include: ["*.ts"] };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  writeFileSync(join(folder, "untyped.d.ts"), UNTYPED);
  blocks.forEach((text, i) =>
    writeFileSync(join(folder, `block-${i}.ts`), `${around}\n${text}\nexport {};\n`),
  );
  const tsc = join(root, "node_modules/.bin/tsc");
  const { stdout } = spawnSync(tsc, ["--project", folder, "--pretty", "false"], {
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  return stdout.replaceAll(dirname(folder), name);
}

describe("the code of the peers, as the pages show it", () => {
  it.each(Object.entries(AROUND))(
    "docs/migrate/%s type-checks beside the peer",
    { timeout: 120_000 },
    (file, around) => {
      const blocks = blocksOf(read(`docs/migrate/${file}`)).filter(({ language }) => language === "js");
      expect(blocks.length).toBeGreaterThan(0);
      expect(
        check(
          file,
          blocks.map(({ text }) => text),
          around,
        ),
      ).toBe("");
    },
  );

  it("packages/compat/README.md type-checks beside the peers", { timeout: 120_000 }, () => {
    const blocks = blocksOf(read("packages/compat/README.md")).filter(({ language }) => language === "js");
    const [express, fastify, nest] = blocks.map(({ text }) => text);
    const apps = ["express-rate-limit.md", "fastify-rate-limit.md", "nestjs-throttler.md"];
    expect(blocks).toHaveLength(3);
    [express!, fastify!, nest!].forEach((text, i) =>
      expect(check(apps[i]!, [text], AROUND[apps[i]!]!)).toBe(""),
    );
  });
});
