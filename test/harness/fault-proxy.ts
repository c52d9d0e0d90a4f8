/** A wire that can be made to fail: stands between a client and a Redis server, and changes while connections live. */
import { connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export interface FaultProxy {
  readonly url: string;
  readonly port: number;
  /** Connections that clients have made so far. */
  readonly accepted: number;
  /** No fault, from now on. A connection that has lost bytes stays silent: TCP never leaves any out. */
  pass(): void;
  /** The server gets commands that match and carries them out; the answer never arrives, as the connection breaks. So often, then `pass`. */
  dropReplies(times: number, matching?: RegExp): void;
  /** Half-open: connections stand, and nothing comes through, neither way. */
  silent(): void;
  /** Everything arrives so much later, each way. */
  latency(ms: number): void;
  /** So much comes through, each way of each connection. */
  bandwidth(bytesPerSecond: number): void;
  /** The next answer to a command that matches ends in its middle, by a reset. Then `pass`. */
  resetMidReply(matching?: RegExp): void;
  /** Resets every connection, and each new one, until another fault or none. */
  refuse(): void;
  /** Resets every connection there is. */
  cut(): void;
  close(): void;
}

interface Fault {
  readonly silent?: boolean;
  readonly refuse?: boolean;
  readonly latencyMs?: number;
  readonly bytesPerSecond?: number;
  readonly reply?: "drop" | "half";
  /** How many replies the fault is still for. */
  times?: number;
  readonly matching?: RegExp;
}

/** A run of a script, as clients write it. */
const SCRIPTS = /\r\neval(sha)?\r\n/i;

/** When a server has said nothing for so long, all that was asked has been answered. */
const QUIET_MS = 30;

/** Bandwidth is given out in pieces of so long. */
const PIECE_MS = 50;

export async function faultProxy(server: { readonly port: number }): Promise<FaultProxy> {
  let fault: Fault = {};
  let accepted = 0;
  const pairs = new Set<Pair>();
  const sockets = new Set<Socket>();
  const cut = () => pairs.forEach(reset);

  const listener = createServer((client) => {
    accepted++;
    if (fault.refuse) return void client.on("error", () => {}).resetAndDestroy();
    const pair: Pair = { client, upstream: connect(server.port, "127.0.0.1") };
    for (const socket of [pair.client, pair.upstream]) hold(socket);
    pairs.add(pair);
    client.on("close", () => pairs.delete(pair));
    carry(pair.client, pair.upstream, (chunk) => (isDead(pair) ? undefined : asked(pair, chunk)));
    carry(pair.upstream, pair.client, (chunk) => (isDead(pair) ? undefined : answered(pair, chunk)));
  });

  const isDead = (pair: Pair): boolean => (pair.dead ||= fault.silent ?? false);

  function hold(socket: Socket): void {
    sockets.add(socket.setNoDelay(true));
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
  }

  /** Looks whether the answer to what is asked here is one that the fault is for. */
  function asked(pair: Pair, chunk: Buffer): Buffer {
    if (fault.reply && !pair.doom && fault.matching?.test(chunk.toString("latin1"))) {
      pair.doom = fault.reply;
      if (--fault.times! === 0) fault = {};
    }
    return chunk;
  }

  function answered(pair: Pair, chunk: Buffer): Buffer | undefined {
    if (!pair.doom) return chunk;
    const isFirst = !pair.ending;
    clearTimeout(pair.ending);
    // A half and the reset at once would be an orderly end to a client that reads both together.
    pair.ending = setTimeout(reset, QUIET_MS, pair);
    return pair.doom === "half" && isFirst ? chunk.subarray(0, Math.ceil(chunk.length / 2)) : undefined;
  }

  /** Takes bytes one way, in their order, as late and as slowly as the fault of the moment is. */
  function carry(from: Socket, to: Socket, pass: (chunk: Buffer) => Buffer | undefined): void {
    let line = Promise.resolve();
    from.on("data", (chunk) => {
      const passed = pass(chunk);
      const due = performance.now() + (fault.latencyMs ?? 0);
      if (passed) line = line.then(() => deliver(passed, due));
    });
    from.on("close", () => void line.then(() => to.end()));

    async function deliver(chunk: Buffer, due: number): Promise<void> {
      const early = due - performance.now();
      if (early > 0) await sleep(early);
      for (let rest = chunk; rest.length > 0 && !to.destroyed;) {
        const piece = fault.bytesPerSecond
          ? Math.max(1, Math.floor((fault.bytesPerSecond * PIECE_MS) / 1000))
          : rest.length;
        to.write(rest.subarray(0, piece));
        rest = rest.subarray(piece);
        if (fault.bytesPerSecond) await sleep(PIECE_MS);
      }
    }
  }

  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address() as { port: number };
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    get accepted() {
      return accepted;
    },
    pass: () => void (fault = {}),
    dropReplies: (times, matching = SCRIPTS) => void (fault = { reply: "drop", times, matching }),
    silent: () => void (fault = { silent: true }),
    latency: (latencyMs) => void (fault = { latencyMs }),
    bandwidth: (bytesPerSecond) => void (fault = { bytesPerSecond }),
    resetMidReply: (matching = SCRIPTS) => void (fault = { reply: "half", times: 1, matching }),
    refuse() {
      fault = { refuse: true };
      cut();
    },
    cut,
    close() {
      cut();
      for (const socket of sockets) socket.destroy();
      listener.close();
    },
  };
}

interface Pair {
  readonly client: Socket;
  readonly upstream: Socket;
  /** Whether it has lost bytes. */
  dead?: boolean;
  /** What is to become of the next answer. */
  doom?: "drop" | "half";
  ending?: NodeJS.Timeout;
}

/** Ends a connection for the client by a reset. What the server was sent, it still reads to the end. */
function reset({ client, ending }: Pair): void {
  clearTimeout(ending);
  client.resetAndDestroy();
}
