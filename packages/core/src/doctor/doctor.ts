import type { Config } from "../config.ts";
import { ConfigError } from "../errors.ts";
import { wholeNumber } from "../options.ts";
import { settingsOf } from "../settings.ts";
import { isReply, replyOf } from "./ask.ts";
import { clusterFound, replicasFound, slotsWithout } from "./checks/cluster.ts";
import { troubleFound } from "./checks/connection.ts";
import { prefixFound } from "./checks/keys.ts";
import { clockSpreadFound } from "./checks/pace.ts";
import { versionIn } from "./checks/server.ts";
import { type Asked, askServer, type Counted, countKeys, judge, type Wanted } from "./examine.ts";
import { type Finding, type Found, sorted } from "./finding.ts";
import { visit, type Visit } from "./visit.ts";

/**
 * A limiter's configuration, or as little of it as `redis`. Of the rest, `prefix`, the policies and
 * `timeoutMs` say what to compare with.
 */
export interface DoctorOptions<R = any, S = any> extends Omit<Config<R, S>, "store"> {
  /** A URL, or a client whose server or Cluster is looked at. The connection is the doctor's own. */
  redis: NonNullable<Config<R, S>["redis"]>;
  /** How long a server may take for one answer before it counts as silent, milliseconds. 1,000 by default. */
  answerMs?: number;
  /** How many keys under the prefix are looked at, in each server. 10,000 by default; 0: none. */
  keys?: number;
}

/** What {@link doctor} found. */
export interface DoctorReport {
  /** Whether there is nothing that must be changed. */
  readonly ok: boolean;
  /** The worst first. */
  readonly findings: readonly Finding[];
  /** Every server that was asked. */
  readonly servers: readonly DoctorServer[];
}

/** What a server told. What it did not tell is `undefined`. */
export interface DoctorServer {
  /** Its host and port. */
  readonly address: string;
  /** `Redis`, `Valkey`, or what else it calls itself. */
  readonly name: string | undefined;
  /** Its version, such as `8.0.2`. */
  readonly version: string | undefined;
  /** The server's clock less this machine's, milliseconds. */
  readonly clockOffsetMs: number | undefined;
  /** Round trips, milliseconds: half of them took no longer than `p50`, none longer than `max`. */
  readonly roundTripMs: { readonly p50: number; readonly max: number } | undefined;
  /** Keys under the prefix that were looked at. */
  readonly keys: number | undefined;
}

/**
 * Asks a Redis or Valkey server, or every primary of a Cluster, whether it is fit for limits, and
 * says of each finding what to change. It writes no key. What the user may not ask is a finding, and
 * so is a server that does not answer: neither is an exception.
 *
 * @throws ConfigError for the first option that cannot work
 */
export async function doctor<R = any, S = any>(options: DoctorOptions<R, S>): Promise<DoctorReport> {
  const wanted = wantedOf(options);
  const about = await visit(options.redis, wanted.prefix, wanted.answerMs);
  try {
    return await examined(about, wanted);
  } finally {
    await about.close();
  }
}

/** Stands in for policies that are not known. */
const ANY_POLICY = { limit: 1, window: 1000 };

function wantedOf({ answerMs = 1000, keys = 10_000, ...config }: DoctorOptions): Wanted {
  if (config.redis === undefined) {
    const advice = "give the URL or the client whose server is to be looked at";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "redis", undefined, advice);
  }
  const isKnown = config.policies !== undefined || config.limit !== undefined;
  const settings = settingsOf({ ...(isKnown ? {} : ANY_POLICY), ...config });
  const plans = [settings.plan, ...settings.routes.flatMap(({ plan }) => plan || [])];
  return {
    prefix: settings.prefix,
    timeoutMs: settings.timeoutMs,
    scripting: config.scripting ?? "scripts",
    answerMs: wholeNumber("answerMs", answerMs, 1, 60_000),
    keys: wholeNumber("keys", keys, 0, 1_000_000),
    policies: isKnown ? plans.flatMap(({ policies }) => policies).filter(({ by }) => !by?.perRoute) : [],
  };
}

async function examined(about: Visit, wanted: Wanted): Promise<DoctorReport> {
  const all = await Promise.all(about.servers.map((server) => askServer(server, about, wanted)));
  const findings = at(undefined, foundOfAll(about, all));
  const servers: DoctorServer[] = [];
  const counts: Counted[] = [];
  // One after the other, and after all that is measured: counting keeps this process busy.
  for (const asked of all) {
    const counted = await countKeys(asked, wanted);
    if (counted) counts.push(counted);
    findings.push(...at(asked.server.address, judge(asked, counted, about, wanted)));
    servers.push(serverOf(asked, counted));
  }
  // In a Cluster, the few keys of a limiter may stand in one server, and another's in the next.
  if (counts.length === all.length) findings.push(...at(undefined, prefixFound(counts, wanted.prefix)));
  return reportOf(findings, servers);
}

/** What is of the Cluster as a whole. */
function foundOfAll({ cluster, trouble, address }: Visit, all: readonly Asked[]): Found[] {
  if (!cluster) return [];
  if (trouble) return [troubleFound(trouble, address)];
  const facts = all.flatMap((asked) => asked.facts ?? []);
  const told = facts.flatMap(({ cluster: info }) => (isReply(info) ? [info.reply] : []));
  return [
    ...clusterFound(slotsWithout(cluster), told),
    ...replicasFound(facts),
    ...clockSpreadFound(all.map(({ pace }) => pace)),
  ];
}

const at = (server: string | undefined, found: readonly Found[]): Finding[] =>
  found.map((each) => ({ ...each, server }));

const reportOf = (findings: readonly Finding[], servers: readonly DoctorServer[]): DoctorReport => ({
  ok: findings.every(({ level }) => level !== "must"),
  findings: sorted(findings),
  servers,
});

function serverOf({ server, facts, pace }: Asked, counted: Counted | undefined): DoctorServer {
  const told = facts && versionIn(replyOf(facts.info));
  return {
    address: server.address,
    name: told?.name,
    version: told?.version,
    clockOffsetMs: pace?.offsetMs,
    roundTripMs: pace && { p50: pace.p50, max: pace.max },
    keys: counted?.census.keys,
  };
}
