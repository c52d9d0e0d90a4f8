/** Applications in processes of their own, and load on them over HTTP. */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { HealthReport, StoreErrorClass, TidegateEvent } from "@tidegate/core";
import { Pool } from "undici";
import { onTestFinished } from "vitest";
import { freshPrefix } from "../harness/pair.ts";
import type { RedisServer } from "../harness/redis.ts";

/** Of a limiter that says nothing of it. */
export const DEADLINE_MS = 50;

/** By name: the maker and its options. */
export type Policies = Record<string, [maker: string, options: object]>;

export interface LimiterOptions {
  prefix: string;
  redis?: string;
  /** Instead of `redis`: a client that the application made. `tlsKey`: by TLS, with a key that both sides know. */
  client?: { port: number; lazyConnect?: boolean; tlsKey?: string };
  shareConnection?: boolean;
  policies: Policies;
  onFailure?: "open" | "closed" | "local" | { local: Policies };
  instances?: number;
  timeoutMs?: number;
}

export interface SiteOptions {
  framework?: "express" | "fastify" | "koa";
  /** Every request meets each of them. */
  limiters: LimiterOptions[];
  /** What `with` adds to the first, one after the other. Express only. */
  extended?: Policies[];
  /** Whether requests are kept one by one. */
  recording?: boolean;
  /** How much longer than the usual deadline an answer may take. 25 by default. */
  lateMs?: number;
}

/** A request as the application's process saw it. Moments are milliseconds since 1970. */
export interface SeenRequest {
  readonly user: string;
  /** When it arrived. */
  readonly at: number;
  readonly status: number;
  /** From its arrival to the end of its answer. */
  readonly ms: number;
  /** Whether it was answered in the turn of the event loop in which it arrived. */
  readonly atOnce: boolean;
  /** Whether it took more than the usual deadline and `lateMs`, as a bare timer in the same process measures that. */
  readonly late: boolean;
  readonly allowed: boolean | undefined;
  readonly rule: "open" | "closed" | "local" | undefined;
  readonly reason: StoreErrorClass | undefined;
}

export interface Seen {
  requests: SeenRequest[];
  breaker: { at: number; state: "open" | "closed" }[];
  /** All but those that tell of one degraded decision. */
  events: ({ at: number } & TidegateEvent)[];
  /** Grants that came when the failure rule had answered. */
  lates: number;
  /** The most requests that were under way at one time. */
  mostPending: number;
}

/** What {@link startApp}'s process is asked. */
export interface Call {
  id: number;
  call: string;
  site: number;
  given: unknown;
}

export interface Site {
  readonly port: number;
  /** What was seen since the last time. */
  seen(): Promise<Seen>;
  record(recording: boolean): Promise<void>;
  health(): Promise<HealthReport[]>;
  /** Ends server and limiters, but no client of the application's. */
  close(): Promise<void>;
}

export interface App {
  readonly child: ChildProcess;
  /** Everything the process said on its own: Node tells of unhandled rejections there, and ioredis of errors. */
  said(): string;
  /** Bytes in use after a garbage collection. */
  heap(): Promise<number>;
  /** From now on this process finds a host of that name. */
  name(host: string, address: string): Promise<void>;
  serve(options: SiteOptions): Promise<Site>;
  end(): void;
}

const program = fileURLToPath(new URL("./processes-app.mjs", import.meta.url));

