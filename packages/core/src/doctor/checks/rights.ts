/** What the user of the connection may do. */
import type { Scripting } from "../../stores/redis.ts";
import { type Answer, errorIn, isDenied, isReply, replyOf } from "../ask.ts";
import type { Census } from "../census.ts";
import type { Facts, Sent } from "../facts.ts";
import { type Found, found, well } from "../finding.ts";
import { deciding, managing } from "../probes.ts";
import { listText } from "../text.ts";

/** What a limiter cannot do without, or could not once the server had lost the script. */
const NEEDED: Readonly<Record<Scripting, readonly Sent[]>> = {
  scripts: ["evalsha", "eval"],
  functions: ["fcall", "function|load"],
};

export interface Needs {
  /** Of keys, with what the client puts before it where that is known. */
  readonly prefix: string;
  readonly scripting: Scripting;
}

export function rightsFound(facts: Facts, { prefix, scripting }: Needs): Found[] {
  const { denied, runs } = facts;
  const ofKeys = [denied, ...runs].some((answer) => !isReply(answer) && answer.about === "keys");
  if (ofKeys) return [keysDenied(facts, prefix)];
  const missing = [
    ...NEEDED[scripting].filter((right) => isSentDenied(facts, right)),
    ...deniedOf(facts, deciding),
  ];
  if (missing.length > 0) return [commandsDenied(facts, missing)];
  return isReply(denied) ? [well("RIGHTS", `The user ${userOf(facts)} may decide and settle.`)] : [];
}

function keysDenied(facts: Facts, prefix: string): Found {
  const message = `The user ${userOf(facts)} may not read and write keys that begin with ${prefix}: it gets no decision.`;
  return found("RIGHTS", "must", message, setUser(facts, `~${prefix}:*`), { missing: [`~${prefix}:*`] });
}

function commandsDenied(facts: Facts, missing: readonly string[]): Found {
  const names = listText(missing.map(spelled));
  const message = `The user ${userOf(facts)} may not run ${names}: decisions fail.`;
  return found("RIGHTS", "must", message, setUser(facts, ...missing.map((right) => `+${right}`)), {
    missing,
  });
}

/** What only resets and blocks need. */
export function manageFound(facts: Facts): Found[] {
  const missing = deniedOf(facts, managing);
  if (missing.length === 0) return [];
  const message = `The user ${userOf(facts)} may not run ${listText(missing.map(spelled))}: reset and unblock fail, decisions do not need it.`;
  return [
    found("MANAGE", "notice", message, setUser(facts, ...missing.map((right) => `+${right}`)), { missing }),
  ];
}

export function scriptLoadFound(facts: Facts): Found[] {
  if (!isSentDenied(facts, "script|load")) return [];
  const message = `The user ${userOf(facts)} may not run SCRIPT LOAD. The first decision brings the script along instead, which takes a little longer.`;
  return [
    found("SCRIPT_LOAD", "notice", message, setUser(facts, "+script|load"), { missing: ["script|load"] }),
  ];
}

/** Whether the script was there before anybody asked: it is, where a limiter is connected. */
export function scriptsFound({ loaded }: Facts): Found[] {
  if (!isReply(loaded)) return [];
  if (loaded.reply) return [well("SCRIPTS", "The script that decides was loaded.")];
  const message =
    "The script that decides was not loaded: no limiter of this version has connected since the server started.";
  return [
    found("SCRIPTS", "notice", message, "Nothing, where none has yet. A limiter loads it when it connects."),
  ];
}

/** Whether keys go to the database that was asked for. */
export function databaseFound(facts: Facts, database: number): Found[] {
  if (!facts.select || isReply(facts.select)) return [];
  const allowed = errorIn(facts.select)?.reason !== "denied";
  const message = allowed
    ? `There is no database ${database}: keys go to database 0.`
    : `The user ${userOf(facts)} may not run SELECT: keys go to database 0, and not to ${database}.`;
  const advice = `Leave the number out${allowed ? ", or raise databases" : `, or ${setUser(facts, "+select")}`}.`;
  return [found("DATABASE", "must", message, advice, { database })];
}

/** What could not be looked at. A limiter needs none of these rights. */
export function lookFound(facts: Facts, census: Census | undefined, inCluster: boolean): Found[] {
  const looks: [right: string, at: string, hidden: boolean][] = [
    ["info", "version, role and memory", isDenied(facts.info)],
    ["config|get", "time limits and persistence", isDenied(facts.config)],
    ["script|exists", "whether the script is loaded", isDenied(facts.loaded)],
    ["cluster|info", "the Cluster's state", inCluster && isDenied(facts.cluster)],
    ["eval", "what scripts may do", !facts.sent.has("evalsha") && isSentDenied(facts, "eval")],
    ["scan", "keys", census?.trouble?.error.reason === "denied"],
    ["type", "types of keys", census?.typed === false],
  ];
  const hidden = looks.filter(([, , isHidden]) => isHidden);
  if (hidden.length === 0) return [];
  const missing = hidden.map(([right]) => right);
  const message = `Could not look at ${listText(hidden.map(([, at]) => at))}: the user ${userOf(facts)} may not run ${listText(missing.map(spelled))}.`;
  const advice = `For a whole look: ${setUser(facts, ...missing.map((right) => `+${right}`))}. A limiter does not need it.`;
  return [found("LOOK", "notice", message, advice, { missing })];
}

const isSentDenied = ({ sent }: Facts, right: Sent): boolean => {
  const answer = sent.get(right);
  return answer !== undefined && isDenied(answer);
};

/** Of these commands those that the user may not call within a script, as rights are written. */
function deniedOf({ denied }: Facts, commands: ReadonlySet<string>): string[] {
  return (replyOf(denied) ?? [])
    .filter((command) => commands.has(command))
    .map((command) => command.toLowerCase());
}

/** `config|get` as one writes the command. */
const spelled = (right: string): string => right.toUpperCase().replace("|", " ");

const userOf = ({ user }: { readonly user: Answer<string> }): string => replyOf(user) ?? "of this connection";

function setUser({ user }: { readonly user: Answer<string> }, ...rules: readonly string[]): string {
  return `ACL SETUSER ${replyOf(user) ?? "<user>"} ${rules.join(" ")}`;
}
