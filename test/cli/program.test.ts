/** The command line itself: what it says of itself, and of words that it does not know. */
import { readFileSync } from "node:fs";
import { CliError, createIo, plain } from "@tidegate/cli";
import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { documentIn, tidegate } from "./terminal.ts";

const COMMANDS = ["doctor", "explain", "reset", "block", "unblock", "simulate", "check"];

it("--version is that of the package", async () => {
  const { version } = JSON.parse(
    readFileSync(new URL("../../packages/cli/package.json", import.meta.url), "utf8"),
  );
  expect(await tidegate(["--version"])).toEqual({ code: 0, out: `${version}\n`, err: "" });
});

describe("help", () => {
  it("names every command and the exit codes", async () => {
    const { code, out, err } = await tidegate(["--help"]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    for (const command of COMMANDS) expect(out).toMatch(new RegExp(`^ {2}${command} `, "m"));
    expect(out).toContain("Exit codes:\n  0  ");
  });

  it.each(COMMANDS)("of %s has examples, and says --json", async (command) => {
    const { code, out, err } = await tidegate([command, "--help"]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toMatch(new RegExp(`^Examples:\\n(.*\\n)*? *.*tidegate ${command} `, "m"));
    expect(out).toMatch(/^ {2}--json /m);
    expect(await tidegate(["help", command])).toEqual({ code, out, err });
  });

  it.each([80, 200])("fits into %i columns", async (columns) => {
    for (const words of [["--help"], ["doctor", "--help"]]) {
      const { out } = await tidegate(words, { columns });
      const [options = ""] = /^Options:\n(.*\n)*?\n/m.exec(out) ?? [];
      const longest = Math.max(...options.split("\n").map((line) => line.length));
      expect(longest).toBeLessThanOrEqual(columns);
    }
  });

  it("is written when there is no command", async () => {
    const { code, out, err } = await tidegate([]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toContain("Usage: tidegate [options] [command]");
  });
});

describe("a word that is not known", () => {
  it.each([
    [["explian"], "error: unknown command 'explian'\n(Did you mean explain?)\n"],
    [["doctor", "--kyes", "3"], "error: unknown option '--kyes'\n(Did you mean --keys?)\n"],
    [
      ["doctor", "--keys", "many"],
      "error: option '--keys <number>' argument 'many' is invalid. Give a whole number from 0 to 1000000.\n",
    ],
    [["explain", "user:42"], "error: required option '-p, --policy <file>' not specified\n"],
    [["check"], "error: missing required argument 'file'\n"],
    [["check", "a", "b"], "error: too many arguments for 'check'. Expected 1 argument but got 2.\n"],
    [["\u001b[31mred\u202e"], String.raw`error: unknown command '\x1b[31mred\u202e'` + "\n"],
  ])("%j ends with 2", async (words, err) => {
    expect(await tidegate(words)).toEqual({ code: 2, out: "", err });
  });

  it("is an error in the document", async () => {
    const said = await tidegate(["doctor", "--json", "--kyes"]);
    expect(said.code).toBe(2);
    expect(documentIn(said)).toEqual({
      error: {
        code: "commander.unknownOption",
        message: "error: unknown option '--kyes'\n(Did you mean --keys?)",
      },
    });
  });
});

describe("colours", () => {
  const COLOURED = "\u001b[";
  it.each([
    ["on a terminal", { tty: true }, [], true],
    ["in a pipe", {}, [], false],
    ["on a terminal with NO_COLOR", { tty: true, env: { NO_COLOR: "1" } }, [], false],
    ["on a terminal with an empty NO_COLOR", { tty: true, env: { NO_COLOR: "" } }, [], true],
    ["on a terminal that is dumb", { tty: true, env: { TERM: "dumb" } }, [], false],
    ["in a pipe with FORCE_COLOR", { env: { FORCE_COLOR: "1" } }, [], true],
    ["on a terminal with FORCE_COLOR=0", { tty: true, env: { FORCE_COLOR: "0" } }, [], false],
    ["on a terminal with --no-color", { tty: true }, ["--no-color"], false],
    ["with FORCE_COLOR and --no-color", { env: { FORCE_COLOR: "1" } }, ["--no-color"], false],
  ])("%s", async (_, outside, more, expected) => {
    const { err } = await tidegate(["check", "/no/such/file", ...more], outside);
    expect(err.includes(COLOURED)).toBe(expected);
  });
});

describe("text from outside", () => {
  it.each([
    ["plain text: é 中 🙂", "plain text: é 中 🙂"],
    ["\u001b[2J\u0007", String.raw`\x1b[2J\x07`],
    ["a\nb\r\tc\0", String.raw`a\nb\r\tc\x00`],
    ["\u009b31m\u0085", String.raw`\x9b31m\x85`],
    ["\u202euser\u2066\u2069", String.raw`\u202euser\u2066\u2069`],
    ["zero\u200bwidth\u200d\ufeff\u2060", String.raw`zero\u200bwidth\u200d\ufeff\u2060`],
    ["\u2028\u2029\u00ad", String.raw`\u2028\u2029\xad`],
    ["half \ud800 of one", String.raw`half \ud800 of one`],
    ["\u{e0041}", String.raw`\u{e0041}`],
    ["\u3164\u115f", String.raw`\u3164\u115f`],
  ])("%j is written as %j", (text, told) => expect(plain(text)).toBe(told));

  it("is cut where it is long", () => expect(plain("x".repeat(100), 10)).toBe(`${"x".repeat(9)}…`));
});

describe("what a command is given", () => {
  const ioOf = (tty: boolean, columns = 80) => {
    const stream = () => Object.assign(new PassThrough(), { isTTY: tty, columns });
    const stdout = stream();
    const stderr = stream();
    return { io: createIo({ stdin: stream(), stdout, stderr, env: {} }), stdout, stderr };
  };

  it("lays out no table wider than the terminal", () => {
    const { io } = ioOf(false, 30);
    expect(io.table(["name", "what it is"], [["short", "one"]])).toBe("name   what it is\nshort  one");
    expect(
      io.table(
        ["name", "what it is"],
        [
          ["short", "one ".repeat(8).trim()],
          ["other", ""],
        ],
      ),
    ).toBe("name        short\nwhat it is  one one one one one one one one\n\nname        other");
  });

  it("leaves out a column that says nothing", () => {
    expect(ioOf(false).io.table(["name", "", "is"], [["a", "", "b"]])).toBe("name  is\na     b");
  });

  it("fails with a code, and 2 unless it says otherwise", () => {
    const { io } = ioOf(false);
    expect(() => io.fail("TIDEGATE_CLI_X", "No.")).toThrow(new CliError("TIDEGATE_CLI_X", "No."));
    try {
      io.fail("TIDEGATE_CLI_X", "No.", 1);
    } catch (error) {
      expect(error).toMatchObject({ code: "TIDEGATE_CLI_X", exitCode: 1 });
    }
  });

  it("has a bar of what takes longer than a second, on a terminal alone", async () => {
    for (const tty of [true, false]) {
      const { io, stderr } = ioOf(tty);
      const bar = io.progress(10);
      bar.update(1);
      expect(stderr.read()).toBeNull();
      await new Promise((resolve) => setTimeout(resolve, 1100));
      bar.update(5);
      bar.stop();
      expect(stderr.read() !== null).toBe(tty);
    }
  });

  it("writes JSON that keeps its value and acts on no terminal", () => {
    const { io, stdout } = ioOf(false);
    const value = { text: "\u001b[2J\u202e\u{e0041}\u009b\n", "\u200b": "é🙂" };
    io.json(value);
    const text = String(stdout.read());
    expect(JSON.parse(text)).toEqual(value);
    expect(text.slice(0, -1)).not.toMatch(/\p{C}/u);
  });
});
