/** Command lines, run in this process as the bin runs them. */
import { PassThrough } from "node:stream";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ExitCode, run } from "@tidegate/cli";
import { expect, onTestFinished } from "vitest";

export interface Outside {
  readonly env?: Record<string, string>;
  /** What is typed or piped. */
  readonly input?: string;
  /** Whether all three streams are a terminal. */
  readonly tty?: boolean;
  readonly columns?: number;
}

export interface Said {
  readonly code: ExitCode;
  readonly out: string;
  readonly err: string;
}

/** Runs `tidegate` with these words. Whatever it writes is held to {@link expectHarmless}. */
export async function tidegate(words: readonly string[], outside: Outside = {}): Promise<Said> {
  const { env = {}, input, tty = false, columns } = outside;
  const stream = () =>
    Object.assign(new PassThrough(), { isTTY: tty, ...(columns !== undefined && { columns }) });
  const [stdin, stdout, stderr] = [stream(), stream(), stream()];
  const [out, err] = [textOf(stdout), textOf(stderr)];
  if (input !== undefined) stdin.end(input);
  const code = await run(["node", "tidegate", ...words], { stdin, stdout, stderr, env });
  const said = { code, out: out(), err: err() };
  if (!coloured(env, tty)) expectHarmless(said);
  return said;
}

const coloured = (env: Record<string, string>, tty: boolean) => tty || "FORCE_COLOR" in env;

function textOf(stream: PassThrough): () => string {
  let text = "";
  stream.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  return () => text + (stream.read() ?? "");
}

/** Without colours, nothing but lines of characters that are seen reaches a terminal. */
function expectHarmless({ out, err }: Said): void {
  expect(out + err).not.toMatch(/[^\P{C}\n]|[\u2028\u2029]/u);
}

/** The one document on standard output. Fails when anything else is there. */
export const documentIn = ({ out }: Said) => JSON.parse(out) as any;

/** A file with this text, until the test is over. */
export function fileWith(text: string, name = "limits.yaml"): string {
  const folder = mkdtempSync(join(tmpdir(), "tidegate-cli-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}
