/** What stands under the prefix. */
import { NAMES } from "../../algorithms/index.ts";
import type { NamedPolicy } from "../../named-policies.ts";
import type { Fields } from "../ask.ts";
import type { Census, Tags, Tally } from "../census.ts";
import { type Found, found, well } from "../finding.ts";
import { literally } from "../names.ts";
import { countText, listText, msText, numberText } from "../text.ts";

/** How many shapes of keys are named. */
const MOST_NAMED = 5;

export function keysFound({ keys, complete, trouble }: Census, prefix: string): Found[] {
  const value = { keys, complete };
  const message = `Looked at ${countText(keys, "key")} under ${prefix}${complete ? "" : ", not all of them"}`;
  if (!trouble) return [well("KEYS", `${message}.`, value)];
  // That the user may not is told with all that it may not.
  if (trouble.error.reason === "denied") return [];
  const advice = "Ask again, or look at fewer keys at a time: the option keys.";
  return [found("KEYS", "notice", `${message}: ${trouble.error.message}.`, advice, value)];
}

type Look = { readonly census: Census; readonly elsewhere: Tally };

/** Whether limiters count here under other prefixes, and none under the one that was given. */
export function prefixFound(looks: readonly Look[], prefix: string): Found[] {
  if (looks.some(({ census: { keys, complete } }) => keys > 0 || !complete)) return [];
  const prefixes = new Map<string, number>();
  for (const [other, count] of looks.flatMap(({ elsewhere }) => [...elsewhere]))
    prefixes.set(other, (prefixes.get(other) ?? 0) + count);
  if (prefixes.size === 0) return [];
  const sorted = [...prefixes].toSorted(([, a], [, b]) => b - a);
  const some = sorted.slice(0, MOST_NAMED).map(([other]) => other);
  const count = total(prefixes);
  const message = `Under ${prefix} there is no key; ${numberText(count)} ${count === 1 ? "looks" : "look"} like a limiter's under the prefix${sorted.length === 1 ? "" : "es"} ${listText(some)}${sorted.length > MOST_NAMED ? " and others" : ""}.`;
  const advice = `If the limiter's prefix is another than ${prefix}, give that one: --prefix ${some[0]}, or the option prefix. If it has not counted yet, nothing.`;
  return [found("PREFIX", "notice", message, advice, { keys: count, prefixes: some })];
}

/** Keys that stay, though every limiter's have an end. */
export function lastingFound({ lasting }: Census): Found[] {
  if (lasting.size === 0) return [];
  const count = total(lasting);
  const message = `${countText(count, "key")} without an expiry: ${shapes(lasting)}. Somebody called PERSIST, or restored or wrote them without one.`;
  const advice =
    "Find out who, and reset these identities. A limiter repairs such a key when it refuses by it; the others stay for good.";
  return [
    found("NO_EXPIRY", "warning", message, advice, { keys: count, shapes: Object.fromEntries(lasting) }),
  ];
}

/** Keys of our names that hold something else: their identities get no decision. */
export function mistypedFound({ mistyped }: Census): Found[] {
  if (mistyped.size === 0) return [];
  const count = total(mistyped);
  const message = `${countText(count, "key")} of another type than the name says: ${shapes(mistyped)}. These identities get no decision.`;
  const advice =
    "Somebody else writes under this prefix: give one of the two another. Then delete these keys.";
  return [
    found("WRONG_TYPE", "must", message, advice, { keys: count, shapes: Object.fromEntries(mistyped) }),
  ];
}

export function foreignFound({ foreign }: Census, prefix: string): Found[] {
  if (foreign.size === 0) return [];
  const count = total(foreign);
  const message = `${countText(count, "key")} under ${prefix} that no limiter wrote: ${shapes(foreign)}.`;
  const advice = `Give the limiter a prefix of its own, which nobody else's keys begin with. redis-cli --scan --pattern '${literally(prefix)}:*' names them.`;
  return [
    found("FOREIGN_KEYS", "warning", message, advice, { keys: count, shapes: Object.fromEntries(foreign) }),
  ];
}

