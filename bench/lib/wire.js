/** What a client sends, recorded as bytes and sent again. */
import { connect, createServer } from "node:net";

/** Ends every replay; its answer tells that all before it are answered. */
const MARK = "end-of-replay";
const MARK_COMMAND = Buffer.from(`*2\r\n$4\r\nECHO\r\n$${MARK.length}\r\n${MARK}\r\n`);
const MARK_ANSWER = `${MARK}\r\n`;
/** Enough of the last answers to see whether they are what they should be. */
const TAIL = 400;

/**
 * A proxy in front of a server that keeps what clients send.
 *
 * @param {number} port
 */
export async function recordingProxy(port) {
  /** @type {Buffer[]} */
  let tape = [];
  /** @type {Set<import("node:net").Socket>} */
  const sockets = new Set();
  const proxy = createServer({ noDelay: true }, (client) => {
    const server = connect({ port, host: "127.0.0.1", noDelay: true });
    client.on("data", (bytes) => {
      tape.push(bytes);
      server.write(bytes);
    });
    server.on("data", (bytes) => client.write(bytes));
    for (const [one, other] of [
      /** @type {const} */ ([client, server]),
      /** @type {const} */ ([server, client]),
    ]) {
      sockets.add(one);
      one.on("error", () => {});
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", () => resolve(undefined)));
  const address = /** @type {import("node:net").AddressInfo} */ (proxy.address());

  return {
    url: `redis://127.0.0.1:${address.port}`,
    /** What was sent since the last call. */
    take() {
      const bytes = Buffer.concat(tape);
      tape = [];
      return bytes;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}

/**
 * Raw connections that send recorded commands again: the load costs next to nothing, so what is
 * seen is the server's CPU.
 *
 * @param {number} port
 * @param {number} connections
 */
export async function replayer(port, connections) {
  const lines = await Promise.all(Array.from({ length: connections }, () => lineTo(port)));
  return {
    /**
     * Sends each of the writes once, shared out among the connections; each connection's next when
     * the one before is answered.
     *
     * @param {Buffer[]} writes made by {@link markedWrites}
     * @returns {Promise<string>} the end of the last answers
     */
    async play(writes) {
      let next = 0;
      let tail = "";
      await Promise.all(
        lines.map(async (line) => {
          for (let write = writes[next++]; write; write = writes[next++]) tail = await line.send(write);
        }),
      );
      return tail;
    },
    close: () => lines.forEach((line) => line.close()),
  };
}

/**
 * Joins commands to writes of `depth` commands, each with an end that can be recognised.
 *
 * @param {Buffer[]} commands
 * @param {number} depth
 */
export function markedWrites(commands, depth) {
  const writes = [];
  for (let i = 0; i < commands.length; i += depth) {
    writes.push(Buffer.concat([...commands.slice(i, i + depth), MARK_COMMAND]));
  }
  return writes;
}

/** @param {number} port */
async function lineTo(port) {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  await new Promise((resolve, reject) =>
    socket.once("connect", () => resolve(undefined)).once("error", reject),
  );
  let tail = "";
  /** @type {(tail: string) => void} */
  let arrived = () => {};
  socket.on("data", (bytes) => {
    tail = (tail + bytes.toString("latin1", Math.max(0, bytes.length - TAIL))).slice(-TAIL);
    if (tail.endsWith(MARK_ANSWER)) arrived(tail);
  });
  return {
    /** @param {Buffer} bytes */
    send(bytes) {
      tail = "";
      /** @type {Promise<string>} */
      const answered = new Promise((resolve) => (arrived = resolve));
      socket.write(bytes);
      return answered;
    },
    close: () => socket.destroy(),
  };
}
