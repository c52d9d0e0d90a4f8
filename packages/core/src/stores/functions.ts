import { createHash } from "node:crypto";
import type { ClientDone, ScriptClient } from "../clients/client.ts";
import type { Command } from "./protocol.ts";
import type { Runner, Script } from "./scripts.ts";

type Scripts = Readonly<Record<string, Script>>;

/** Scripts as a library of Redis Functions. */
export interface Library {
  readonly text: string;
  /** What a script is called as a function. */
  nameOf(script: string): string;
}

/**
 * The same scripts as one library. Its name, and those of its functions, hold a digest of their
 * texts: two versions stand side by side while processes are being replaced.
 *
 * source: https://redis.io/docs/latest/develop/programmability/functions-intro/
 */
export function libraryOf(scripts: Scripts): Library {
  const bodies = Object.entries(scripts).map(([name, { text }]) => [name, bodyOf(text)] as const);
  const version = createHash("sha1").update(JSON.stringify(bodies)).digest("hex").slice(0, 8);
  const nameOf = (script: string) => `tidegate_${script}_${version}`;
  const functions = bodies.map(
    ([name, body]) =>
      `redis.register_function{function_name='${nameOf(name)}',flags={'allow-oom'},callback=function(KEYS,ARGV)\n${body}end}\n`,
  );
  return { text: `#!lua name=tidegate_${version}\n${functions.join("")}`, nameOf };
}

/** A library has one line of flags for each function, and none of its own. */
const bodyOf = (text: string): string => text.replace(/^#!lua.*\n/, "");

/** Puts a library where it is missing. One that is there already stays, and says so by an error. */
export const loadLibrary = (client: ScriptClient, { text }: Library): void =>
  client.send("function", ["LOAD", text], () => {});

/** Runs one function. Where a server does not have it, nothing ran: it is loaded and called once more. */
export function functionRunner(client: ScriptClient, library: Library, script: string): Runner {
  const name = library.nameOf(script);

  function call({ keys, args }: Command, again: boolean, done: ClientDone): void {
    client.send("fcall", [name, keys.length, ...keys, ...args], (error, reply, elsewhere) => {
      if (!again || !isNotFound(error)) return done(error, reply, elsewhere);
      // A connection keeps order: the library is there when the call arrives.
      loadLibrary(client, library);
      call({ keys, args }, false, done);
    });
  }

  return (command, done) => call(command, true, done);
}

const isNotFound = (error: unknown): boolean =>
  error instanceof Error && error.message.startsWith("ERR Function not found");
