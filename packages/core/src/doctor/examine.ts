import type { NamedPolicy } from "../named-policies.ts";
import type { Scripting } from "../stores/redis.ts";
import { Asker, type Fields, isReply, linesOf, replyOf } from "./ask.ts";
import { type Census, lookElsewhere, takeCensus, type Tally } from "./census.ts";
import { silenceFound, troubleFound } from "./checks/connection.ts";
import {
  configurationsFound,
  foreignFound,
  keysFound,
  lastingFound,
  mistypedFound,
  sharedFound,
} from "./checks/keys.ts";
import { clockFound, latencyFound, type Pace, paceOf } from "./checks/pace.ts";
import {
  databaseFound,
  lookFound,
  manageFound,
  rightsFound,
  scriptLoadFound,
  scriptsFound,
} from "./checks/rights.ts";
import { readyFound, replicaFound, topologyFound, versionFound } from "./checks/server.ts";
import { settingsFound } from "./checks/settings.ts";
import { type Facts, factsOf } from "./facts.ts";
import type { Found } from "./finding.ts";
import type { Visit, Visited } from "./visit.ts";

/** What the doctor was asked for, checked. */
export interface Wanted {
  readonly prefix: string;
  readonly timeoutMs: number;
  readonly answerMs: number;
  readonly scripting: Scripting;
  /** How many keys are looked at, in each server. */
  readonly keys: number;
  /** Policies of which it is known what their keys are called; none where the configuration is not known. */
  readonly policies: readonly NamedPolicy[];
}

/** A server that was asked, but for its keys. */
export interface Asked {
  readonly server: Visited;
  readonly asker: Asker;
  /** `undefined` when there was no connection. */
  readonly facts: Facts | undefined;
  readonly pace: Pace | undefined;
}

export async function askServer(server: Visited, { database }: Visit, wanted: Wanted): Promise<Asked> {
  const { answerMs, scripting } = wanted;
  const asker = new Asker(server.client, answerMs);
  const facts = server.trouble ? undefined : await factsOf(asker, server, { database, scripting });
  return { server, asker, facts, pace: facts && paceOf(facts.pings) };
}

/** A server's keys. */
export interface Counted {
  readonly census: Census;
  /** Where no key stands under the prefix: keys that look like a limiter's, by their prefixes. */
  readonly elsewhere: Tally;
  /** What INFO says of all keys. */
  readonly keyspace: Fields | undefined;
}

/** How many answers a census may take the time of. */
const CENSUS_ANSWERS = 5;

export async function countKeys({ asker, facts, pace }: Asked, wanted: Wanted): Promise<Counted | undefined> {
  const keyPrefix = facts && replyOf(facts.keyPrefix);
  if (keyPrefix === undefined || wanted.keys === 0) return undefined;
  const look = { keyPrefix, most: wanted.keys, forMs: CENSUS_ANSWERS * wanted.answerMs };
  const census = await takeCensus(asker, {
    ...look,
    prefix: wanted.prefix,
    offsetMs: pace?.offsetMs ?? 0,
  });
  const isBare = census.keys === 0 && census.complete;
  const elsewhere = isBare ? await lookElsewhere(asker, look) : new Map<string, number>();
  const info = await asker.ask("info", "keyspace");
  return { census, elsewhere, keyspace: isReply(info) ? linesOf(info.reply) : undefined };
}

/** What all that was asked of one server means. */
export function judge(
  { server, facts, pace }: Asked,
  counted: Counted | undefined,
  about: Visit,
  wanted: Wanted,
): Found[] {
  if (!facts) return server.trouble ? [troubleFound(server.trouble, server.address)] : [];
  const inCluster = about.cluster !== undefined;
  const kind = [...topologyFound(facts, inCluster), ...versionFound(replyOf(facts.info))];
  const isUnfit = kind.some(({ level }) => level === "must");
  return [
    ...kind,
    ...silenceFound(facts),
    ...replicaFound(facts),
    ...(isUnfit ? [] : fitnessFound(facts, about, wanted)),
    ...databaseFound(facts, about.database),
    ...settingsFound(facts),
    ...latencyFound(pace, wanted.timeoutMs),
    ...clockFound(pace),
    ...(counted ? countedFound(counted, wanted) : []),
    ...lookFound(facts, counted?.census, inCluster),
  ];
}

/** What only a server can be judged by that is of the right kind. */
const fitnessFound = (facts: Facts, { keyPrefix }: Visit, { prefix, scripting }: Wanted): Found[] => [
  ...readyFound(facts),
  ...rightsFound(facts, { prefix: `${keyPrefix}${prefix}`, scripting }),
  ...manageFound(facts),
  ...scriptLoadFound(facts),
  ...(scripting === "scripts" ? scriptsFound(facts) : []),
];

const countedFound = ({ census, elsewhere, keyspace }: Counted, { prefix, policies }: Wanted): Found[] => [
  ...keysFound(census, prefix),
  ...lastingFound(census),
  ...mistypedFound(census),
  ...configurationsFound(census, policies),
  ...foreignFound(census, prefix),
  ...sharedFound(census, elsewhere, keyspace),
];