/** A process without any site yet. */
export function startApp(): App {
  const child = fork(program, [], { execArgv: ["--expose-gc"], stdio: ["ignore", "pipe", "pipe", "ipc"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream!.on("data", (chunk) => (said += chunk));
  const call = callsTo(child, () => said);
  let sites = 0;
  return {
    child,
    said: () => said,
    heap: () => call("heap"),
    name: (host, address) => call("name", 0, { host, address }),
    async serve(options) {
      const id = ++sites;
      const port: number = await call("serve", id, options);
      return {
        port,
        seen: () => call("seen", id),
        record: (recording) => call("record", id, recording),
        health: () => call("health", id),
        close: () => call("close", id),
      };
    },
    end: () => void child.kill("SIGKILL"),
  };
}

/** Asks a process, and waits for what it answers. */
function callsTo(child: ChildProcess, said: () => string) {
  const waiting = new Map<number, { resolve(value: any): void; reject(error: Error): void }>();
  child.on("message", ({ id, result, error }: { id: number; result: unknown; error?: string }) => {
    const asked = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) asked?.resolve(result);
    else asked?.reject(new Error(error));
  });
  child.once("exit", (code, signal) => {
    const error = new Error(`the application ended: ${code ?? signal}\n${said()}`);
    for (const asked of waiting.values()) asked.reject(error);
  });
  let calls = 0;
  return (call: string, site = 0, given?: unknown) =>
    new Promise<any>((resolve, reject) => {
      const id = ++calls;
      waiting.set(id, { resolve, reject });
      child.send({ id, call, site, given } satisfies Call, (error) => error && reject(error));
    });
}

/** A site of one limiter, until the test is over. */
export async function served(
  app: App,
  limiter: Partial<LimiterOptions> & Pick<LimiterOptions, "policies">,
  more: Partial<SiteOptions> = {},
): Promise<Site & { prefix: string }> {
  const prefix = freshPrefix();
  const site = await app.serve({ limiters: [{ prefix, ...limiter }], ...more });
  onTestFinished(async () => {
    if (!app.child.killed) await site.close();
  });
  return { ...site, prefix };
}

/** What a client got. */
export interface Answer {
  readonly user: string;
  readonly status: number;
  /** Of the policies that the answer tells of. */
  readonly policies: string | undefined;
  readonly ms: number;
}

/** Who asks: one client, or another for each request by its number. */
export type Client = string | ((request: number) => string);

const nameOf = (client: Client, request: number): string =>
  typeof client === "string" ? client : client(request);

/** One request, as `user`. */
async function get(pool: Pool, user: string, cost?: number): Promise<Answer> {
  const asked = performance.now();
  const headers = { "x-user": user, ...(cost !== undefined && { "x-cost": String(cost) }) };
  const {
    statusCode: status,
    headers: fields,
    body,
  } = await pool.request({ path: "/", method: "GET", headers });
  await body.dump();
  const policies = fields["ratelimit-policy"] as string | undefined;
  return { user, status, policies, ms: performance.now() - asked };
}

const poolOf = (port: number, options: Pool.Options) => new Pool(`http://127.0.0.1:${port}`, options);

/** So many requests at once, of one client or of many. */
export async function ask(port: number, times: number, client: Client, cost?: number): Promise<Answer[]> {
  const pool = poolOf(port, { connections: 128 });
  try {
    return await Promise.all(Array.from({ length: times }, (_, i) => get(pool, nameOf(client, i), cost)));
  } finally {
    await pool.close();
  }
}

export interface Load {
  /** As whom requests are sent from now on: one client, or by the request's number. */
  as(user: Client): void;
  /** How many requests of these clients have no answer yet. */
  open(...users: RegExp[]): number;
  /** Ends it and waits for what is under way. Fails if a single request had no answer. */
  end(): Promise<Answer[]>;
}

/** So many requests a second, whatever becomes of them: a slow answer holds back none. */
export function load(port: number, perSecond: number, first: Client): Load {
  const pool = poolOf(port, {}); // As many connections as it takes: no request waits here for another.
  const start = performance.now();
  const sent: Promise<Answer>[] = [];
  const open = new Set<{ user: string }>();
  let client = first;
  const send = () => {
    const request = { user: nameOf(client, sent.length) };
    open.add(request);
    const answer = get(pool, request.user).finally(() => open.delete(request));
    answer.catch(() => {}); // `end` tells of it.
    sent.push(answer);
  };
  const timer = setInterval(() => {
    const due = ((performance.now() - start) / 1000) * perSecond;
    while (sent.length < due) send();
  }, 4);
  onTestFinished(async () => {
    clearInterval(timer);
    await pool.destroy();
  });
  return {
    as: (next) => (client = next),
    open: (...users) => [...open].filter(({ user }) => users.some((name) => name.test(user))).length,
    async end() {
      clearInterval(timer);
      return Promise.all(sent);
    },
  };
}

/** The answers by status, how many of each. */
export function tally(answers: readonly { status: number }[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

/** The number that all but `percent` of these do not exceed. */
export function allBut<T>(percent: number, of: readonly T[], number: (one: T) => number): number {
  if (of.length === 0) throw new Error("there is nothing to look at");
  const sorted = of.map(number).sort((a, b) => a - b);
  return sorted[Math.ceil(sorted.length * (1 - percent / 100)) - 1]!;
}

/** How many units a policy `api` by fixed windows has charged to a user. */
export async function chargedTo(
  { client }: Pick<RedisServer, "client">,
  { prefix }: { readonly prefix: string },
  user: string,
): Promise<number> {
  return Number(await client.get(`${prefix}:{user:${user}}:api:fw`));
}

/** Whether Redis decides what this site asks. */
export async function isWell(site: Pick<Site, "port" | "health">): Promise<boolean> {
  await ask(site.port, 1, LOOKING, 0);
  return (await site.health()).every(({ state }) => state === "ok");
}

const LOOKING = "looking";

/** Whether a request is none of {@link isWell}'s. */
export const isTraffic = ({ user }: { readonly user: string }): boolean => user !== LOOKING;

let clients = 0;

/**
 * What one client gets for so many requests at once, when Redis decides about every one of them. On a machine that is
 * busy some decision may miss the deadline: that says nothing of exactness, and another client is asked for.
 */
export async function whoGetIn(site: Site, times: number, cost: number): Promise<Record<number, number>> {
  await site.seen();
  for (let tries = 0; tries < 10; tries++) {
    const answers = await ask(site.port, times, `exact-${++clients}`, cost);
    const { requests } = await site.seen();
    if (requests.every(({ rule }) => !rule)) return tally(answers);
  }
  throw new Error("Redis was never asked about all requests");
}
