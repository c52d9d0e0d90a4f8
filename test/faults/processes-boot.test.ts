/** P21: a process that starts without its Redis, for every reason there is, and meets it later. */
import { createServer, type Server } from "node:http";
import { connect, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { freePort, type RedisServer, startRedis } from "../harness/redis.ts";
import {
  type App,
  ask,
  chargedTo,
  isWell,
  type LimiterOptions,
  type Policies,
  served,
  startApp,
  whoGetIn,
} from "./processes.ts";

/** By this, this process and the application know each other in TLS. */
const KEY = "0123456789abcdef";

const policies: Policies = { api: ["fixedWindow", { limit: 1000, window: "1h" }] };

let app: App;
let port: number;
beforeEach(async () => {
  app = startApp();
  port = await freePort();
  return () => app.end();
});

/** A server that goes when the test is over. */
async function started(at = port): Promise<RedisServer> {
  const server = await startRedis({ port: at });
  onTestFinished(() => server.stop());
  return server;
}

/** What keeps the process from its Redis, until it is called off. */
interface Trouble {
  readonly limiter: Partial<LimiterOptions>;
  /** What may be wrong then, as decisions say it. */
  readonly reasons: readonly string[];
  /** What it turns out to be, where that is known for certain. */
  readonly last?: string;
  /** Gives the Redis that the process meets then. */
  readonly end: () => Promise<RedisServer>;
}

const url = () => ({ redis: `redis://127.0.0.1:${port}` });

async function wrongService(): Promise<Trouble> {
  const web: Server = createServer((_, response) => void response.end("no Redis here"));
  await new Promise<void>((resolve) => web.listen(port, "127.0.0.1", resolve));
  const end = async () => {
    web.closeAllConnections();
    await new Promise((resolve) => web.close(resolve));
    return started();
  };
  return { limiter: url(), reasons: ["timeout", "connection"], end };
}

async function wrongPassword(): Promise<Trouble> {
  const server = await started();
  await server.client.config("SET", "requirepass", "right");
  return {
    limiter: { redis: `redis://:wrong@127.0.0.1:${port}` },
    reasons: ["timeout", "connection", "denied"],
    last: "denied",
    async end() {
      await server.client.config("SET", "requirepass", "wrong");
      return server;
    },
  };
}

async function notPermitted(): Promise<Trouble> {
  const server = await started();
  const acl = (...rules: string[]) => server.client.call("ACL", "SETUSER", "narrow", ...rules);
  await acl("on", ">secret", "~*", "+@all", "-evalsha", "-eval");
  return {
    limiter: { redis: `redis://narrow:secret@127.0.0.1:${port}` },
    reasons: ["timeout", "denied"],
    last: "denied",
    async end() {
      await acl("+evalsha", "+eval");
      return server;
    },
  };
}

async function unknownName(): Promise<Trouble> {
  const server = await started();
  return {
    limiter: { redis: `redis://redis.invalid:${port}` },
    reasons: ["timeout", "connection"],
    async end() {
      await app.name("redis.invalid", "127.0.0.1");
      return server;
    },
  };
}

/** TLS in front of a Redis, with a key that both sides know. */
async function tlsTo(redis: RedisServer, key: { psk: string }): Promise<() => Promise<void>> {
  const sockets = new Set<Socket>();
  const server = createTlsServer(
    { ciphers: "PSK", maxVersion: "TLSv1.2", pskCallback: () => Buffer.from(key.psk) },
    (near) => {
      const far = connect(redis.port, "127.0.0.1");
      for (const socket of [near, far]) {
        sockets.add(socket);
        socket.on("error", () => {});
      }
      near.pipe(far).pipe(near);
    },
  );
  server.on("tlsClientError", () => {});
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const stop = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  onTestFinished(stop);
  return stop;
}

const byTls = (): Partial<LimiterOptions> => ({ client: { port, tlsKey: KEY } });

async function tlsToPlain(): Promise<Trouble> {
  const plain = await started();
  const end = async () => {
    await plain.stop();
    const server = await started(await freePort());
    await tlsTo(server, { psk: KEY });
    return server;
  };
  return { limiter: byTls(), reasons: ["timeout", "connection"], end };
}

async function tlsRefused(): Promise<Trouble> {
  const key = { psk: "another one's key" };
  const server = await started(await freePort());
  await tlsTo(server, key);
  return {
    limiter: byTls(),
    reasons: ["timeout", "connection"],
    async end() {
      key.psk = KEY;
      return server;
    },
  };
}

const absent = (limiter: () => Partial<LimiterOptions>) => async (): Promise<Trouble> => ({
  limiter: limiter(),
  reasons: ["timeout", "connection"],
  end: () => started(),
});

it.each<[string, () => Promise<Trouble>]>([
  ["P21 no Redis, or a wrong port", absent(url)],
  ["P21 a wrong port, where something else answers", wrongService],
  ["P21 a wrong password", wrongPassword],
  ["P24 a user who may not run scripts", notPermitted],
  ["P21 a name that nobody knows", unknownName],
  ["P21 TLS, and a server that speaks none", tlsToPlain],
  ["P21 TLS, and a server that refuses the handshake", tlsRefused],
  ["P21 a client that connects lazily", absent(() => ({ client: { port, lazyConnect: true } }))],
  [
    "P21 a shared client that connects lazily",
    absent(() => ({ client: { port, lazyConnect: true }, shareConnection: true })),
  ],
])(
  "%s at boot: the rule answers, nothing is rejected unseen, exact within 2 s of its end without a restart",
  async (_, begin) => {
    const trouble = await begin();
    const site = await served(app, { policies, ...trouble.limiter });
    for (let i = 0; i < 10; i++) {
      expect((await ask(site.port, 1, "meanwhile"))[0]!.status).toBe(200);
      await sleep(100);
    }
    const { requests, events } = await site.seen();
    expect(requests.map(({ rule }) => rule)).toEqual(Array(10).fill("open"));
    for (const { reason } of requests) expect(trouble.reasons).toContain(reason);
    if (trouble.last) {
      expect(requests.at(-1)!.reason).toBe(trouble.last);
      const told = events.filter((event) => event.type === "storeError" && event.reason === trouble.last);
      expect(told).toMatchObject([{ message: expect.stringMatching(/NOPERM|WRONGPASS/) }]);
    }
    expect(requests.filter(({ late }) => late)).toEqual([]);
    expect(events.map(({ type }) => type)).toContain("storeError");

    const server = await trouble.end();
    const ended = Date.now();
    await eventually("Redis decides", () => isWell(site), 2000);
    expect(Date.now() - ended).toBeLessThan(2000);
    expect(await whoGetIn(site, 12, 100)).toEqual({ 200: 10, 429: 2 });
    expect(await chargedTo(server, site, "meanwhile")).toBe(0);
    expect(app.child.exitCode).toBe(null);
    expect(app.said()).toBe("");
  },
  30_000,
);
