import type { ClientDone, ScriptClient } from "../clients/client.ts";
import { isNoScript } from "./classify.ts";
import type { Command } from "./protocol.ts";

/** A script that runs inside Redis. */
export interface Script {
  /** The SHA-1 of `text`, in hex: what `EVALSHA` asks for. */
  readonly sha: string;
  /** The script itself, in Lua. */
  readonly text: string;
}

/** Runs one script, whatever the server has lost of it. */
export type Runner = (command: Command, done: ClientDone) => void;

/** How often NOSCRIPT may be answered by another command: by one that relies on another's text, then by the text itself. */
const TRIES = 2;

/**
 * Runs one script through a client: EVALSHA, and the whole text only when the server says that it
 * has lost it. Nothing ran then, so asking again is safe.
 */
export function runner(client: ScriptClient, { sha, text }: Script): Runner {
  let healing = false;

  function send(name: "evalsha" | "eval", { keys, args }: Command, tries: number, done: ClientDone): void {
    client.send(
      name,
      [name === "eval" ? text : sha, keys.length, ...keys, ...args],
      (error, reply, elsewhere) => {
        if (name === "eval") healing = false;
        if (error && isNoScript(error) && tries > 0) heal({ keys, args }, tries - 1, done);
        else done(error, reply, elsewhere);
      },
    );
  }

  /** One command carries the text; those behind it need not, since a connection keeps order. */
  function heal(command: Command, tries: number, done: ClientDone): void {
    if (healing && tries > 0) return send("evalsha", command, tries, done);
    healing = true;
    send("eval", command, tries, done);
  }

  return (command, done) => send("evalsha", command, TRIES, done);
}
