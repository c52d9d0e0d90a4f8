import { CliError } from "./errors.ts";
import type { Io } from "./io.ts";
import { type Somebody, somebodyIn } from "./who.ts";

/** What an API key may be long, bytes: no standard input is read to its end. */
const MOST_BYTES = 65_536;

/** Those that are named on the command line. `key:-` reads standard input. */
export async function peopleIn(io: Io, identities: readonly string[]): Promise<Somebody[]> {
  const given = identities.includes("key:-") ? await apiKeyOn(io) : undefined;
  const people = identities.map((text) => somebodyIn(text, given));
  const second = people.find(({ kind }, i) => people.findIndex((other) => other.kind === kind) < i);
  if (!second) return people;
  const advice = "they are to be one request's, and one request has one of each kind";
  throw new CliError(
    "TIDEGATE_CLI_IDENTITY",
    `identity: ${second.told} is the second of its kind: ${advice}.`,
  );
}

async function apiKeyOn({ stdin }: Io): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stdin) {
    chunks.push(Buffer.from(chunk));
    bytes += chunks.at(-1)!.length;
    if (bytes > MOST_BYTES) break;
  }
  return Buffer.concat(chunks)
    .toString("utf8")
    .replace(/\r?\n$/, "");
}
