import { type ClientDone, type ClientState, isRedirection, type ScriptClient } from "./client.ts";
import { noConnection } from "./commands.ts";

/** How often a command is sent on, and how long it waits where its keys are on the move, milliseconds. */
const REDIRECTIONS = 5;
const TRY_AGAIN_MS = 10;

/** The Cluster that a server is of. */
export interface Hub {
  nodeAt(address: string): OwnNode;
  refresh(): void;
  closed(): void;
}

/** One server of a Cluster. */
export class OwnNode implements ScriptClient {
  readonly resends = false;
  readonly renew: () => void;
  /** Whether it is only here as others have sent something on to it. */
  isSpare = true;
  usedAt = performance.now();
  readonly #line: ScriptClient;
  readonly #hub: Hub;
  #waiting: (() => void)[] = [];
  #listener: () => void = () => {};

  constructor(line: ScriptClient, hub: Hub) {
    this.#line = line;
    this.#hub = hub;
    this.renew = () => hub.refresh();
    line.onState(() => {
      this.#goOn();
      this.#listener();
    });
  }

  get state(): ClientState {
    return this.#line.state;
  }

  get trouble(): unknown {
    return this.#line.trouble;
  }

  onState(listener: () => void): void {
    this.#listener = listener;
  }

  send(command: string, args: readonly (string | number)[], done: ClientDone): void {
    this.#line.send(command, args, this.#followed(this, command, args, done, REDIRECTIONS));
  }

  async close(): Promise<void> {
    this.#listener = () => {};
    this.#hub.closed();
    await this.#line.close();
    this.#goOn();
  }

  /** What a server refuses with MOVED, ASK or TRYAGAIN it has not executed. @param by the one that answers */
  #followed(
    by: OwnNode,
    command: string,
    args: readonly (string | number)[],
    done: ClientDone,
    left: number,
  ): ClientDone {
    return (error, reply) => {
      if (left === 0 || !isRedirection(error)) return done(error, reply, by !== this);
      const [kind, , address = ""] = (error as Error).message.split(" ");
      const sendTo = (next: OwnNode) =>
        next.#take(kind === "ASK", command, args, this.#followed(next, command, args, done, left - 1));
      if (kind === "TRYAGAIN") return void setTimeout(sendTo, TRY_AGAIN_MS, this);
      if (kind === "MOVED") this.#hub.refresh();
      sendTo(this.#hub.nodeAt(address));
    };
  }

  /** Carries out what another server has sent here. It may be new, and not be connected yet. */
  #take(isAsked: boolean, command: string, args: readonly (string | number)[], done: ClientDone): void {
    this.usedAt = performance.now();
    if (this.state === "connecting")
      return void this.#waiting.push(() => this.#take(isAsked, command, args, done));
    if (this.state === "down") return done(noConnection(), undefined);
    // It holds for the next command only, and nothing comes between.
    if (isAsked) this.#line.send("asking", [], () => {});
    this.#line.send(command, args, done);
  }

  #goOn(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const go of waiting) go();
  }
}
