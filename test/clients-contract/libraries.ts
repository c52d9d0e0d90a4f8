/** The client libraries that a limiter takes, each with clients as applications make them. */
import { inspect } from "node:util";
import {
  type ClusterClient,
  type Config,
  type IoredisCluster,
  type IoredisLike,
  ioredisClient,
  ioredisCluster,
  type NodeRedisCluster,
  type NodeRedisLike,
  nodeRedisClient,
  nodeRedisCluster,
  type ScriptClient,
} from "@tidegate/core";
import { Cluster, Redis } from "ioredis";
import { Cluster as Cluster5, Redis as Redis5 } from "ioredis5";
import { Cluster as ValkeyCluster, Redis as Valkey } from "iovalkey";
import { createClient, createCluster } from "redis";
import { createClient as createClient5, createCluster as createCluster5 } from "redis5";

/** How an application names its server. */
export interface Address {
  readonly port?: number;
  /** Of a Unix socket, instead of a port. */
  readonly path?: string;
  readonly username?: string;
  readonly password?: string;
  readonly db?: number;
  readonly keyPrefix?: string;
  /** The certificate to trust: then TLS is spoken, with localhost. */
  readonly ca?: string;
}

/** A client as an application has it. It is not connected, and listens to its errors. */
export interface App<Ours> {
  readonly redis: NonNullable<Config["redis"]>;
  /** What a limiter makes of it. */
  ours(share: boolean): Ours;
  /** What an application does before it uses its client. */
  connect(): Promise<unknown>;
  isConnected(): boolean;
  ask(command: string, ...args: string[]): Promise<unknown>;
  /** All that somebody could have changed: settings and listeners. */
  shape(): string;
  end(): void;
}

type ClientApp = App<ScriptClient>;
export type ClusterApp = App<ClusterClient>;

export interface Library {
  readonly name: string;
  /** Whether a shared client sends once more what was under way when its connection broke. */
  readonly resends: boolean;
  /** Whether a shared client connects by itself; otherwise its application does that. */
  readonly connectsItself: boolean;
  readonly prefixesKeys: boolean;
  client(address: Address): ClientApp;
  cluster(address: ClusterAddress): ClusterApp;
}

/** How an application names its Cluster. */
export interface ClusterAddress {
  readonly ports: readonly number[];
  readonly map?: AddressMap;
  readonly username?: string;
  readonly password?: string;
  readonly keyPrefix?: string;
}

/** From where the Cluster thinks a server is to where it is. */
type AddressMap = Readonly<Record<string, { host: string; port: number }>>;

/** What both libraries' clients are besides what we use of them. */
interface Emitter {
  eventNames(): (string | symbol)[];
  listenerCount(event: string | symbol): number;
}

const shapeOf = (client: Emitter, options: unknown): string => {
  const listeners = client.eventNames().map((name) => [String(name), client.listenerCount(name)]);
  return inspect({ listeners, options }, { depth: 8, sorted: true });
};

const HOST = "127.0.0.1";

type Made<T> = new (...args: any[]) => T;
type Theirs = IoredisLike & Emitter & { readonly options: object };

function appOfIoredis<Ours>(client: Theirs, ours: (share: boolean) => Ours): App<Ours> {
  client.on("error", () => {});
  return {
    redis: client,
    ours,
    connect: () => client.connect(),
    isConnected: () => client.status !== "wait",
    ask: (command, ...args) => client.call(command, args),
    shape: () => shapeOf(client, client.options),
    end: () => client.disconnect(),
  };
}

function ioredisLibrary(name: string, Client: Made<Theirs>, Clients: Made<Theirs & IoredisCluster>): Library {
  return {
    name,
    resends: true,
    connectsItself: true,
    prefixesKeys: true,
    client({ ca, ...address }) {
      const server = ca ? { host: "localhost", tls: { ca } } : { host: HOST };
      const client = new Client({ ...server, lazyConnect: true, ...address });
      return appOfIoredis(client, (share) => ioredisClient(client, { share }));
    },
    cluster({ ports, map, keyPrefix, ...redisOptions }) {
      const nodes = ports.map((port) => ({ host: HOST, port }));
      const more = { ...(map && { natMap: map }), ...(keyPrefix && { keyPrefix }) };
      const client = new Clients(nodes, { lazyConnect: true, redisOptions, ...more });
      return appOfIoredis(client, (share) => ioredisCluster(client, { share }));
    },
  };
}

function appOfNodeRedis<Ours>(
  client: NodeRedisLike | NodeRedisCluster,
  options: unknown,
  ask: (words: string[]) => Promise<unknown>,
  ours: (share: boolean) => Ours,
): App<Ours> {
  client.on("error", () => {});
  return {
    redis: client,
    ours,
    connect: () => client.connect(),
    isConnected: () => client.isOpen,
    ask: (...words) => ask(words),
    shape: () => shapeOf(client as unknown as Emitter, options),
    end: () => void (client.isOpen && client.destroy()),
  };
}

function nodeRedisLibrary(
  name: string,
  makeClient: (options: any) => NodeRedisLike,
  makeCluster: (options: any) => NodeRedisCluster,
): Library {
  return {
    name,
    resends: false,
    connectsItself: false,
    prefixesKeys: makeClient === (createClient as unknown),
    client({ port, path, ca, db, ...login }) {
      const place = path ? { path } : { host: ca ? "localhost" : HOST, port };
      const options = { ...login, database: db, socket: { ...place, ...(ca && { tls: true, ca }) } };
      const client = makeClient(options);
      const ask = (words: string[]) => client.sendCommand(words);
      return appOfNodeRedis(client, options, ask, (share) => nodeRedisClient(client, { share }));
    },
    cluster({ ports, map, keyPrefix, ...login }) {
      const options = {
        // Who logs in stands with the defaults: of these, the library only takes the place.
        rootNodes: ports.map((port) => ({ url: `redis://${HOST}:${port}` })),
        defaults: login,
        ...(map && { nodeAddressMap: map }),
        ...(keyPrefix && { keyPrefix }),
      };
      const client = makeCluster(options);
      const ask = (words: string[]) => client.sendCommand(words[1], false, words);
      return appOfNodeRedis(client, options, ask, (share) => nodeRedisCluster(client, { share }));
    },
  };
}

export const ioredisKin: readonly Library[] = [
  ioredisLibrary("ioredis 6", Redis as Made<Theirs>, Cluster as Made<any>),
  ioredisLibrary("ioredis 5", Redis5 as Made<Theirs>, Cluster5 as Made<any>),
  ioredisLibrary("iovalkey", Valkey as Made<Theirs>, ValkeyCluster as Made<any>),
];

export const nodeRedisKin: readonly Library[] = [
  nodeRedisLibrary("node-redis 6", createClient, createCluster),
  nodeRedisLibrary("node-redis 5", createClient5, createCluster5),
];

export const libraries: readonly Library[] = [...ioredisKin, ...nodeRedisKin];

/** Each way in which a limiter may use a client of each of these. */
export const waysOf = (some: readonly Library[]) =>
  some.flatMap((library) =>
    [false, true].map((share) => ({
      library,
      share,
      title: `${library.name}, ${share ? "shared" : "a connection of our own"}`,
    })),
  );

export type Way = ReturnType<typeof waysOf>[number];
