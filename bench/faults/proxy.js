/** A way to Redis on which replies get lost. */
import { connect, createServer } from "node:net";

/** @typedef {Awaited<ReturnType<typeof losingProxy>>} LosingProxy */

/** Time for Redis to execute what it was sent before its connection goes, milliseconds. */
const EXECUTED_MS = 5;

/** @param {number} port of the server */
export async function losingProxy(port) {
  /** @type {((lost?: undefined) => void) | undefined} */
  let armed;
  /** @type {Set<import("node:net").Socket>} */
  const sockets = new Set();
  const proxy = createServer({ noDelay: true }, (client) => {
    const server = connect({ port, host: "127.0.0.1", noDelay: true });
    /** @type {typeof armed} */
    let doomed;
    client.on("data", (bytes) => {
      if (armed && !doomed && /evalsha/i.test(bytes.toString("latin1"))) [armed, doomed] = [undefined, armed];
      server.write(bytes);
    });
    server.on("data", (bytes) => {
      if (!doomed) return void client.write(bytes);
      doomed();
      setTimeout(() => client.destroy(), EXECUTED_MS);
    });
    joined(client, server);
    joined(server, client);
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", () => resolve(undefined)));
  const address = /** @type {import("node:net").AddressInfo} */ (proxy.address());

  /**
   * @param {import("node:net").Socket} socket
   * @param {import("node:net").Socket} other goes with it
   */
  function joined(socket, other) {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => {
      sockets.delete(socket);
      other.destroy();
    });
  }

  return {
    url: `redis://127.0.0.1:${address.port}`,
    /** The next script that is sent is executed; its reply, and the connection, are lost. Resolves when they are. */
    loseNext: () => new Promise((resolve) => (armed = resolve)),
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}
