#!/usr/bin/env node
import { run } from "./run.ts";

/** `tidegate … | head`: whoever read has read enough. */
const hushed = (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit();
};
process.stdout.on("error", hushed);
process.stderr.on("error", hushed);

const ending = new AbortController();
process.once("SIGINT", () => {
  ending.abort();
  process.exit(130);
});

const { stdin, stdout, stderr, env } = process;
void run(process.argv, { stdin, stdout, stderr, env, signal: ending.signal }).then((code) => {
  process.exitCode = code;
});
