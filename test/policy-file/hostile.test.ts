import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { PolicyFileError, policiesFrom, policiesFromText } from "@tidegate/policy-file";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { file } from "./arbitrary.ts";

const folder = mkdtempSync(join(tmpdir(), "tidegate-policy-file-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
function written(content: string | Uint8Array): string {
  const path = join(folder, `${++files}.yaml`);
  writeFileSync(path, content);
  return path;
}

/** What is thrown, where it is no error of a policy file. */
function thrown(read: () => unknown): unknown {
  try {
    read();
    return undefined;
  } catch (error) {
    return error instanceof PolicyFileError ? undefined : error;
  }
}

function failing(read: () => unknown): PolicyFileError {
  try {
    read();
  } catch (error) {
    return error as PolicyFileError;
  }
  throw new Error("it was taken");
}

const GOOD = 'limit: 5\nwindow: "1m"\n';

describe("a file that cannot be read", () => {
  const missing = join(folder, "missing.yaml");

  it.each([
    ["is not there", missing, `${missing}: it cannot be read: there is no such file (ENOENT).`],
    ["is a folder", folder, `${folder}: it cannot be read: it is a folder (EISDIR).`],
    ["has no end", "/dev/zero", "/dev/zero: it is larger than 1000000 bytes."],
    ["has no name", "", ': give the path of a file, got "".'],
    [
      "has no path at all",
      undefined as unknown as string,
      'undefined: give the path of a file, got "undefined".',
    ],
    [
      "is elsewhere",
      new URL("https://example.org/limits.yaml"),
      'https://example.org/limits.yaml: give the path of a file, got "https://example.org/limits.yaml".',
    ],
  ])("%s", (_, path, message) => {
    const error = failing(() => policiesFrom(path));
    expect(error.message).toBe(message);
    expect(error).toMatchObject({
      name: "PolicyFileError",
      code: "TIDEGATE_FILE_UNREADABLE",
      line: 0,
      column: 0,
    });
  });

  it("is larger than a million bytes", () => {
    const fits = GOOD + "#".repeat(1_000_000 - GOOD.length);
    expect(policiesFrom(written(fits))).toMatchObject({ limit: 5 });
    const large = written(`${fits}#`);
    expect(failing(() => policiesFrom(large)).message).toBe(`${large}: it is larger than 1000000 bytes.`);
    expect(failing(() => policiesFromText(`${fits}#`)).message).toBe(
      "<text>: it is larger than 1000000 bytes.",
    );
  });

  it("is not UTF-8, and the line is told", () => {
    const latin1 = written(Buffer.from(`${GOOD}# für alle\nmode: shadow\n`, "latin1"));
    const error = failing(() => policiesFrom(latin1));
    expect(error.message).toBe(`${latin1}:3:1: save it as UTF-8; this line is none.`);
    expect(error).toMatchObject({ code: "TIDEGATE_FILE_UNREADABLE", line: 3, column: 1 });
  });
});

describe("what people's editors leave in files is read", () => {
  it.each([
    ["a byte order mark", `\uFEFF${GOOD}`],
    ["line ends of Windows", GOOD.replaceAll("\n", "\r\n")],
    ["a mark of the document's begin and end", `---\n${GOOD}...\n`],
    ["JSON that is indented with tabs", '{\n\t"limit": 5,\n\t"window": "1m"\n}\n'],
    ["JSON in one line", '{"limit":5,"window":"1m"}'],
    ["JSON with escapes", '{"limit":5,"\\u0077indow":"1m"}'],
  ])("%s", (_, text) => {
    expect(policiesFrom(written(text))).toEqual({ limit: 5, window: "1m" });
    expect(policiesFrom(pathToFileURL(written(text)))).toEqual({ limit: 5, window: "1m" });
    expect(policiesFromText(text)).toEqual({ limit: 5, window: "1m" });
  });

  it("columns count from behind a byte order mark", () => {
    expect(failing(() => policiesFromText("\uFEFFlimit: x\nwindow: 1m")).message).toMatch(
      /^<text>:1:8: limit: /,
    );
  });
});

describe("names of JavaScript's own", () => {
  it.each(["__proto__", "constructor", "toString"])("%s is no option", (name) => {
    const error = failing(() => policiesFromText(`${GOOD}${name}: { mode: shadow }\n`));
    expect(error.message).toContain(`<text>:3:1: ${name}: there is no such option`);
    expect(({} as { mode?: string }).mode).toBeUndefined();
  });

  it("__proto__ is neither a policy nor a route", () => {
    const text =
      "policies: { __proto__: { algorithm: gcra, limit: 1, window: 1 } }\nroutes: { __proto__: {} }\n";
    expect(failing(() => policiesFromText(text)).problems.map(({ option }) => option)).toEqual([
      "policies.__proto__",
      "routes.__proto__",
    ]);
  });

  it("constructor is a policy like another, and no policy that is not there", () => {
    const policy = "{ algorithm: gcra, limit: 1, window: 1 }";
    const { policies } = policiesFromText(`policies: { constructor: ${policy} }`);
    expect(Object.keys(policies!)).toEqual(["constructor"]);
    const error = failing(() =>
      policiesFromText(`policies: { a: ${policy} }\nroutes: { /x: { policies: [constructor] } }`),
    );
    expect(error.message).toContain('there is no policy "constructor"');
  });
});

describe("aliases", () => {
  const levels = (make: (i: number) => string) => Array.from({ length: 40 }, (_, i) => make(i)).join("");
  const eight = (i: number) => Array.from({ length: 8 }, () => `*a${i - 1}`).join(", ");

  it.each([
    [
      "of nothing",
      `${GOOD}mode: *nobody\n`,
      "<text>:3:7: mode: nothing before it has the name of this alias.",
    ],
    [
      "that hold themselves",
      `${GOOD}by: &a { or: [ip, *a] }\n`,
      /<text>:3:14: by\.or\.1\..*: it is nested too deeply, or an alias holds itself\./,
    ],
    [
      "that merge themselves",
      `${GOOD}<<: &a { <<: *a }\n`,
      /<< takes an alias of a mapping that stands before it/,
    ],
    [
      "of aliases of aliases",
      `${GOOD}${levels((i) => `x-${i}: &a${i} ${i === 0 ? "ip" : `{ or: [${eight(i)}] }`}\n`)}by: *a20\n`,
      /<text>:1:1: it says too much; use fewer aliases in aliases\./,
    ],
    [
      "that merge merges of merges",
      `${GOOD}${levels((i) => `x-${i}: &a${i} ${i === 0 ? "{ mode: shadow }" : `{ <<: [${eight(i)}] }`}\n`)}<<: *a39\n`,
      /<text>:1:1: it says too much; use fewer aliases in aliases\./,
    ],
  ])("%s are refused", (_, text, message) => {
    const started = performance.now();
    expect(failing(() => policiesFromText(text)).message).toMatch(message);
    expect(performance.now() - started).toBeLessThan(20_000);
  });

  it("that people write are read, with merged options behind a mapping's own", () => {
    const text = `
x-hour: &hour { algorithm: fixedWindow, limit: 10, window: 1h }
policies:
  a: *hour
  b: { <<: *hour, limit: 20 }
  c: { limit: 30, <<: [*hour, { align: clock, limit: 1 }] }
`;
    const { policies } = policiesFromText(text);
    const limits = Object.entries(policies!).map(([name, policy]) => [
      name,
      (policy as { limit: number }).limit,
    ]);
    expect(limits).toEqual([
      ["a", 10],
      ["b", 20],
      ["c", 30],
    ]);
  });
});

describe("text that is no policy file is refused, in time and without another error", () => {
  const SIZE = 100_000;
  it.each([
    "[",
    "{a: ",
    "- ",
    "? ",
    "&a ",
    '"',
    "*a ",
    "'\n",
    "!!a ",
    "%A\n",
    "- &a *a\n",
    "- [*a]\n",
    "a: &a\n",
    "<<: \n",
    "a:\n",
    ": ",
    "|\n",
    "\u0000",
    "\u202e: 1\n",
    "---\n",
    "a.",
    "\\",
  ])("%j again and again", { timeout: 60_000 }, (piece) => {
    const error = failing(() => policiesFromText(piece.repeat(SIZE / piece.length)));
    expect(error.name).toBe("PolicyFileError");
    expect(error.message.length).toBeLessThan(101 * 700);
  });

  it("nested more deeply than any stack", () => {
    expect(failing(() => policiesFromText("[".repeat(1000))).message).toBe(
      "<text>:1:65: it is nested more than 64 levels deep.",
    );
  });
});

describe("whatever is in a file, nothing but a PolicyFileError is thrown", () => {
  it("for any bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        expect(thrown(() => policiesFrom(written(bytes)))).toBeUndefined();
      }),
      { numRuns: 200 },
    );
  });

  it("for any text, and for any arrangement of what YAML is made of", () => {
    const pieces = fc.constantFrom(
      ..."{}[]:,&*!|>'\"%@`#-? \n\t0a~<=.\\",
      ": ",
      "- ",
      "<<: ",
      "*a",
      "&a ",
      "limit",
      "policies",
      "by",
      "or",
      "ip",
      "routes",
      "__proto__",
      "\n  ",
      "---\n",
      "1e3",
      "null",
    );
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.array(pieces, { maxLength: 60 }).map((all) => all.join("")),
    );
    fc.assert(
      fc.property(text, (given) => {
        expect(thrown(() => policiesFromText(given))).toBeUndefined();
      }),
      { numRuns: 2000 },
    );
  });

  it("for valid files with some signs changed", () => {
    const change = fc.tuple(
      fc.nat(),
      fc.constantFrom("", " ", "\n", ":", "}", '"', "*a", "&a ", "0", "null"),
    );
    fc.assert(
      fc.property(file, fc.array(change, { minLength: 1, maxLength: 3 }), (config, changes) => {
        let text = JSON.stringify(config, null, 1);
        for (const [at, sign] of changes) {
          const place = at % text.length;
          text = text.slice(0, place) + sign + text.slice(place + 1);
        }
        expect(thrown(() => policiesFromText(text))).toBeUndefined();
      }),
      { numRuns: 500 },
    );
  });
});
