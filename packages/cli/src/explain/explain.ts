/** Why somebody is refused, or is not. */
import {
  type Asked,
  createGuard,
  type Decision,
  type Framework,
  type Ruling,
  StoreError,
} from "@tidegate/core";
import type { Cluster, Redis } from "ioredis";
import { CliError } from "../errors.ts";
import type { PolicyFile } from "../policies.ts";
import { countsOf, countsText, sourcesOf } from "../counted.ts";
import type { Somebody } from "../who.ts";
import { type Block, type LookingStore, lookingStore } from "./look.ts";
import { type Narrowed, narrowedPlans } from "./narrow.ts";

/** How a policy stands to somebody. */
export interface Standing {
  readonly policy: string;
  readonly algorithm: string;
  /** Who is counted, as keys have it. */
  readonly identity: string | null;
  /** `null`: counted in the memory of each process. */
  readonly key: string | null;
  readonly limit: number;
  readonly windowMs: number | null;
  readonly unit: string;
  /** Over how many keys the limit is split, of which one was looked at; 1: it is not. */
  readonly shards: number;
  readonly used: number | null;
  readonly remaining: number | null;
  /** Whether it has room for the next request. */
  readonly allowed: boolean | null;
  readonly reason: string | null;
  /** Milliseconds until one unit more is there, or until the next request fits; `null`: never, or nobody knows. */
  readonly nextMs: number | null;
  /** Milliseconds until it is as if never used. */
  readonly fullMs: number | null;
  /** On trial: it refuses nobody. */
  readonly shadow: boolean;
}

/** How things stand everywhere, or on a route. */
export interface Explained {
  /** As the file names it; `null`: where no route says otherwise. */
  readonly route: string | null;
  /** What the next request is answered: `pass`, `refuse`, or `skip` where it is not limited. */
  readonly answer: Ruling["kind"];
  readonly status: number | null;
  /** The fields of that answer. */
  readonly headers: Readonly<Record<string, string>>;
  readonly refusedBy: readonly string[];
  /** Milliseconds until the next request passes; 0: it does; `null`: never, or nobody knows. */
  readonly retryAfterMs: number | null;
  readonly policies: readonly Standing[];
  readonly leftOut: readonly string[];
}

export interface Explanation {
  /** The server's clock, milliseconds since 1970. */
  readonly at: number;
  readonly blocks: readonly Block[];
  /** Whether the file says that blocks are heeded. */
  readonly heedsBlocks: boolean;
  /** Whether the address is on the list of those that are always refused. */
  readonly denied: boolean;
  readonly plans: readonly Explained[];
}

/** @param routeName tells of this one alone: as the file names it, or as the framework does */
export async function explained(
  file: PolicyFile,
  people: readonly Somebody[],
  client: Redis | Cluster,
  routeName?: string,
): Promise<Explanation> {
  const { config } = file;
  const heedsBlocks = config.blocking === true;
  const store = lookingStore(client, config.scripting);
  store.heeds = heedsBlocks;
  const all = narrowedPlans(config, people);
  // What the file does not name is as where no route says otherwise.
  const routeInFile = all.some(({ route }) => route === routeName) ? routeName : undefined;
  const plans = routeName === undefined ? all : all.filter(({ route }) => route === routeInFile);
  if (!plans.some(({ personal }) => personal)) throw nobodyCounts(file, people);
  const asked = plans.filter(({ policies }) => Object.keys(policies).length > 0);
  const looks: Look[] = [];
  for (const plan of asked) looks.push(await lookAt(plan, store, people, routeName));
  const blocks = new Map(looks.flatMap(({ blocks }) => blocks.map((block) => [block.key, block])));
  return {
    at: Math.floor(Math.max(0, ...looks.map(({ at }) => at))) || Date.now(),
    blocks: [...blocks.values()],
    heedsBlocks,
    denied: looks.some(({ denied }) => denied),
    plans: looks.map(({ explained }) => explained),
  };
}

const nobodyCounts = ({ name: file, config }: PolicyFile, people: readonly Somebody[]): CliError => {
  const how = new Set(sourcesOf(config).map((by) => countsText(countsOf(by))));
  const who = people.map(({ told }) => told).join(" ");
  return new CliError(
    "TIDEGATE_CLI_NOT_COUNTED",
    `${who}: no policy of ${file} counts by that. It counts ${[...how].join("; ")}. Name that: ip:203.0.113.7, user:42, tenant:acme, key:DIGEST. What is counted by two together needs both.`,
  );
};

interface Look {
  readonly explained: Explained;
  readonly blocks: readonly Block[];
  readonly at: number;
  readonly denied: boolean;
}

