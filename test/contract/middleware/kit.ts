/** What the contract asks of a framework: to serve a site that is written without one. */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Config, Decision, Extension, Limiter, TidegateEvent } from "@tidegate/core";
import request from "supertest";
import { onTestFinished } from "vitest";
import { type Answer, PATIENT, read } from "../../harness/http.ts";

/** A request and its response, as a handler of any framework can get at them. */
export interface Io {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  /** What the limiter left for handlers. */
  readonly decision: Decision | undefined;
  /** Sets a response field in the framework's way. */
  field(name: string, value: string): void;
  /** Answers in the framework's way. */
  send(status: number, body?: string): void;
}

export type Handle = (io: Io) => unknown;

export interface Route {
  /** More policies on this route alone. */
  readonly with?: Extension;
  /** The application's limiter once more. */
  readonly again?: boolean;
  readonly handle: Handle;
}

export interface Site {
  readonly config: Config;
  /** Runs before the limiter; the request goes on unless it has answered. */
  readonly before?: (io: Io) => void | Promise<void>;
  /** By `"METHOD /pattern"`, through the framework's own router. Whatever else is asked is answered by `handle`. */
  readonly routes?: Readonly<Record<string, Handle | Route>>;
  /** Says hello unless it is given. */
  readonly handle?: Handle;
  /** The application's own setting: which proxies it believes. */
  readonly trust?: boolean | number | string;
  /** The application's own settings for its router. */
  readonly router?: { readonly caseSensitive?: boolean; readonly strict?: boolean };
  /** Bodies of JSON are read before the limiter. */
  readonly json?: boolean;
}

/** A framework. */
export interface Kit {
  readonly name: string;
  serve(site: Site, limiting: { config: Config }): Promise<{ server: Server; limiter: Limiter }>;
  /** The framework's request, as users' functions get it: the body that was read. */
  bodyOf(request: unknown): unknown;
  /** Puts what earlier middleware finds where this framework keeps it. */
  foundBy(incoming: IncomingMessage): (found: object) => void;
  /** Whether the framework has a setting of its own for proxies that can be used. */
  readonly ownTrust: boolean;
  /** What the framework's pattern library refuses. */
  readonly noPattern: string;
}

/** A site that is being served, and what was seen of it. */
export interface Served {
  readonly server: Server;
  readonly port: number;
  readonly limiter: Limiter;
  readonly events: TidegateEvent[];
  /** The decision that each request had when it reached its handler. */
  readonly reached: (Decision | undefined)[];
}

/** Serves until the test is over. */
export async function serving(kit: Kit, site: Site): Promise<Served> {
  const events: TidegateEvent[] = [];
  const reached: (Decision | undefined)[] = [];
  const watched = (handle: Handle): Handle => {
    return (io) => {
      reached.push(io.decision);
      return handle(io);
    };
  };
  const routes = Object.fromEntries(
    Object.entries(site.routes ?? {}).map(([name, route]) => [
      name,
      typeof route === "function" ? watched(route) : { ...route, handle: watched(route.handle) },
    ]),
  );
  const handle = watched(site.handle ?? ((io) => io.send(200, "hello")));
  const config = { ...PATIENT, onEvent: (event: TidegateEvent) => void events.push(event), ...site.config };
  const { server, limiter } = await kit.serve({ ...site, routes, handle }, { config });
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    if (!config.store) await limiter.close();
  });
  return { server, port: (server.address() as AddressInfo).port, limiter, events, reached };
}

/** Fields that are a limiter's to write. */
const OURS =
  /^(RateLimit(-Policy|-Limit|-Remaining|-Reset)?|X-RateLimit-(Limit|Remaining|Reset)|Retry-After|Cache-Control|Access-Control-Expose-Headers)$/;

export interface Ask {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object;
}

/** What came back: the fields that are a limiter's, as the wire has them; the type of a body that is ours. */
export async function ask(
  { server }: Pick<Served, "server">,
  path = "/",
  { method = "GET", headers = {}, body }: Ask = {},
): Promise<Answer> {
  const asked = request(server)[method.toLowerCase() as "get"](path).set(headers).redirects(0);
  const response = await (body ? asked.send(body) : asked).ok(() => true);
  const raw = (response as unknown as { res: IncomingMessage }).res.rawHeaders;
  const fields: Record<string, string> = {};
  const refused = response.status === 429 || response.status === 503;
  for (let i = 0; i < raw.length; i += 2) {
    const [name, value] = [raw[i]!, raw[i + 1]!];
    if (/ratelimit|retry-after/i.test(name) && !OURS.test(name))
      throw new Error(`${name} is no field of ours`);
    // Frameworks that write names in lower case write the others' so.
    const known = name.replace(/^cache-control$/, "Cache-Control").replace(/^content-type$/, "Content-Type");
    if (!OURS.test(known) && !(known === "Content-Type" && refused)) continue;
    if (known in fields) throw new Error(`${name} stands in two lines`);
    fields[known] = value;
  }
  if (!fields["RateLimit"]?.includes("limit="))
    for (const name of ["RateLimit", "RateLimit-Policy"]) expectList(fields[name]);
  return { status: response.status, fields, body: response.text };
}

/** A field of structured items has to be canonical; those of old drafts are not of that kind. */
function expectList(field: string | undefined): void {
  if (field?.startsWith('"')) read(field);
}

/** `count` requests, one after the other. */
export async function asks(count: number, served: Served, path = "/", how: Ask = {}): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (let i = 0; i < count; i++) answers.push(await ask(served, path, how));
  return answers;
}

export const statuses = (answers: readonly Answer[]): number[] => answers.map(({ status }) => status);

/** The answer of a site's own handler. */
export const hello = (fields: Record<string, string>): Answer => ({ status: 200, fields, body: "hello" });
