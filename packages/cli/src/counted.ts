/** Whom the policies of a file count. */
import type { By, Config, Identity, IdentitySource, RequestContext } from "@tidegate/core";
import { policiesIn } from "./policies.ts";
import { exact, type Somebody } from "./who.ts";

/** As whom the policies of a file count somebody: each once, those of routes too. */
export function identitiesOf(config: Config, somebody: Somebody): Identity[] {
  const found = new Map<string, Identity>();
  for (const by of sourcesOf(config)) {
    const identity = countedBy(by, [somebody]);
    if (identity?.kind !== somebody.kind) continue;
    found.set(`${identity.kind}:${identity.value}`, identity);
  }
  return [...found.values()];
}

/** An API key that was read is told of by its digest, as the file counts it: keys and tickets have that. */
export function knownAs(config: Config, somebody: Somebody): Somebody {
  if (somebody.kind !== "key" || somebody.carries.apiKey === undefined) return somebody;
  const [identity = somebody.identity] = identitiesOf(config, somebody);
  return { ...somebody, told: `${identity.kind}:${identity.value}`, identity };
}

/** By whom a file's policies count, in the file's order. */
export function sourcesOf(config: Config): (By | undefined)[] {
  const routes = Object.values(config.routes ?? {}).filter((route) => route !== false);
  return [config, ...routes].flatMap((part) => {
    const by = part.by ?? config.by;
    const policies = Object.values(policiesIn(part) ?? {});
    return policies.length === 0 ? [by] : policies.map((policy) => policy.by ?? by);
  });
}

/** What stands in every header while a source is tried: whoever counts by it counts by API key. */
const PROBE = "tidegate-probe";

/** A request of these people, as sources of identities see it. */
function requestOf(people: readonly Somebody[]): RequestContext {
  const carried = Object.assign({}, ...people.map(({ carries }) => carries)) as Somebody["carries"];
  const stand = (kind: string) => (people.some((each) => each.kind === kind) ? PROBE : undefined);
  const secret = carried.apiKey ?? stand("key");
  const state = { user: carried.user ?? stand("user"), tenant: carried.tenant ?? stand("tenant") };
  return {
    request: state,
    state,
    address: carried.address ?? (stand("ip") && STAND_IN),
    peer: undefined,
    header: (name) => (name === "authorization" && secret !== undefined ? `Bearer ${secret}` : secret),
    query: () => secret,
  };
}

/** Of those that RFC 5737 keeps for documents. */
const STAND_IN = "192.0.2.1";

/**
 * Who of these a policy counts, or `undefined` when none of them. Where the file does not say who is counted, the
 * application does: then it may be anybody.
 */
export function countedBy(by: By | undefined, people: readonly Somebody[]): Identity | undefined {
  if (by === undefined) return (people.find(({ kind }) => kind === "ip") ?? people[0])?.identity;
  const source = by as IdentitySource;
  if (source.constant) return source.constant;
  const found = source.identify(requestOf(people)) as Identity | undefined;
  if (found === undefined || isNobody(found)) return undefined;
  const named = people.find(({ kind }) => kind === found.kind);
  if (!named || Object.keys(named.carries).length > 0) return pairKnown(found, people);
  return found.perRoute ? { ...named.identity, perRoute: true } : named.identity;
}

const isNobody = ({ kind, value }: Identity): boolean => kind === "ip" && value === "none";

/** A pair's value is a digest: with a stand-in inside, nobody would be found by it. */
function pairKnown(found: Identity, people: readonly Somebody[]): Identity | undefined {
  if (found.kind !== "both") return found;
  return people.every(({ carries }) => Object.keys(carries).length > 0) ? found : undefined;
}

/** Whom a policy counts: kinds in the order in which they are looked for. */
export interface Counts {
  readonly kinds: readonly string[];
  /** Whether each route is counted for itself. */
  readonly perRoute: boolean;
}

const ONE_OF_EACH: readonly Somebody[] = ["key", "user", "tenant", "ip"].map((kind) => exact("", kind, "-"));

/** @returns `undefined` where the file leaves it to the application */
export function countsOf(by: By | undefined): Counts | undefined {
  if (by === undefined) return undefined;
  const source = by as IdentitySource;
  const { constant, perRoute = false } = source;
  if (constant) return { kinds: [constant.kind], perRoute };
  const kinds: string[] = [];
  for (let people = ONE_OF_EACH; ; people = people.filter(({ kind }) => kind !== kinds.at(-1))) {
    const found = source.identify(requestOf(people)) as Identity | undefined;
    // A pair tells of no other: nobody of its two is alone.
    if (!found || isNobody(found) || kinds.at(-1) === found.kind) return { kinds, perRoute };
    kinds.push(found.kind);
  }
}

const NAMES: Readonly<Record<string, string>> = { all: "everybody together", both: "two together" };

/** `key, else ip`. */
export function countsText(counts: Counts | undefined): string {
  if (!counts) return "ip by default";
  const kinds = counts.kinds.map((kind) => NAMES[kind] ?? kind).join(", else ");
  return counts.perRoute ? `${kinds}, by route` : kinds;
}
