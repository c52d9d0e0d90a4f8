import { CommanderError } from "commander";
import { CliError, type ExitCode } from "./errors.ts";
import { isFileProblem, problemDocument, problemLines } from "./file-problems.ts";
import { createIo, type Io, type Streams } from "./io.ts";
import { plain } from "./plain.ts";
import { redisFault } from "./redis.ts";
import { createProgram } from "./program.ts";

/**
 * Runs a command line to its end. Never throws.
 *
 * @param argv as `process.argv` has it: the words of the command begin at the third
 * @returns the exit code
 */
export async function run(argv: readonly string[], streams: Streams): Promise<ExitCode> {
  const io = createIo(streams);
  // A wrong word is told before any option of the program has been looked at.
  if (argv.includes("--no-color")) io.plainly();
  try {
    await createProgram(io).parseAsync(argv);
    return io.exitCode;
  } catch (error) {
    return told(redisFault(error) ?? error, io, argv.includes("--json"));
  }
}

function told(error: unknown, io: Io, json: boolean): ExitCode {
  // What the parser has to say, it has said. Asked for help or the version, it ends so too.
  const exitCode = exitCodeOf(error);
  const { code, message } = error as { code?: string; message?: string };
  if (json && exitCode !== 0)
    io.json({ error: { code, message: message ?? String(error), ...problemsIn(error) } });
  if (!(error instanceof CommanderError)) io.note(...linesOf(error, io));
  return exitCode;
}

function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  return error instanceof CliError ? error.exitCode : 2;
}

const problemsIn = (error: unknown) => (isFileProblem(error) ? { problems: problemDocument(error) } : {});

/** A fault that nobody expects is told with its stack, so that it can be reported. */
function linesOf(error: unknown, { errorColour }: Io): string[] {
  if (isFileProblem(error)) return problemLines(error, errorColour);
  const { code, message, stack } = error as { code?: unknown; message?: unknown; stack?: unknown };
  if (error instanceof CliError || String(code).startsWith("TIDEGATE_"))
    return [errorColour.red(plain(String(message)))];
  return String(stack ?? error)
    .split("\n")
    .map((line) => errorColour.red(plain(line)));
}
