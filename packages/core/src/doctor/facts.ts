import { StoreError } from "../errors.ts";
import { decide } from "../scripts/decide.ts";
import { numbersIn, strangeReply } from "../stores/protocol.ts";
import type { Scripting } from "../stores/redis.ts";
import {
  type Answer,
  type Asker,
  failed,
  type Fields,
  isDenied,
  isReply,
  linesOf,
  pairsOf,
  read,
} from "./ask.ts";
import { inspect, ping, rights, type Run, runsOn } from "./probes.ts";
import type { Visited } from "./visit.ts";

/** All that a server was asked, but for its keys. The checks judge it. */
export interface Facts {
  readonly address: string;
  readonly info: Answer<Fields>;
  readonly config: Answer<Fields>;
  /** What CLUSTER INFO says. */
  readonly cluster: Answer<Fields>;
  /** The user's own name. */
  readonly user: Answer<string>;
  /** Whether the server knew decide.lua before the doctor came. */
  readonly loaded: Answer<boolean>;
  /** Commands that a limiter sends by itself, by the right that they need. */
  readonly sent: ReadonlyMap<Sent, Answer>;
  /** SELECT of the database that is asked for; `undefined` where none is. */
  readonly select: Answer | undefined;
  readonly pings: readonly Ping[];
  /** What the client puts before every key. */
  readonly keyPrefix: Answer<string>;
  /** The commands that the user may not call within scripts, in upper case. */
  readonly denied: Answer<readonly string[]>;
  /** The shipped scripts, run so that they change nothing. */
  readonly runs: readonly Answer[];
}

export type Sent = "evalsha" | "eval" | "script|load" | "fcall" | "function|load";

export interface Ping {
  readonly roundTripMs: number;
  /** The server's clock less this machine's, ms, give or take half the round trip; `undefined`: it may not be asked. */
  readonly offsetMs: number | undefined;
}

const SETTINGS = [
  "timeout",
  "busy-reply-threshold",
  "lua-time-limit",
  "save",
  "appendonly",
  "appendfsync",
] as const;

/** Nobody's script. */
const NO_SHA = "0".repeat(40);

interface Asking {
  /** The number of the database that is wanted. */
  readonly database: number;
  readonly scripting: Scripting;
}

/** Asks a server everything. Takes no longer than a few round trips, or `answerMs` when it is silent. */
export async function factsOf(
  asker: Asker,
  server: Visited,
  { database, scripting }: Asking,
): Promise<Facts> {
  const [info, config, cluster, user, loaded] = await Promise.all([
    asker.ask("info"),
    asker.ask("config", "GET", ...SETTINGS),
    asker.ask("cluster", "INFO"),
    asker.ask("acl", "WHOAMI"),
    asker.ask("script", "EXISTS", decide.sha),
  ]);
  const sent = await sentTo(asker, scripting);
  return {
    address: server.address,
    info: read(info, linesOf),
    config: read(config, pairsOf),
    cluster: read(cluster, linesOf),
    user: read(user, String),
    loaded: read(loaded, (reply) => Number((reply as unknown[])[0]) === 1),
    sent,
    select: database === 0 ? undefined : await asker.ask("select", database),
    pings: await pingsOf(asker),
    ...(await triedOn(asker, server)),
  };
}

/** Each so that it does nothing, or what a limiter does when it connects. */
const COMMANDS: Readonly<Record<Sent, readonly [command: string, ...args: (string | number)[]]>> = {
  eval: ["eval", ping.text, 0],
  evalsha: ["evalsha", NO_SHA, 0],
  "script|load": ["script", "LOAD", decide.text],
  fcall: ["fcall", "tidegate_nothing", 0],
  "function|load": ["function", "LOAD", ""],
};

const SENT: Readonly<Record<Scripting, readonly Sent[]>> = {
  scripts: ["eval", "evalsha", "script|load"],
  functions: ["eval", "fcall", "function|load"],
};

async function sentTo(asker: Asker, scripting: Scripting): Promise<Facts["sent"]> {
  const sent = SENT[scripting].map(async (right) => [right, await asker.ask(...COMMANDS[right])] as const);
  const answers = new Map(await Promise.all(sent));
  // The doctor's own scripts come along by EVAL. Without that right they have to be there.
  const isAlone = isDenied(answers.get("eval")!);
  if (isAlone)
    await Promise.all([ping, inspect, rights].map(({ text }) => asker.ask("script", "LOAD", text)));
  return answers;
}

const PINGS = 20;

/** A server that is far away is asked fewer times. */
const PINGS_MS = 1000;

/** Round trips, one after the other. The first one is not counted: it may bring the script along. */
async function pingsOf(asker: Asker): Promise<Ping[]> {
  const pings: Ping[] = [];
  await asker.run(ping, []);
  const begun = performance.now();
  while (pings.length < PINGS && performance.now() - begun < PINGS_MS) {
    const sent = performance.now();
    const answer = await asker.run(ping, []);
    const roundTripMs = performance.now() - sent;
    if (!isReply(answer)) break;
    const serverMs = Number(answer.reply) / 1000;
    const middle = Date.now() - roundTripMs / 2;
    pings.push({ roundTripMs, offsetMs: serverMs > 0 ? serverMs - middle : undefined });
  }
  return pings;
}

type Tried = Pick<Facts, "keyPrefix" | "denied" | "runs">;

async function triedOn(asker: Asker, server: Visited): Promise<Tried> {
  const key = server.keyFor("doctor");
  if (key === undefined) {
    const none = failed(new StoreError("unknown", "no slot is its own"));
    return { keyPrefix: none, denied: none, runs: [] };
  }
  return {
    keyPrefix: read(await asker.run(inspect, [key]), (reply) => keyIn(reply).slice(0, -key.length)),
    denied: read(await asker.run(rights, [key]), deniedIn),
    runs: await Promise.all(Object.values(runsOn(key)).map((run) => tried(asker, run))),
  };
}

const keyIn = (reply: unknown): string => String((reply as unknown[])[2]);

async function tried(asker: Asker, { script, command }: Run): Promise<Answer> {
  const answer = await asker.run(script, command.keys, command.args);
  return isReply(answer) && !numbersIn(answer.reply) ? failed(strangeReply()) : answer;
}

function deniedIn(reply: unknown): string[] {
  const told = (reply as unknown[]).map(String);
  return told.filter((_, i) => i % 2 === 0 && isDenied(failed(new Error(told[i + 1]))));
}
