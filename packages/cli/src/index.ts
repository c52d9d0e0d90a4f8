export { CliError, type ExitCode } from "./errors.ts";
export { createIo, type Io, type Progress, type Streams } from "./io.ts";
export { plain } from "./plain.ts";
export { createProgram } from "./program.ts";
export { run } from "./run.ts";
