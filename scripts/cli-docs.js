/**
 * docs/cli.md: every command as the parser has it. `node scripts/cli-docs.js` writes the page.
 */
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { setup } from "./setup.js";

/** @typedef {ReturnType<typeof import("@tidegate/cli").createProgram>} Command */
/** @typedef {{ title: string, lines: string[] }} Section what stands behind the options in a command's help */

export const PAGE = new URL("../docs/cli.md", import.meta.url);

const HEAD = `<!-- Written by scripts/cli-docs.js, out of the parser. Do not change it by hand. -->

# The command line

\`npm install --save-dev @tidegate/cli\`, then \`npx tidegate\`; or \`npx @tidegate/cli\` without. [choosing-limits.md](choosing-limits.md) goes from a log to a policy with it, [doctor.md](doctor.md) says what each finding means, and [policy-file.md](policy-file.md) what a policy file may say.

- \`--json\` writes exactly one JSON document to standard output, also of an error: \`{"error":{"code","message"}}\`. Messages for people go to standard error then.
- Standard output that is a pipe gets no colours. \`NO_COLOR\`, \`FORCE_COLOR\` and \`--no-color\` say otherwise. A table that is wider than the terminal becomes a list.
- What comes from outside, such as identities, reasons and user agents, is written with control characters, ESC and characters that turn or hide text as \`\\x1b\` or \`\\u202e\`: a terminal never acts on it.
- Passwords belong into \`REDIS_URL\`: a command line can be read by others on the machine. None is ever written.
- A private certificate authority is named by \`NODE_EXTRA_CA_CERTS\`.
- A connection is there within five seconds, or the command ends. Ctrl-C ends it with 130.
`;

/** Codes of the command line's own, for `--json` and for tickets. What lies below has codes of its own. */
const CODES = [
  ["TIDEGATE_CLI_REDIS_MISSING", "Nobody said which Redis.", "`--redis`, or `REDIS_URL` in the environment."],
  [
    "TIDEGATE_CLI_REDIS_URL",
    "It is no URL of a Redis.",
    "`redis://`, `rediss://`, `unix://` or `redis+sentinel://`.",
  ],
  [
    "TIDEGATE_CLI_REDIS_UNREACHABLE",
    "Nothing answers there within five seconds.",
    "Look at host, port and TLS; [doctor](#doctor) says more.",
  ],
  ["TIDEGATE_CLI_REDIS_LOGIN", "The server wants another user or password.", "Put them into the URL."],
  [
    "TIDEGATE_CLI_REDIS",
    "Redis refused a command, or the connection broke.",
    "The message has the server's words. What the user needs: [operations.md](operations.md#the-redis-user).",
  ],
  ["TIDEGATE_CLI_IDENTITY", "The text names nobody.", "The forms are in each command's help."],
  [
    "TIDEGATE_CLI_NOT_COUNTED",
    "No policy of the file counts by what was named.",
    "Name what the file counts by; the message says what that is.",
  ],
  ["TIDEGATE_CLI_POLICY", "The file has no policy of that name.", "The message names the nearest."],
  ["TIDEGATE_CLI_CONFIRM", "There is no terminal to ask on.", "`--yes`, or `--dry-run`."],
  [
    "TIDEGATE_BLOCKING_OFF",
    "The file has no `blocking: true`, so nobody would heed the block.",
    "Add it; `--force` where the application sets it beside the file.",
  ],
  ["TIDEGATE_CLI_FILE", "A file cannot be read or written.", "The message says why."],
  ["TIDEGATE_CLI_FORMAT", "No line of the log is of a format that is known.", "`--format`, or `--columns`."],
  ["TIDEGATE_CLI_COLUMNS", "A column is missing, or named wrongly.", "`--columns at=timestamp,address=ip`."],
  [
    "TIDEGATE_CLI_TRUST_PROXY",
    "It is no number of proxies and no network.",
    "`--trust-proxy 1`, `--trust-proxy 10.0.0.0/8`.",
  ],
  [
    "TIDEGATE_CLI_ROUTE",
    "A route's pattern cannot be read, or not without the framework.",
    "`--router`; a plain pattern.",
  ],
  ["TIDEGATE_CLI_OPTION", "An option has a value that cannot work.", "The message says what can."],
];

/**
 * The page about all commands.
 *
 * @param {Command} program
 */
