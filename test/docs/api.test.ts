/** docs/api: made from the docstrings, which say what a machine can ask of them. */
import { existsSync, readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { FOLDER, pages } from "../../scripts/api-docs.js";
import type { Docstring } from "../../scripts/api-docs/docstring.js";
import { defaultIn, firstSentence, inCell, linked } from "../../scripts/api-docs/prose.js";
import { type Item, type Member, readApi } from "../../scripts/api-docs/read.js";
import { faultsOf, faultsOfItem } from "../../scripts/api-docs/rules.js";
import { read } from "./markdown.ts";

const api = readApi();

describe("docs/api", async () => {
  const made = await pages(api);

  it("has a page for each entry point, and an index", () => {
    expect([...made.keys()].toSorted()).toEqual([
      "README.md",
      "compat-express-rate-limit.md",
      "compat-fastify-rate-limit.md",
      "compat-nestjs-throttler.md",
      "core-opentelemetry.md",
      "core-prometheus.md",
      "core-simulate.md",
      "core-testing.md",
      "core.md",
      "express.md",
      "fastify.md",
      "koa.md",
      "policy-file.md",
    ]);
  });

  it("holds what scripts/api-docs.js makes, and nothing else", () => {
    expect(existsSync(FOLDER) && readdirSync(FOLDER).toSorted()).toEqual([...made.keys()].toSorted());
  });

  it.each([...made.keys()])("%s is what the docstrings say now (node scripts/api-docs.js)", (name) => {
    expect(read(`docs/api/${name}`)).toBe(made.get(name));
  });

  it.each([...made.keys()])("%s names no host, no machine's path and no day", (name) => {
    const text = made.get(name)!;
    expect(text).not.toMatch(/https?:\/\/(?!localhost|example\.)/);
    expect(text).not.toMatch(/\]\((?:\/|file:)|\/(?:home|tmp|root|work|Users)\//);
  });

  it("is the same when it is made again", async () => {
    expect(await pages(readApi())).toEqual(made);
  });
});

describe("the docstrings", () => {
  it("say of every name and every option what it is, in which unit, and what holds without it", () => {
    expect(faultsOf(api)).toEqual([]);
  });
});

const doc = (text: string, unknown: string[] = []): Docstring => ({
  text,
  params: [],
  typeParams: [],
  returns: "",
  throws: [],
  examples: [],
  unknown,
});

const item = (over: Partial<Item>): Item => ({
  key: "a.ts#1",
  name: "Thing",
  kind: "interface",
  file: "a.ts",
  doc: doc("A thing."),
  signature: "",
  references: [],
  members: [],
  bases: [],
  ...over,
});

const member = (over: Partial<Member>): Member => ({
  name: "part",
  kind: "property",
  type: "string",
  optional: false,
  doc: doc("A part."),
  ...over,
});

/** What is wrong with a name, without where it stands. */
const faultsIn = (over: Partial<Item>, others: Item[] = []): string[] =>
  faultsOfItem(item(over), new Map(others.map((other) => [other.name, other]))).map((fault) =>
    fault.replace("a.ts: ", ""),
  );

describe("the rules for docstrings", () => {
  it.each<[string, Partial<Item>, string]>([
    ["a name without one", { doc: doc("") }, "Thing: say what it is in a sentence"],
    ["a name with a list alone", { doc: doc("- `a`: one") }, "Thing: say what it is in a sentence"],
    [
      "a word that is taken for a tag",
      { doc: doc("A store for", ["fastify"]) },
      "Thing: @fastify is taken for a tag, and all behind it is lost: put it into backticks",
    ],
    [
      "a link to what nobody can import",
      { doc: doc("Made by {@link hidden}.") },
      "Thing: {@link hidden} leads nowhere: no entry point exports it",
    ],
    ["a member without one", { members: [member({ doc: doc("") })] }, "Thing.part: say what it is"],
    [
      "a method without one",
      { members: [member({ kind: "method", type: "(): void", doc: doc("") })] },
      "Thing.part: say what it is",
    ],
  ])("notice %s", (_, over, fault) => {
    expect(faultsIn(over)).toEqual([fault]);
  });

  it.each([
    ["waitMs", "number", "How long to wait.", "say its unit: milliseconds"],
    ["atUs", "number | undefined", "When it was, ms.", "say its unit: µs"],
    ["retrySeconds", "number | null", "How long to wait.", "say its unit: seconds"],
    ["startsAt", "number", "When it starts.", "say its unit: milliseconds or seconds, and since when"],
    ["limit", "number", "The limit.", "say what the number counts, and in which unit"],
    ["marks", "readonly number[]", "Marks.", "say what the number counts, and in which unit"],
    ["clock", "() => number", "Tells the time.", "say what the number counts, and in which unit"],
  ])("notice a number without its unit: %s", (name, type, text, fault) => {
    expect(faultsIn({ members: [member({ name, type, doc: doc(text) })] })).toEqual([
      `Thing.${name}: ${fault}`,
    ]);
  });

  const LEFT_OUT = 'say what holds without it, "… by default", or what is needed instead';

  it.each(["number", "string | undefined", "boolean", '"first" | "clock"', "Mode"])(
    "notice an option of type %s that does not say what holds without it",
    (type) => {
      const option = member({ name: "size", type, optional: true, doc: doc("How many units.") });
      expect(faultsIn({ name: "ThingOptions", members: [option] })).toEqual([
        `ThingOptions.size: ${LEFT_OUT}`,
      ]);
      const sound = { ...option, doc: doc("How many units. 5 by default.") };
      expect(faultsIn({ name: "ThingOptions", members: [sound] })).toEqual([]);
    },
  );

  it("ask no default of a function, of what has to be given, and of what is no option", () => {
    const given = member({ name: "size", type: "number", doc: doc("How many units.") });
    const named = member({ name: "find", type: "(id: string) => boolean", optional: true });
    expect(faultsIn({ name: "ThingOptions", members: [given, named] })).toEqual([]);
    expect(faultsIn({ name: "Thing", members: [{ ...given, optional: true }] })).toEqual([]);
  });

  it("ask nothing of a member that a base has a docstring for", () => {
    const silent = member({ doc: doc("") });
    const base = item({ name: "Base", members: [member({})] });
    expect(faultsIn({ bases: ["Base"], members: [silent] }, [base])).toEqual([]);
    const silentBase = item({ name: "Base", members: [silent] });
    expect(faultsIn({ bases: ["Base"], members: [silent] }, [silentBase])).toEqual([
      "Thing.part: say what it is",
    ]);
  });
});

describe("what is made of a docstring's words", () => {
  it.each([
    ["How long, milliseconds. 50 by default. More words.", "`50`"],
    ["Entries kept. 1 to 1,000, 100,000 by default.", "`100_000`"],
    ["How long, milliseconds: 30,000 by\ndefault.", "`30_000`"],
    ['Begins every key. `"rl"` by default.', '`"rl"`'],
    ["Off or on. False by default.", "`false`"],
    ["True by default, with `redis`.", "`true`"],
    ['When it begins: `"first"` (the default) with its first request.', '`"first"`'],
    ['What answers:\n- `"open"` (the default): it passes\n- `"closed"`: it fails', '`"open"`'],
    ["A client. Omitted: this process's memory.", "this process's memory"],
    ["Who is counted. In HTTP the client's address by default.", "in HTTP the client's address"],
    ["Which it is of. By default the first of `RateLimit`: the one.", "the first of `RateLimit`"],
    ["A number that nobody may leave out.", ""],
  ])("%s: the default is %s", (text, value) => {
    expect(defaultIn(text)).toBe(value);
  });

  it.each([
    ["One sentence. And another.", "One sentence."],
    ["Broken over\nlines, version 1.5 too. More.", "Broken over lines, version 1.5 too."],
    ["What became of it:\n- `keep`: nothing", "What became of it."],
    ["No full stop", "No full stop"],
    ["- only a list", ""],
  ])("%j begins with %j", (text, sentence) => {
    expect(firstSentence(text)).toBe(sentence);
  });

  it("fits into a cell of a table: in one line, its lists with breaks, its bars escaped", () => {
    expect(inCell("One of:\n- `a`: first\n  and more\n- `b | c`")).toBe(
      "One of:<br>- `a`: first and more<br>- `b \\| c`",
    );
    expect(inCell("One\nparagraph.\n\nAnother.")).toBe("One paragraph.<br>Another.");
  });

  it("links what is documented, and shows the rest as code", () => {
    const find = (name: string) => (name === "user" ? "#function-user" : undefined);
    expect(linked("{@link user}, {@link user a user}, {@link forget}", find)).toBe(
      "[`user`](#function-user), [a user](#function-user), `forget`",
    );
    expect(linked("As docs/errors.md says.", find)).toBe("As [errors.md](../errors.md) says.");
  });
});
