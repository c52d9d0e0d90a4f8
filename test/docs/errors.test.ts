import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { read, root, sectionOf, tablesOf } from "./markdown.ts";

const page = read("docs/errors.md");

/** The words of a union type, as the source writes them. */
function unionIn(file: string, name: string): string[] {
  const [, body] = new RegExp(`export type ${name} =([^;]*);`).exec(withoutComments(read(file)))!;
  return [...body!.matchAll(/"(\w+)"/g)].map(([, word]) => word!);
}

const withoutComments = (source: string): string => source.replace(/\/\*\*[^]*?\*\//g, "");

const column = (heading: string, name: string): string[] =>
  tablesOf(sectionOf(page, heading)).flatMap((rows) => rows.map((row) => row[name]!));

/** Every code that stands anywhere in the packages' sources. */
const written = new Set(
  ["core", "express", "fastify", "koa", "policy-file", "cli", "compat"]
    .map((name) => `packages/${name}/src`)
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
        .filter((file) => file.endsWith(".ts"))
        .flatMap(
          (file) => readFileSync(join(root, folder, file), "utf8").match(/"TIDEGATE_[A-Z_]+[A-Z]"/g) ?? [],
        )
        .map((quoted) => quoted.slice(1, -1)),
    ),
);

describe("docs/errors.md", () => {
  const atStart = column("When a limiter is made", "code");
  const atCall = column("When a limiter is called", "code");
  const warnings = column("Warnings", "code");

  it("has an entry for every code of a configuration", () => {
    const codes = unionIn("packages/core/src/errors.ts", "ConfigErrorCode");
    expect(codes.length).toBeGreaterThan(0);
    expect([...atStart, ...atCall]).toEqual(expect.arrayContaining(codes));
  });

  it("has an entry for every code of a call", () => {
    expect(atCall).toEqual(unionIn("packages/core/src/errors.ts", "RequestErrorCode"));
  });

  it("has an entry for every class of store error, with its code", () => {
    const classes = unionIn("packages/core/src/errors.ts", "StoreErrorClass");
    expect(column("When the store cannot decide", "class")).toEqual(classes);
    expect(column("When the store cannot decide", "code")).toEqual(
      classes.map((reason) => `TIDEGATE_STORE_${reason.toUpperCase()}`),
    );
  });

  it("has an entry for every warning", () => {
    expect(warnings).toEqual(unionIn("packages/core/src/observe/events.ts", "WarningCode"));
  });

  it("has an entry for every code in the sources, and none for another", () => {
    const elsewhere = ["In a policy file", "In a simulation", "On the command line"].flatMap((heading) =>
      column(heading, "code"),
    );
    const listed = [...atStart, ...atCall, ...elsewhere, ...warnings].toSorted();
    expect(listed).toEqual([...written].toSorted());
  });
});
