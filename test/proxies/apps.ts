/** The same limited application in each framework. */
import { mkdtempSync, rmSync } from "node:fs";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Check, type Config, memoryStore, rateLimit as expressLimit } from "@tidegate/express";
import { rateLimit as fastifyLimit } from "@tidegate/fastify";
import { rateLimit as koaLimit } from "@tidegate/koa";
import express from "express";
import fastify, { type FastifyServerOptions } from "fastify";
import Koa from "koa";
import { onTestFinished } from "vitest";
import { fakeClock } from "../harness/clock.ts";
import { answersTo, type Place, skip } from "./client.ts";

export type Trust = NonNullable<Config["trustProxy"]>;

/** Starts an application with this configuration, and with this setting of the framework's own. */
type Start = (config: Config, setting: Trust | undefined, at: Place) => Promise<Server>;

/** Each answers with the X-Forwarded-For that it got. */
const frameworks = {
  "Express 5": (config, setting, at) => {
    const app = express();
    if (setting !== undefined) app.set("trust proxy", setting);
    app.use(expressLimit(config), (req, res) => void res.end(req.get("x-forwarded-for")));
    return listening(app.listen(at as never));
  },
  "Fastify 5": async (config, setting, at) => {
    const trustProxy = setting as FastifyServerOptions["trustProxy"];
    const app = fastify(trustProxy === undefined ? {} : { trustProxy });
    await app.register(fastifyLimit, config);
    app.get("/", async (request) => request.headers["x-forwarded-for"] ?? "");
    await app.listen(at);
    return app.server;
  },
  "Koa 3": (config, _, at) => {
    const app = new Koa();
    app.use(koaLimit(config));
    app.use((ctx) => void (ctx.body = ctx.get("x-forwarded-for")));
    return listening(app.listen(at));
  },
} satisfies Record<string, Start>;

const listening = (server: Server): Promise<Server> =>
  new Promise((resolve, reject) => {
    server.once("error", reject);
    server.once("listening", () => resolve(server));
  });

/** An application, and who says in it which proxies are believed: its framework's setting, or our `trustProxy`. */
export interface Way {
  readonly framework: keyof typeof frameworks;
  readonly by: "its setting" | "our trustProxy";
}

type Named<W> = [name: string, way: W];

/** For `describe.each`. Koa has no setting that could be used. */
export const everyFramework: Named<Way>[] = [
  ["Express 5", { framework: "Express 5", by: "its setting" }],
  ["Fastify 5", { framework: "Fastify 5", by: "its setting" }],
  ["Koa 3", { framework: "Koa 3", by: "our trustProxy" }],
];

export const ours: Named<Way>[] = everyFramework.map(([name, { framework }]) => [
  name,
  { framework, by: "our trustProxy" },
]);

const ways: Way[] = [
  ...everyFramework.map(([, way]) => way).filter(({ by }) => by === "its setting"),
  ...ours.map(([, way]) => way),
];

const named = <W extends Way>(trusting: string, list: readonly W[]): Named<W>[] =>
  list.map((way) => [`${way.framework} (${way.by}, ${trusting})`, way]);

export const byNetworks = named("networks", ways);

/** To Fastify a number is nobody. */
export const byHops = named(
  "hops",
  ways.filter(({ framework, by }) => framework !== "Fastify 5" || by === "our trustProxy"),
);

/** Where the proxies of these tests are. */
export const NETWORK = ["127.0.9.0/24"];

/** All ways to believe so many proxies, which are those that there are. */
export const everyWay: Named<Way & { trust(proxies: number): Trust }>[] = [
  ...byNetworks.map(([name, way]): (typeof everyWay)[number] => [name, { ...way, trust: () => NETWORK }]),
  ...byHops.map(([name, way]): (typeof everyWay)[number] => [name, { ...way, trust: (count) => count }]),
];

export interface App {
  readonly place: Place;
  /** Who was counted, each once, in the order of their first request. */
  readonly counted: readonly string[];
  readonly warnings: readonly { code: string; message: string }[];
}

/** As Node listens by itself: where there is IPv6, it sees `::ffff:127.0.9.1` as its peer. */
const ANYWHERE: Place = { host: (await answersTo("::")) ? "::" : "0.0.0.0", port: 0 };

/** Starts an application that believes these proxies, until the test is over. */
export async function serve(
  { framework, by }: Way,
  trust: Trust | undefined,
  config: Config = {},
  at: Place = ANYWHERE,
): Promise<App> {
  if (!(await answersTo("127.0.0.2"))) skip("this machine has no 127.0.0.2");
  const [counted, warnings]: [string[], App["warnings"][number][]] = [[], []];
  const whole: Config = {
    limit: 100,
    window: "1m",
    timeoutMs: 10_000,
    store: countingStore(counted),
    onEvent: (event) => event.type === "warning" && warnings.push(event),
    ...(by === "our trustProxy" && trust !== undefined && { trustProxy: trust }),
    ...config,
  };
  const server = await frameworks[framework](whole, by === "its setting" ? trust : undefined, at);
  onTestFinished(() => {
    server.close();
    server.closeAllConnections(); // Proxies keep theirs.
  });
  const place = "path" in at ? at : { host: "127.0.0.1", port: (server.address() as AddressInfo).port };
  return { place, counted, warnings };
}

/** A memory store that notes whom it was asked about. */
function countingStore(counted: string[]) {
  const store = memoryStore({ nowUs: fakeClock().now });
  onTestFinished(() => store.close());
  const note = (identity: string) => counted.includes(identity) || counted.push(identity);
  const decide: typeof store.decide = (batch, done) => {
    batch.flatMap(identitiesOf).forEach(note);
    store.decide(batch, done);
  };
  return { ...store, decide };
}

/** Out of keys such as `rl:{ip:127.0.0.2}:default:sw`. */
const identitiesOf = ({ keys }: Check): string[] => keys.map((key) => key.replace(/^rl:\{(.*)\}.*$/, "$1"));

/** Where an application listens that has no port. */
export function unixSocket(): Place {
  const folder = mkdtempSync(join(tmpdir(), "tidegate-socket-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return { path: join(folder, "app") };
}