/**
 * Signs that limiters of different configurations count under one prefix.
 *
 * @param policies of the configuration, where it is known
 */
export function configurationsFound({ segments }: Census, policies: readonly NamedPolicy[]): Found[] {
  const signs = [...segments].flatMap(([segment, tags]) => {
    const known = policies.find((each) => each.segment === segment);
    // Whose algorithm each request chooses may have any, and one that has no choice of numbers has none to compare.
    if (known?.choose) return [];
    if (known) return signsAgainst(known, tags);
    return tags.size > 1 ? [`${segment} is counted by ${named(tags.keys())}`] : [];
  });
  if (signs.length === 0) return [];
  const some = signs.slice(0, MOST_NAMED).join("; ");
  const message = `More than one configuration counts here: ${some}${signs.length > MOST_NAMED ? "; …" : ""}.`;
  const advice =
    "Give each service a prefix of its own. After a limit or an algorithm was changed, this goes away by itself when the old keys have expired.";
  return [found("TWO_CONFIGURATIONS", "warning", message, advice, { signs })];
}

const named = (tags: Iterable<string>): string =>
  listText([...tags].toSorted().map((tag) => NAMES[tag] ?? `an algorithm ${tag}`));

/** Clocks differ, and Redis keeps whole milliseconds. */
const SLACK_MS = 2000;

function signsAgainst({ segment, policy }: NamedPolicy, tags: Tags): string[] {
  const { tag } = policy.algorithm;
  const signs: string[] = [];
  const others = [...tags.keys()].filter((other) => other !== tag);
  if (others.length > 0)
    signs.push(`${segment}, which is ${named([tag])} here, is counted by ${named(others)} too`);
  const lifetimeMs = (policy.numbersAt?.(Date.now()) ?? policy.numbers).lifetime / 1000;
  const longestMs = tags.get(tag)?.longestMs ?? 0;
  const spans = `last up to ${msText(longestMs)} more, and this policy's no longer than ${msText(lifetimeMs)}`;
  if (longestMs > lifetimeMs + SLACK_MS) signs.push(`keys of ${segment} ${spans}`);
  return signs;
}

/** Part of all keys from which on others' are told of. */
const SHARED = 0.1;

/**
 * Others' keys in the same server.
 *
 * @param elsewhere keys that look like a limiter's: they may be of this one, by its right prefix
 * @param keyspace what INFO says after the look
 */
export function sharedFound(
  { complete, keys, foreign }: Census,
  elsewhere: Tally,
  keyspace: Fields | undefined,
): Found[] {
  if (!complete || keyspace === undefined) return [];
  const databases = [...keyspace.values()].map((text) => Number(/^keys=(\d+)/.exec(text)?.[1] ?? 0));
  const all = databases.reduce((sum, count) => sum + count, 0);
  const others = all - (keys - total(foreign)) - total(elsewhere);
  if (others <= all * SHARED) return [];
  const whose =
    others > 1
      ? `${numberText(others)} of its ${countText(all, "key")} are others'. They share`
      : `${all === 1 ? "Its only key is" : `1 of its ${countText(all, "key")} is`} another's. It shares`;
  const message = `${whose} its memory, and each slow command of theirs keeps decisions waiting.`;
  const advice = "Where limits matter, give the limiter a server of its own.";
  return [found("SHARED", "notice", message, advice, { all, others })];
}

const total = (tally: Tally): number => [...tally.values()].reduce((sum, count) => sum + count, 0);

/** The most frequent ones, with how often they came. */
function shapes(tally: Tally): string {
  const sorted = [...tally].toSorted(([, a], [, b]) => b - a);
  const named = sorted.slice(0, MOST_NAMED).map(([shape, count]) => `${shape} × ${numberText(count)}`);
  return [...named, ...(sorted.length > MOST_NAMED ? ["…"] : [])].join(", ");
}
