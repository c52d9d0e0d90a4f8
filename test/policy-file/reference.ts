/** The reference tables of docs/policy-file.md, out of the table that the loader reads by. */
import { adviceFor, type Option, type Options, type Shape } from "../../packages/policy-file/src/shapes.ts";
import { DEFINITIONS, FILE } from "../../packages/policy-file/src/table.ts";

type Of<K extends Shape["kind"]> = Shape & { kind: K };

const variants = (DEFINITIONS["policy"] as Of<"variants">).of;
const [firstPolicy] = Object.values(variants);
const identities = optionsOf((DEFINITIONS["by"] as Of<"either">).of);

/** The options that policies have besides their numbers. */
const shared = Object.fromEntries(
  Object.entries(firstPolicy!.options).filter(
    ([name, option]) =>
      name !== "algorithm" && Object.values(variants).every(({ options }) => options[name] === option),
  ),
);

/** A table for each heading. */
export const reference: Readonly<Record<string, string>> = {
  "The whole file": tableOf(FILE.options),
  Policies: tableOf(shared),
  ...Object.fromEntries(
    Object.entries(variants).map(([name, { options }]) => [
      name,
      tableOf(Object.fromEntries(Object.entries(options).filter(([option]) => !(option in shared)))),
    ]),
  ),
  Identities: [tableOf(identities), nestedTable("ip", identities), nestedTable("apiKey", identities)].join(
    "\n\n",
  ),
  Routes: tableOf(optionsOf((FILE.options["routes"]!.shape as Of<"named">).of)),
  Headers: tableOf(optionsOf(FILE.options["headers"]!.shape)),
};

/** The options of the first mapping among some shapes. */
function optionsOf(shape: Shape | readonly Shape[]): Readonly<Record<string, Option>> {
  const shapes = "kind" in shape ? (shape.kind === "either" ? shape.of : [shape]) : shape;
  const found = shapes.find(
    (one): one is Options | Of<"choice"> => one.kind === "options" || one.kind === "choice",
  );
  return found!.options;
}

/** One option of a choice, with those within it. */
function nestedTable(name: string, options: Readonly<Record<string, Option>>): string {
  return tableOf(optionsOf(options[name]!.shape), `\`${name}: …\``);
}

function tableOf(options: Readonly<Record<string, Option>>, head = "option"): string {
  return [`| ${head} | value | without it | |`, "|---|---|---|---|", ...rowsOf(options)].join("\n");
}

function rowsOf(options: Readonly<Record<string, Option>>, at = ""): string[] {
  return Object.entries(options).flatMap(([name, { shape, description, usual, required }]) => {
    const value = adviceFor(shape, DEFINITIONS).replace(/^give /, "");
    const without = required ? "needed" : usual === undefined ? "" : `\`${usual}\``;
    const row = `| \`${at}${name}\` | ${value} | ${without} | ${description} |`;
    return [row, ...(hasOwnTable(name) ? [] : rowsOf(inner(shape), `${at}${name}.`))];
  });
}

function hasOwnTable(name: string): boolean {
  return ["headers", "ip", "apiKey"].includes(name);
}

function inner(shape: Shape): Readonly<Record<string, Option>> {
  const shapes = shape.kind === "either" ? shape.of : [shape];
  return shapes.find((one): one is Options => one.kind === "options")?.options ?? {};
}
