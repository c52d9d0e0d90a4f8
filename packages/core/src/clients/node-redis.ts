import { ConfigError } from "../errors.ts";
import { every } from "../timers.ts";
import type { ClientDone, ClientState, ScriptClient } from "./client.ts";
import { noConnection, prefixed } from "./commands.ts";
import {
  isNodeRedisCluster,
  type NodeRedisLike,
  oursOver,
  PLAIN,
  prefixOf,
  tellOf,
  written,
} from "./node-redis-shape.ts";

/** How often a connection of our own is looked after, milliseconds. */
const LOOK_MS = 500;

/**
 * Looks without a sign of life after which a connection is left for another: one and a half to two
 * seconds. They are counted, not timed: an event loop that is busy leaves replies unread, and looks
 * undone as well.
 */
const SILENT_LOOKS = 4;

/** How a client of node-redis is used. */
export interface NodeRedisOptions {
  /** Uses the client as it is. It is never connected, never closed, never changed, and no listener stays. False by default. */
  share?: boolean;
}

/**
 * A connection of our own to the server of a client of node-redis, which stays untouched; or that
 * client itself. Neither sends a command twice.
 *
 * @throws ConfigError when the client is one of a Cluster: for that there is {@link nodeRedisCluster}
 */
export function nodeRedisClient(
  client: NodeRedisLike,
  { share = false }: NodeRedisOptions = {},
): ScriptClient {
  if (isNodeRedisCluster(client)) {
    const advice = "this is a client of a Cluster; give it as redis, or to nodeRedisCluster";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "redis", client, advice);
  }
  const prefix = prefixOf(client.options ?? {});
  return share
    ? new SharedConnection(client, prefix)
    : new OwnConnection(() => client.duplicate(oursOver(client.options)), prefix);
}

/** A client of ours, from when it was made until it is left. */
interface Line {
  readonly client: NodeRedisLike;
  /** Whether it is opening a socket. */
  isDialling: boolean;
}

/**
 * The library looks for a server that has gone, but waits for ever for one that says nothing. We do
 * not, and begin anew with another client.
 */
export class OwnConnection implements ScriptClient {
  readonly resends = false;
  readonly #make: () => NodeRedisLike;
  readonly #prefix: string;
  readonly #looking: NodeJS.Timeout;
  #line: Line;
  #state: ClientState = "connecting";
  #trouble: unknown;
  #listener: () => void = () => {};
  #isClosed = false;
  #unanswered = 0;
  #silentLooks = 0;

  /**
   * @param make makes a client with our settings, be it connecting or not
   * @param prefix begins every key
   */
  constructor(make: () => NodeRedisLike, prefix: string) {
    this.#make = make;
    this.#prefix = prefix;
    this.#line = this.#dial();
    this.#looking = every(LOOK_MS, () => this.#look());
  }

  get state(): ClientState {
    return this.#state;
  }

  get trouble(): unknown {
    return this.#trouble;
  }

  onState(listener: () => void): void {
    this.#listener = listener;
  }

  send(command: string, args: readonly (string | number)[], done: ClientDone): void {
    if (this.#state !== "ready") return done(noConnection(), undefined);
    this.#unanswered++;
    const sent = this.#line.client.sendCommand(written(command, prefixed(this.#prefix, command, args)));
    tellOf(sent, (error, reply) => {
      this.#unanswered--;
      this.#silentLooks = 0;
      done(error, reply);
    });
  }

  renew(): void {
    if (this.#isClosed) return;
    const left = this.#line;
    this.#become(left, "down");
    this.#line = this.#dial();
    this.#silentLooks = 0;
    leave(left);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#state = "down";
    clearInterval(this.#looking);
    leave(this.#line);
  }

  #dial(): Line {
    const client = this.#make();
    const line: Line = { client, isDialling: true };
    client.on("reconnecting", () => this.#heard(line, true));
    client.on("connect", () => this.#heard(line, false));
    client.on("ready", () => this.#become(line, "ready"));
    // Of every connection that broke and every failed attempt. Without a listener it would be thrown.
    client.on("error", (error) => {
      this.#heard(line, false);
      if (!client.isReady) this.#become(line, "down", error);
    });
    if (!client.isOpen) client.connect().catch(() => {});
    return line;
  }

  #heard(from: Line, isDialling: boolean): void {
    from.isDialling = isDialling;
    if (from === this.#line) this.#silentLooks = 0;
  }

  #become(from: Line, state: ClientState, error?: unknown): void {
    if (from !== this.#line || this.#isClosed) return;
    this.#trouble = error;
    if (state === this.#state) return;
    this.#state = state;
    this.#listener();
  }

  #look(): void {
    const isWaiting = this.#unanswered > 0 || this.#state !== "ready";
    this.#silentLooks = isWaiting ? this.#silentLooks + 1 : 0;
    if (this.#silentLooks >= SILENT_LOOKS) this.renew();
  }
}

/** Ends a client. One that is opening a socket is let do so first: it would open it all the same, and keep it. */
function leave({ client, isDialling }: Line): void {
  const end = () => {
    if (client.isOpen) client.destroy();
  };
  if (!isDialling) return end();
  client.on("connect", end);
  client.on("error", end);
}

/** An application's own client, as it is. */
class SharedConnection implements ScriptClient {
  readonly resends = false;
  readonly trouble = undefined;
  readonly #client: NodeRedisLike;
  readonly #prefix: string;
  readonly #listeners: readonly (readonly [event: string, listener: () => void])[];
  #listener: () => void = () => {};
  /** Whether it is known how the first attempt to connect has ended. */
  #isKnown: boolean;
  #told: ClientState;

  constructor(client: NodeRedisLike, prefix: string) {
    this.#client = client;
    this.#prefix = prefix;
    this.#isKnown = client.isReady;
    this.#told = this.state;
    // Not "error": where nobody listens to that, it is thrown, and so it shall be.
    this.#listeners = [
      ["connect", () => this.#tell()],
      ["ready", () => this.#tell(true)],
      ["reconnecting", () => this.#lost()],
      ["end", () => this.#lost()],
    ];
    for (const [event, listener] of this.#listeners) client.on(event, listener);
  }

  /** As it is now. There is no event for every change, but one for each that something has to be done about. */
  get state(): ClientState {
    const { isOpen, isReady } = this.#client;
    if (!isOpen) return "down";
    if (isReady) return "ready";
    return this.#isKnown ? "down" : "connecting";
  }

  onState(listener: () => void): void {
    this.#listener = listener;
  }

  send(command: string, args: readonly (string | number)[], done: ClientDone): void {
    // The library would queue it, to be carried out long after anybody waits for it.
    if (this.state !== "ready") return done(noConnection(), undefined);
    tellOf(this.#client.sendCommand(written(command, prefixed(this.#prefix, command, args)), PLAIN), done);
  }

  async close(): Promise<void> {
    this.#listener = () => {};
    for (const [event, listener] of this.#listeners) this.#client.off(event, listener);
  }

  #lost(): void {
    this.#isKnown = true;
    this.#tell();
  }

  /** @param isNew whether the connection is another than before, though there may be nothing else to tell */
  #tell(isNew = false): void {
    if (isNew) this.#isKnown = true;
    else if (this.#told === this.state) return;
    this.#told = this.state;
    this.#listener();
  }
}
