import { namedIn, type Tally } from "./tally.ts";
import type { Field, Search, Watch } from "./watch.ts";

/** What a log does not tell of who is counted: a sentence for each thing that was looked for in vain. */
export function nobodyFound(tallies: readonly Tally[]): string[] {
  const policies = new Map<Watch, string[]>();
  for (const tally of tallies) {
    if (tally.requests === 0) continue;
    for (const watch of tally.watches) policies.set(watch, [...(policies.get(watch) ?? []), namedIn(tally)]);
  }
  return [...policies].flatMap(([watch, names]) => {
    const whose = names.length === 1 ? `Policy ${names[0]}` : `Policies ${names.join(", ")}`;
    return [...missing(watch), ...withoutAnybody(watch)].map((text) => `${whose}: ${text}.`);
  });
}

function missing({ searches }: Watch): string[] {
  return searches
    .filter(([, { found }]) => found === 0)
    .map(
      ([field, search]) =>
        `none of ${whole(search.looked)} requests had ${fieldText(field)}, which this log may not hold; ${countedText(search)}`,
    );
}

/** Whom a source knew in some requests, and not in others. What no request had is told of already. */
function withoutAnybody({ asked, nobody, searches, isFunction }: Watch): string[] {
  if (nobody === 0 || searches.some(([, search]) => search.found === 0 && search.nobody === nobody))
    return [];
  const who = isFunction ? "the function that says who is counted" : byText(searches);
  return [
    `${who} found nobody in ${whole(nobody)} of ${whole(asked)} requests; they were counted by address, as in production (TIDEGATE_IDENTITY_FAULT)`,
  ];
}

/** `by: user`, as a file has it. */
function byText(searches: Watch["searches"]): string {
  const sources = new Set(searches.map(([field]) => (isPlain(field) ? field : "apiKey")));
  return sources.size === 0 ? "by" : `by: ${[...sources].join(", ")}`;
}

const isPlain = (field: Field): boolean => field === "user" || field === "tenant";

function fieldText(field: Field): string {
  const [, place, name] = /^(header|query) (.*)$/s.exec(field) ?? [];
  if (place === undefined) return `a ${field}`;
  return place === "header" ? `the header ${name}` : `${name} in its query`;
}

function countedText({ countedAs }: Search): string {
  const [first, ...others] = [...countedAs].toSorted(([, a], [, b]) => b - a);
  if (others.length === 0) return `all were counted ${kindText(first![0])}`;
  const rest = others.map(([kind, count]) => `${whole(count)} ${kindText(kind)}`);
  return `${whole(first![1])} were counted ${kindText(first![0])}, ${rest.join(", ")}`;
}

const NAMES: Readonly<Record<string, string>> = {
  ip: "by address",
  key: "by API key",
  all: "together",
  both: "by two together",
};

const kindText = (kind: string): string => NAMES[kind] ?? `by ${kind}`;

const whole = (count: number): string => count.toLocaleString("en-US");
