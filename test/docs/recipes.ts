/** What takes a block out of a page of the cookbook and runs it, with real values for what its preamble declares. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { Server } from "node:http";
import { join } from "node:path";
import type { Limiter, Store } from "@tidegate/core";
import type { Express } from "express";
import request from "supertest";
import { afterAll, onTestFinished, vi } from "vitest";
import { read as readField } from "../harness/http.ts";
import { freePort } from "../harness/redis.ts";
import { type Block, blocksOf, read, root } from "./markdown.ts";

mkdirSync(join(root, ".cache"), { recursive: true });
const folder = mkdtempSync(join(root, ".cache/recipes-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const GIVEN = Symbol.for("tidegate.docs.recipes");
let files = 0;

/** Packages of the examples, which the root does not have. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  graphql: "examples/graphql/node_modules/graphql/index.mjs",
  ws: "examples/websocket/node_modules/ws/wrapper.mjs",
};

export interface Cooking {
  /** Stands in for the Redis of the page. Without one, the block meets a Redis that is not there. */
  readonly store?: Store;
  /** A real one, in real time. */
  readonly url?: string;
  /** Changes the block to what its page says that it may be changed to. */
  readonly rewrite?: readonly [from: string, to: string];
  /** What the preamble declares. */
  readonly values?: Readonly<Record<string, unknown>>;
}

/** Runs the block, and gives what it has declared at its top, by name. */
export async function cook(
  page: string,
  place: number,
  { store, url, rewrite = ["", ""], values = {} }: Cooking,
): Promise<Record<string, any>> {
  const block = codeOf(page)[place]!;
  if (!block.text.includes(rewrite[0])) throw new Error(`${page} has no ${rewrite[0]}`);
  vi.stubEnv("REDIS_URL", url ?? `redis://127.0.0.1:${await freePort()}`);
  Object.assign(globalThis, { [GIVEN]: { store, ...values } });
  const file = join(folder, `block-${++files}.ts`);
  writeFileSync(file, moduleOf({ ...block, text: block.text.replace(...rewrite) }, store !== undefined));
  const made = (await import(/* @vite-ignore */ file)) as Record<string, unknown>;
  vi.unstubAllEnvs();
  for (const limiter of limitersIn(made)) onTestFinished(() => limiter.close());
  return made;
}

export const codeOf = (page: string): Block[] =>
  blocksOf(read(page)).filter(({ language }) => language === "ts" || language === "js");

/** A type may hold semicolons of its own. */
const DECLARED = /declare const (\w+): .*?;(?= (?:declare|import|interface) |$)/g;

const REDIS = /redis: process\.env\.REDIS_URL(?: \?\? "[^"]*")?/g;

function moduleOf({ preamble, text }: Block, stored: boolean): string {
  const names = [...text.matchAll(/^(?:const|function|async function) (\w+)/gm)].map(([, name]) => name);
  const away = (name: string) => `from "${ELSEWHERE[name] && join(root, ELSEWHERE[name])}"`;
  const code = text.replace(/from "(graphql|ws)"/g, (_, name: string) => away(name));
  return [
    `const given = (globalThis as any)[Symbol.for("tidegate.docs.recipes")];`,
    preamble.replace(DECLARED, "const $1 = given.$1;"),
    // The test's clock stands, so there is no deadline to be met.
    stored ? code.replace(REDIS, "store: given.store, timeoutMs: 10_000") : code,
    `export { ${names.join(", ")} };`,
  ].join("\n");
}

/** Those of the top, and those that an application was given. */
export function limitersIn(made: Readonly<Record<string, unknown>>): Limiter[] {
  const { app } = made as { app?: Express };
  const layers = (app?.router?.stack ?? []).flatMap((layer) => [
    layer.handle,
    ...(layer.route?.stack ?? []).map(({ handle }) => handle),
  ]);
  return [...Object.values(made), ...layers].flatMap((each) => limiterIn(each) ?? []);
}

function limiterIn(holder: unknown): Limiter | undefined {
  const { limiter, decide } = (holder ?? {}) as { limiter?: Limiter; decide?: unknown };
  return limiter ?? (decide ? (holder as Limiter) : undefined);
}

export interface Asked {
  readonly method?: "GET" | "POST";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** Who the proxy says it is. */
  readonly from?: string;
}

export interface Reply {
  readonly status: number;
  /** What `RateLimit` says is left, by the names of the policies: `burst 9, month 9999`. */
  readonly left: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: any;
}

/** A way to ask an application, until the test is over. */
export function asking(app: Express): (path: string, asked?: Asked) => Promise<Reply> {
  const server: Server = app.listen(0);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return async (path, { method, headers = {}, body, from } = {}) => {
    const verb = method ?? (body === undefined ? "GET" : "POST");
    const forwarded = from === undefined ? {} : { "X-Forwarded-For": from };
    const sending = request(server)
      [verb.toLowerCase() as "get"](path)
      .set({ ...headers, ...forwarded });
    const response = await (body === undefined ? sending : sending.send(body as object));
    const fields = response.headers as Record<string, string>;
    const left = [...readField(fields["ratelimit"])].map(([name, { r }]) => `${name} ${r}`);
    return {
      status: response.status,
      left: left.toSorted().join(", "),
      headers: fields,
      body: response.body,
    };
  };
}
