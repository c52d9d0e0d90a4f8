/** What changes somebody's state by hand: told beforehand, asked for, then done. */
import { type Config, createLimiter, type Identity, type Limiter, type Store } from "@tidegate/core";
import type { Cluster, Redis } from "ioredis";
import type { Command } from "commander";
import type { Io } from "./io.ts";
import { identitiesOf, knownAs } from "./counted.ts";
import { peopleIn } from "./people.ts";
import { plain } from "./plain.ts";
import { type PolicyFile, readPolicies } from "./policies.ts";
import { reach, type RedisFlags, targetOf, withRedis } from "./redis.ts";
import type { Somebody } from "./who.ts";

export interface ManageFlags extends RedisFlags {
  readonly policy: string;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** The options of commands that change something. */
export const withManage = (command: Command): Command =>
  withRedis(
    command
      .argument("<identity>", "who")
      .requiredOption(
        "-p, --policy <file>",
        "the policy file: its prefix and its policies are what keys are made of",
      )
      .option("-y, --yes", "do not ask; needed where there is no terminal to ask on")
      .option("-n, --dry-run", "write what would be done, and do nothing")
      .option("--json", "write one JSON document"),
  );

/** Something to be done, by core's own limiter: so keys are those of the application. */
export interface Change {
  readonly action: "reset" | "block" | "unblock";
  /** What it means, in a sentence that ends the question: `forget what was counted for user:42`. */
  readonly what: string;
  /** More for the document. */
  readonly told?: Readonly<Record<string, unknown>>;
  readonly act: (limiter: Limiter, identity: Identity) => Promise<void>;
}

/** The one that a change is about, in the words of a policy file. */
export interface Subject {
  readonly file: PolicyFile;
  readonly somebody: Somebody;
  /** As they are counted: by policies with different prefixes for IPv6, one address is several. */
  readonly identities: readonly Identity[];
  /** Whether any policy of the file may count them. */
  readonly counted: boolean;
}

export async function subjectOf(io: Io, identity: string, flags: ManageFlags): Promise<Subject> {
  const [given] = await peopleIn(io, [identity]);
  const file = readPolicies(io, flags.policy, flags.prefix);
  const somebody = knownAs(file.config, given!);
  const found = identitiesOf(file.config, somebody);
  return {
    file,
    somebody,
    identities: found.length > 0 ? found : [somebody.identity],
    counted: found.length > 0,
  };
}

/** Tells what would be done, or asks and does it. */
export async function change(io: Io, subject: Subject, flags: ManageFlags, planned: Change): Promise<void> {
  const keys = await keysOf(subject, planned);
  const target = targetOf(io, flags);
  if (!flags.dryRun && !flags.yes && !io.isInteractive) {
    const advice = "say --yes, or --dry-run to see what would be done";
    io.fail("TIDEGATE_CLI_CONFIRM", `There is no terminal to ask on before I ${planned.what}: ${advice}.`);
  }
  const { client } = await reach(io, target, flags);
  try {
    const there = await thereOf(client, keys);
    const told = {
      action: planned.action,
      identity: textsOf(subject),
      redis: target.where,
      ...planned.told,
      keys: there,
    };
    if (flags.dryRun) return tell(io, flags, { ...told, done: false }, dryLines(io, planned, there));
    if (!flags.yes && !(await asked(io, planned, target.where, there))) {
      io.exitCode = 1;
      return tell(io, flags, { ...told, done: false }, ["Nothing was done."]);
    }
    await carriedOut(subject, client, planned);
    tell(io, flags, { ...told, done: true }, [io.colour.green(`Done: ${planned.what}.`)]);
  } finally {
    client.disconnect();
  }
}

const textsOf = ({ identities }: Subject): string =>
  identities.map(({ kind, value }) => `${kind}:${value}`).join(", ");

function tell(io: Io, { json }: ManageFlags, document: unknown, lines: readonly string[]): void {
  if (json) io.json(document);
  else io.print(...lines);
}

/** A key, and whether it is in Redis now. */
interface Key {
  readonly key: string;
  readonly exists: boolean;
}

/** By the one command for it that a limiter's user has anyway. */
const thereOf = (client: Redis | Cluster, keys: readonly string[]): Promise<Key[]> =>
  Promise.all(keys.map(async (key) => ({ key, exists: (await client.pexpiretime(key)) !== GONE })));

const GONE = -2;

function dryLines({ colour }: Io, { action, what }: Change, keys: readonly Key[]): string[] {
  const verb = action === "block" ? "SET" : "DEL";
  return [
    `This would ${what}:`,
    ...keys.map(
      ({ key, exists }) => `  ${verb} ${plain(key)}${exists ? "" : colour.dim("  (not there now)")}`,
    ),
    "Nothing was done.",
  ];
}

function asked(io: Io, { what }: Change, where: string, keys: readonly Key[]): Promise<boolean> {
  const there = keys.filter(({ exists }) => exists).length;
  const note = `${keys.length === 1 ? "1 key" : `${keys.length} keys`}, ${there} of them there now`;
  return io.confirm(`At ${where}: ${what} (${note})?`);
}

/** Does it with a store that only writes down which keys it is given. */
async function keysOf(subject: Subject, planned: Change): Promise<string[]> {
  const keys = new Set<string>();
  const note = (...named: readonly string[]) => {
    for (const key of named) keys.add(key);
  };
  const store: Store = {
    decide: () => {},
    settle: (_, done) => done(undefined, 0),
    forget(named, done) {
      note(...named);
      done(undefined, 0);
    },
    block(key, _, __, done) {
      note(key);
      done(undefined, 0);
    },
    close: async () => {},
  };
  await withLimiter({ ...configOf(subject), store }, subject, planned);
  return [...keys];
}

/** What a decision may take in an application is no measure for what somebody waits for by hand. */
const PATIENCE_MS = 10_000;

const carriedOut = (subject: Subject, client: Redis | Cluster, planned: Change): Promise<void> =>
  withLimiter({ ...configOf(subject), redis: client, timeoutMs: PATIENCE_MS }, subject, planned);

const configOf = ({ file: { config } }: Subject): Config => ({
  ...config,
  blocking: true,
  onEvent: () => {},
});

async function withLimiter(config: Config, { identities }: Subject, { act }: Change): Promise<void> {
  const limiter = createLimiter(config);
  try {
    for (const identity of identities) await act(limiter, identity);
  } finally {
    await limiter.close();
  }
}
