/**
 * - 0: all is well
 * - 1: the answer is no
 * - 2: the command could not do its work
 */
export type ExitCode = 0 | 1 | 2;

/** Why a command ends: told in one line, without a stack. */
export class CliError extends Error {
  override readonly name = "CliError";
  /** `TIDEGATE_CLI_…`, or the code of what went wrong below. */
  readonly code: string;
  readonly exitCode: ExitCode;

  /** @param message for a terminal: what came from outside has gone through `plain` */
  constructor(code: string, message: string, exitCode: ExitCode = 2) {
    super(message);
    this.code = code;
    this.exitCode = exitCode;
  }
}