export function pageOf(program) {
  const commands = program.commands;
  const rows = commands.map((command) => [
    `[${command.name()}](#${command.name()})`,
    command.summary() || command.description(),
  ]);
  const { sections } = afterOf(program);
  return `${[HEAD, table(["command", "tells, or does"], rows), ...sections.map(sectionText), ...commands.map(commandText), errorsText()].join("\n")}`;
}

const errorsText = () => `## Errors

What goes wrong below keeps its own code: \`TIDEGATE_FILE_…\` of a policy file, and those of [errors.md](errors.md).

${table(
  ["code", "cause", "cure"],
  CODES.map(([name = "", cause = "", cure = ""]) => [code(name), cause, cure]),
)}`;

/** @param {Command} command */
function commandText(command) {
  const { usage, sections } = afterOf(command);
  const options = command.options.filter(({ hidden }) => !hidden);
  const values = command.registeredArguments.map((argument) => [
    code(argument.name()),
    escaped(argument.description),
    "",
  ]);
  const flags = options.map((option) => [code(option.flags), escaped(choicesOf(option)), defaultOf(option)]);
  return [
    `## ${command.name()}\n`,
    `${command.description()}\n`,
    `\`\`\`text\n${usage}\n\`\`\`\n`,
    table(["argument or option", "", "default"], [...values, ...flags]),
    ...sections.map(sectionText),
  ].join("\n");
}

/**
 * What is in a command's help besides its description and options.
 *
 * @param {Command} command
 * @returns {{ usage: string, sections: Section[] }}
 */
function afterOf(command) {
  let text = "";
  const before = { ...command.configureOutput() };
  command.configureOutput({ writeOut: (part) => void (text += part) });
  command.outputHelp();
  command.configureOutput(before);
  const [, usage = ""] = /^Usage: (.*)$/m.exec(text) ?? [];
  const after = text.slice(command.helpInformation().length).trim();
  const sections = after.split(/\n\n+/).map((block) => {
    const [title = "", ...lines] = block.split("\n");
    return { title, lines: lines.map((line) => line.replace(/^ {2}/, "")) };
  });
  return { usage, sections: sections.filter(({ title }) => title !== "") };
}

/** @param {Section} section */
function sectionText({ title, lines }) {
  if (title.startsWith("Exit codes")) {
    const rows = lines.map((line) => /^(\d+) +(.*)$/.exec(line) ?? ["", "", line]);
    return table(
      ["exit code", ""],
      rows.map(([, number = "", meaning = ""]) => [number, escaped(meaning)]),
    );
  }
  const language = title.startsWith("Examples") ? "sh" : "text";
  return `${title}\n\n\`\`\`${language}\n${lines.join("\n")}\n\`\`\`\n`;
}

/** @param {Command["options"][number]} option */
const choicesOf = ({ description, argChoices, mandatory }) =>
  `${description}${argChoices ? ` (${argChoices.map((choice) => `\`${choice}\``).join(", ")})` : ""}${mandatory ? "; needed" : ""}`;

/** @param {Command["options"][number]} option */
function defaultOf({ defaultValue, defaultValueDescription, negate }) {
  if (defaultValueDescription !== undefined) return escaped(defaultValueDescription);
  if (negate || defaultValue === undefined || defaultValue === "" || defaultValue === false) return "";
  return code(String(defaultValue));
}

/**
 * @param {string[]} head
 * @param {string[][]} rows
 */
const table = (head, rows) =>
  [head, head.map(() => "---"), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n")
    .replaceAll("|  |", "| |") + "\n";

/** @param {string} text */
const code = (text) => `\`${text}\``;

/** @param {string} text */
const escaped = (text) => text.replaceAll("|", "\\|").replace(/<(?=[a-z])/g, "\\<");

/** The page as it has to be: of a parser on a wide terminal without colours. */
export async function page() {
  const { createIo, createProgram } = await import("@tidegate/cli");
  const { stdin, stdout, stderr } = process;
  const silent = (/** @type {any} */ stream) =>
    Object.create(stream, { isTTY: { value: false }, columns: { value: 1000 } });
  const io = createIo({ stdin, stdout: silent(stdout), stderr: silent(stderr), env: {} });
  return pageOf(createProgram(io));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  setup();
  writeFileSync(PAGE, await page());
}