async function lookAt(
  plan: Narrowed,
  store: LookingStore,
  people: readonly Somebody[],
  routeName: string | undefined,
): Promise<Look> {
  const guard = createGuard(
    {
      ...plan.config,
      redis: undefined as never,
      store,
      blocking: true,
      timeoutMs: 10_000,
      onFailure: "closed",
      onEvent: QUIETLY,
    },
    EXACTLY,
  );
  const asked = askedFor(plan.route, people, routeName);
  const ask = async (answer: LookingStore["answer"]) => {
    store.answer = answer;
    const ruling = await new Promise<Ruling>((resolve) => guard.rule({ ...asked, raw: {} }, resolve));
    if (store.error) throw asTold(store.error);
    return ruling;
  };
  try {
    return read(plan, await ask("now"), await ask("next"), store);
  } finally {
    await guard.limiter.close();
  }
}

/** What an application has to be warned of is not this command's to say. */
const QUIETLY = (): void => {};

/** A store's error is half a sentence. */
function asTold(error: unknown): unknown {
  if (!(error instanceof StoreError)) return error;
  const elsewhere = /\bMOVED\b/.test(error.message) ? " This is one server of a Cluster: say --cluster." : "";
  return new CliError(error.code, `Redis gave no answer: ${error.message}.${elsewhere}`);
}

/** Which pattern a path meets is the framework's to say: here each route has a path of its own. */
const EXACTLY: Framework = {
  trustSetting: "",
  pattern: (pattern) => (path) => path === pathFor(pattern),
};

const pathFor = (pattern: string): string => `/${encodeURIComponent(pattern)}`;

function askedFor(
  route: string | undefined,
  people: readonly Somebody[],
  routeName: string | undefined,
): Omit<Asked, "raw"> {
  const [, method = "GET", pattern = "/"] = /^(?:([A-Z-]+) +)?(.*)$/s.exec(route ?? "") ?? [];
  const address = people.find(({ carries }) => carries.address !== undefined)?.carries.address;
  return {
    request: {},
    method,
    url: route === undefined ? "/" : pathFor(pattern),
    peer: address,
    address,
    trust: { whom: "nobody" },
    state: {},
    route: route ?? routeName,
    header: () => undefined,
  };
}

function read(plan: Narrowed, now: Ruling, next: Ruling, store: LookingStore): Look {
  const { seen } = store;
  const denied =
    next.kind === "refuse" && next.refusal.kind === "blocked" && now.kind === "refuse" && isDenied(now);
  const decision = next.kind === "skip" ? undefined : next.decision;
  return {
    blocks: seen?.blocks ?? [],
    at: decision && !denied ? decision.at : 0,
    denied,
    explained: {
      route: plan.route ?? null,
      answer: next.kind,
      status: next.kind === "refuse" ? next.refusal.status : null,
      headers: next.kind === "skip" ? {} : fieldsIn(next.headers),
      refusedBy: next.kind === "refuse" ? next.refusal.violatedPolicies : [],
      retryAfterMs: decision?.retryAfterMs ?? (decision ? null : 0),
      policies: now.kind === "skip" || denied ? [] : standings(plan, now.decision, store),
      leftOut: plan.leftOut,
    },
  };
}

/** On the file's own list: no store is asked, so that it says so even before blocks are heeded. */
const isDenied = ({ decision }: { readonly decision: Decision }): boolean => decision.blocked;

const fieldsIn = (headers: readonly (readonly [string, string | undefined])[]): Record<string, string> =>
  Object.fromEntries(headers.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));

/** A policy of one process's own is in no check: the others are, in the order of the plan. */
function standings({ policies }: Narrowed, { verdicts }: Decision, { seen }: LookingStore): Standing[] {
  let place = 0;
  return verdicts.map((verdict) => {
    const policy = policies[verdict.policy]!;
    const key = policy.scope === "process" ? undefined : seen?.check.keys[place];
    // Of a limit that is split, one part was looked at.
    const counted = key === undefined ? undefined : seen?.check.policies[place++];
    const known = key !== undefined;
    const { limit, remaining, allowed, reason, nextMs, fullMs, shadow } = verdict;
    return {
      policy: verdict.policy,
      algorithm: policy.algorithm.name,
      identity: /\{(.*)\}/.exec(key ?? "")?.[1] ?? null,
      key: key ?? null,
      limit,
      windowMs: policy.windowMs ?? null,
      unit: policy.unit,
      shards: policy.shards?.length ?? 1,
      remaining: known ? remaining : null,
      used: known ? counted!.limit - remaining : null,
      allowed: known ? allowed : null,
      reason: known ? reason : null,
      nextMs: known ? nextMs : null,
      fullMs: known ? fullMs : null,
      shadow,
    };
  });
}

/** An algorithm by the name of its maker. */
