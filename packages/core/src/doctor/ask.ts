import type { ClientDone, ScriptClient } from "../clients/client.ts";
import { StoreError } from "../errors.ts";
import { classify } from "../stores/classify.ts";
import type { Command } from "../stores/protocol.ts";
import { type Runner, runner, type Script } from "../stores/scripts.ts";
import { msText } from "./text.ts";

/** What a question came to. */
export type Answer<T = unknown> = { readonly reply: T } | Failure;

export interface Failure {
  /** Holds the server's own word, and nothing else that it said. */
  readonly error: StoreError;
  /** `keys`: the user may not touch them. `cluster`: the server is none of a Cluster. */
  readonly about: "keys" | "cluster" | undefined;
}

export const isReply = <T>(answer: Answer<T>): answer is { readonly reply: T } => "reply" in answer;

/** The reply, or `undefined` when there was none. */
export const replyOf = <T>(answer: Answer<T>): T | undefined => (isReply(answer) ? answer.reply : undefined);

/** The error, or `undefined` when there was none. */
export const errorIn = (answer: Answer): StoreError | undefined =>
  isReply(answer) ? undefined : answer.error;

export const isDenied = (answer: Answer): boolean => errorIn(answer)?.reason === "denied";

/** A server's reply, read; what failed stays failed. */
export const read = <T>(answer: Answer, reader: (reply: unknown) => T): Answer<T> =>
  isReply(answer) ? { reply: reader(answer.reply) } : answer;

export const failed = (error: unknown): Failure => ({
  error: error instanceof StoreError ? error : classify(error),
  about: error instanceof Error ? subjectIn(error.message) : undefined,
});

/** What only the text of a server's error tells. */
function subjectIn(message: string): Failure["about"] {
  if (/^NOPERM\b(?!.*' command).*\bkeys?\b/.test(message)) return "keys";
  return /cluster support disabled/.test(message) ? "cluster" : undefined;
}

/**
 * Puts questions to one server. None rejects, and each is answered in time: a server that was silent
 * once is not asked again, so that a whole visit takes no longer than that.
 */
export class Asker {
  readonly #client: ScriptClient;
  readonly #answerMs: number;
  readonly #runners = new Map<string, Runner>();
  #silence: Failure | undefined;

  constructor(client: ScriptClient, answerMs: number) {
    this.#client = client;
    this.#answerMs = answerMs;
  }

  ask(command: string, ...args: readonly (string | number)[]): Promise<Answer> {
    return this.#question((done) => this.#client.send(command, args, done));
  }

  /** Runs a script, which comes along where the server does not know it. */
  run(script: Script, keys: readonly string[], args: Command["args"] = []): Promise<Answer> {
    const run = this.#runners.get(script.sha) ?? runner(this.#client, script);
    this.#runners.set(script.sha, run);
    return this.#question((done) => run({ keys: [...keys], args }, done));
  }

  #question(send: (done: ClientDone) => void): Promise<Answer> {
    if (this.#silence) return Promise.resolve(this.#silence);
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(this.#wasSilent()), this.#answerMs);
      send((error, reply) => {
        clearTimeout(timer);
        resolve(error === undefined || error === null ? { reply } : failed(error));
      });
    });
  }

  #wasSilent(): Failure {
    const message = `there was no answer within ${msText(this.#answerMs)}`;
    return (this.#silence = failed(new StoreError("timeout", message)));
  }
}

/** Names and values, as INFO, CLUSTER INFO and CONFIG GET tell them. */
export type Fields = ReadonlyMap<string, string>;

/** Lines of `name:value`. */
export function linesOf(reply: unknown): Fields {
  const lines = [...String(reply).matchAll(/^([^#:\r\n]+):([^\r\n]*)/gm)];
  return new Map(lines.map(([, name, value]) => [name!, value!]));
}

/** A list of names and values in turn; with some clients a map or an object. */
export function pairsOf(reply: unknown): Fields {
  if (reply instanceof Map) return new Map([...reply].map(([name, value]) => [String(name), String(value)]));
  if (!Array.isArray(reply)) {
    const entries = Object.entries((reply ?? {}) as object);
    return new Map(entries.map(([name, value]) => [name, String(value)]));
  }
  const names = reply.filter((_, i) => i % 2 === 0);
  return new Map(names.map((name, i) => [String(name), String(reply[2 * i + 1])]));
}

/** A field's number; `undefined` when it is not told. */
export function numberIn(fields: Fields | undefined, name: string): number | undefined {
  const value = fields?.get(name);
  return value === undefined || !/^-?\d+(\.\d+)?/.test(value) ? undefined : Number.parseFloat(value);
}
