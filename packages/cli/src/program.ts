import { Command } from "commander";
import { blockCommand } from "./commands/block.ts";
import { checkCommand } from "./commands/check.ts";
import { doctorCommand } from "./commands/doctor.ts";
import { explainCommand } from "./commands/explain.ts";
import { resetCommand } from "./commands/reset.ts";
import { simulateCommand } from "./commands/simulate.ts";
import { unblockCommand } from "./commands/unblock.ts";
import type { Io } from "./io.ts";
import { plain } from "./plain.ts";
import VERSION from "./version.cjs";

/** Every command, by what registers it. `tidegate help` and docs/cli.md have them in this order. */
const COMMANDS: readonly ((io: Io) => Command)[] = [
  doctorCommand,
  explainCommand,
  resetCommand,
  blockCommand,
  unblockCommand,
  simulateCommand,
  checkCommand,
];

/** The command line, as a parser: it runs commands, and tells about them. */
export function createProgram(io: Io): Command {
  const program = new Command("tidegate")
    .description("Rate limits in Redis: is the set-up sound, why is a customer refused, what limit is right.")
    .version(VERSION, "-V, --version", "write the version")
    .helpOption("-h, --help", "write this help")
    .helpCommand("help [command]", "write the help of a command")
    .option(
      "--no-color",
      "write no colours; NO_COLOR and FORCE_COLOR in the environment say the same and the contrary",
    )
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      writeErr: (text) => void io.stderr.write(text),
      outputError: (text, write) => write(`${linesOf(text).map(io.errorColour.red).join("\n")}\n`),
      getOutHelpWidth: () => io.width,
      getErrHelpWidth: () => io.width,
      getOutHasColors: () => io.colour.isColorSupported,
      getErrHasColors: () => io.errorColour.isColorSupported,
    })
    .configureHelp({
      minWidthToWrap: 20,
      styleTitle: (text) => io.colour.bold(text),
      showGlobalOptions: true,
    })
    .addHelpText("after", EXIT_CODES)
    .hook("preAction", (_, command) => {
      if (command.optsWithGlobals()["color"] === false) io.plainly();
    });
  for (const made of COMMANDS) program.addCommand(inheriting(program, made(io)));
  return program;
}

/** A command that is added, and not made by `program.command()`, takes over nothing by itself. */
function inheriting(program: Command, command: Command): Command {
  command.copyInheritedSettings(program).helpOption("-h, --help", "write this help");
  return command;
}

/** What was typed is told back: it may hold anything. */
const linesOf = (text: string): string[] =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => plain(line));

const EXIT_CODES = `
Exit codes:
  0  all is well
  1  the answer is no: something must be changed, the file is wrong, or you said no
  2  the command could not do its work: a wrong option, a file that is missing, a Redis that does not answer`;
